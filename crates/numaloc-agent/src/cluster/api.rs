//! Calls of the API server. Each has a time limit, and none is repeated here: the caller knows when to retry.

use super::bearer::Bearer;
use crate::metrics::Metrics;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::{Deserialize, de::DeserializeOwned};
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::timeout;

/// Longest wait for an answer's head, and for each further part of it.
const ANSWER: Duration = Duration::from_secs(10);
/// Longest answer that is read, in bytes: a list of 500 large pods has 10 MB.
const ANSWER_MAX: usize = 256 << 20;
/// Time to wait if the server is overloaded and does not say for how long.
const TOO_MUCH: Duration = Duration::from_secs(1);
/// The longest wait that is believed: the server may be behind a proxy that knows nothing.
const TOO_MUCH_MAX: Duration = Duration::from_secs(30);

/// Our name at the API server as the owner of fields.
pub const MANAGER: &str = "numaloc-agent";

/// The reason why a call has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The server has forgotten the version that a watch was to begin with (410).
    #[error("the API server has forgotten this version")]
    Expired,
    /// The server has too much to do (429): not before this time.
    #[error("the API server asks to wait for {0:?}")]
    TooMuch(Duration),
    #[error("the API server refuses it: {0}")]
    Refused(Refusal),
    /// No answer, or none that can be read.
    #[error("the API server does not answer: {0}")]
    Lost(String),
}

/// A refusal of the server, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    pub message: String,
    /// Whether it is known to last: the namespace is being removed, or a quota is used up.
    pub is_lasting: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl ApiError {
    /// The code with which the server refuses it; `None` if it does not.
    pub fn refused(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            _ => None,
        }
    }
}

/// A client of the API server. Clones share its connections.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    /// The token of each request, if the client itself has none.
    bearer: Option<Arc<Bearer>>,
    metrics: Arc<Metrics>,
    /// The namespace that this process is of.
    namespace: String,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

/// The form in which objects are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Whole,
    /// Their metadata alone.
    Metadata,
}

impl Form {
    fn accept(self, is_list: bool) -> &'static str {
        match (self, is_list) {
            (Self::Whole, _) => "application/json",
            (Self::Metadata, false) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
            }
            (Self::Metadata, true) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
        }
    }
}

impl Api {
    /// The API server of a configuration.
    ///
    /// # Errors
    /// Its keys cannot be used.
    pub fn new(mut config: kube::Config) -> anyhow::Result<Self> {
        // It would try for up to a quarter of an hour, and hide it.
        config.default_retry = false;
        config.connect_timeout = Some(ANSWER);
        let agent = concat!("numaloc-agent/", env!("CARGO_PKG_VERSION"));
        let agent = http::HeaderValue::from_static(agent);
        config.headers.push((header::USER_AGENT, agent));
        let namespace = config.default_namespace.clone();
        let client = kube::Client::try_from(config)?;
        Ok(Self { client, bearer: None, metrics: Arc::default(), namespace })
    }

    /// Sends this token with each request.
    pub fn with_bearer(self, bearer: Arc<Bearer>) -> Self {
        Self { bearer: Some(bearer), ..self }
    }

    /// An API server that is not real.
    #[cfg(test)]
    pub fn fake(client: kube::Client) -> Self {
        let namespace = "kube-system".to_owned();
        Self { client, bearer: None, metrics: Arc::default(), namespace }
    }

    /// The namespace that this process is of: that of its pod, or that of the kubeconfig.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The figures that count the calls.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Gets a list.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn list<T: DeserializeOwned>(&self, path: &str, form: Form) -> Result<T, ApiError> {
        let request = request(Method::GET, path).header(header::ACCEPT, form.accept(true));
        let bytes = self.whole("list", request.body(Body::empty())).await?;
        serde_json::from_slice(&bytes).map_err(|error| ApiError::Lost(format!("a list: {error}")))
    }

    /// Gets an object.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        let bytes = self.whole("get", request(Method::GET, path).body(Body::empty())).await?;
        let bad = |error| ApiError::Lost(format!("an object: {error}"));
        serde_json::from_slice(&bytes).map_err(bad)
    }

    /// Begins a watch.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn watch(&self, path: &str, form: Form) -> Result<Lines, ApiError> {
        let request = request(Method::GET, path).header(header::ACCEPT, form.accept(false));
        let head = self.head(request.body(Body::empty())).await;
        self.metrics.requested("watch", end(&head));
        let body = head?;
        Ok(Lines { body, read: Vec::new(), from: 0 })
    }

    /// Creates an object.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn create(&self, path: &str, object: &serde_json::Value) -> Result<(), ApiError> {
        self.post(path, object).await.map(drop)
    }

    /// Creates an object that the API server completes, for example a request for a token.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        object: &serde_json::Value,
    ) -> Result<T, ApiError> {
        // Not the error itself: it may show a part of what was read.
        let bad = |_| ApiError::Lost("an answer cannot be parsed".to_owned());
        serde_json::from_slice(&self.post(path, object).await?).map_err(bad)
    }

    async fn post(&self, path: &str, object: &serde_json::Value) -> Result<Vec<u8>, ApiError> {
        let request = request(Method::POST, &with_manager(path));
        let request = request.header(header::CONTENT_TYPE, "application/json");
        self.whole("create", request.body(object.to_string().into_bytes().into())).await
    }

    /// Changes the fields of an object that `patch` has.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn patch(&self, path: &str, patch: &serde_json::Value) -> Result<(), ApiError> {
        let request = request(Method::PATCH, &with_manager(path));
        let request = request.header(header::CONTENT_TYPE, "application/merge-patch+json");
        self.whole("patch", request.body(patch.to_string().into_bytes().into())).await.map(drop)
    }

    /// Makes the fields that `object` has ours (server-side apply), and creates the object if it is not there.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn apply(&self, path: &str, object: &serde_json::Value) -> Result<(), ApiError> {
        let path = with_manager(path) + "&force=true";
        self.send_apply(&path, object).await
    }

    /// Whether the API server would take an object from us (server-side apply that changes nothing).
    ///
    /// # Errors
    /// There is no answer, or it is a refusal.
    pub async fn try_apply(&self, path: &str, object: &serde_json::Value) -> Result<(), ApiError> {
        let path = with_manager(path) + "&force=true&dryRun=All";
        self.send_apply(&path, object).await
    }

    async fn send_apply(&self, path: &str, object: &serde_json::Value) -> Result<(), ApiError> {
        let request = request(Method::PATCH, path);
        let request = request.header(header::CONTENT_TYPE, "application/apply-patch+yaml");
        self.whole("apply", request.body(object.to_string().into_bytes().into())).await.map(drop)
    }

    /// The body of a successful answer.
    async fn head(&self, request: http::Result<Request<Body>>) -> Result<Body, ApiError> {
        let mut request = request.map_err(|error| ApiError::Lost(error.to_string()))?;
        if let Some(bearer) = &self.bearer {
            request.headers_mut().insert(header::AUTHORIZATION, bearer.header());
        }
        let answer = match timeout(ANSWER, self.client.send(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(ApiError::Lost(numaloc_api::innermost(&error))),
            Err(_) => return Err(ApiError::Lost(format!("no answer within {ANSWER:?}"))),
        };
        let (head, body) = answer.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let after = head.headers.get(header::RETRY_AFTER);
        let after = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
        let bytes = collect(body).await.unwrap_or_default();
        Err(refusal(head.status, after, &bytes))
    }

    async fn whole(
        &self,
        verb: &'static str,
        request: http::Result<Request<Body>>,
    ) -> Result<Vec<u8>, ApiError> {
        let done = match self.head(request).await {
            Ok(body) => collect(body).await,
            Err(error) => Err(error),
        };
        self.metrics.requested(verb, end(&done));
        done
    }
}

/// The outcome of a call, for the figures.
fn end<T>(done: &Result<T, ApiError>) -> &'static str {
    match done {
        Ok(_) => "done",
        Err(ApiError::Expired) => "expired",
        Err(ApiError::TooMuch(_)) => "too_much",
        Err(ApiError::Refused(_)) => "refused",
        Err(ApiError::Lost(_)) => "lost",
    }
}

fn request(method: Method, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path)
}

fn with_manager(path: &str) -> String {
    format!("{path}?fieldManager={MANAGER}")
}

async fn collect(mut body: Body) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(part) = part(&mut body, ANSWER).await? {
        bytes.extend_from_slice(&part);
        if bytes.len() > ANSWER_MAX {
            return Err(ApiError::Lost(format!("it is longer than {ANSWER_MAX} bytes")));
        }
    }
    Ok(bytes)
}

/// The next part of an answer; `None` at its end.
async fn part(body: &mut Body, patience: Duration) -> Result<Option<Vec<u8>>, ApiError> {
    loop {
        match timeout(patience, body.frame()).await {
            Err(_) => return Err(ApiError::Lost(format!("nothing within {patience:?}"))),
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => return Err(ApiError::Lost(error.to_string())),
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data.to_vec()));
                }
            }
        }
    }
}

/// `metav1.Status`, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    message: String,
    code: u16,
    details: Details,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: u64,
    causes: Vec<Cause>,
}

/// A cause of a refusal (`metav1.StatusCause`).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
}

/// The cause of refusals in a namespace that is being removed (`corev1.NamespaceTerminatingCause`).
const TERMINATING: &str = "NamespaceTerminating";
/// The words of a used-up quota (apiserver's admission plugin `resourcequota`).
const QUOTA: &str = "exceeded quota";

impl Status {
    pub fn error(self) -> ApiError {
        let status = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.error_of(status, None)
    }

    fn error_of(self, status: StatusCode, after: Option<u64>) -> ApiError {
        let after = after.or(Some(self.details.retry_after_seconds).filter(|&after| after > 0));
        match status {
            StatusCode::GONE => ApiError::Expired,
            StatusCode::TOO_MANY_REQUESTS => {
                let after = after.map_or(TOO_MUCH, Duration::from_secs);
                ApiError::TooMuch(after.min(TOO_MUCH_MAX))
            }
            status if status.is_server_error() => {
                ApiError::Lost(format!("{} ({})", self.message, status.as_u16()))
            }
            status => {
                let mut causes = self.details.causes.iter();
                let is_lasting =
                    causes.any(|cause| cause.reason == TERMINATING) || self.message.contains(QUOTA);
                let message = numaloc_config::written::shown(&self.message, 1000);
                ApiError::Refused(Refusal { code: status.as_u16(), message, is_lasting })
            }
        }
    }
}

fn refusal(status: StatusCode, after: Option<u64>, body: &[u8]) -> ApiError {
    // Priority and fairness answers in plain text.
    let text =
        || Status { message: String::from_utf8_lossy(body).trim().to_owned(), ..Status::default() };
    serde_json::from_slice(body).unwrap_or_else(|_| text()).error_of(status, after)
}

/// The lines of an answer that does not end soon.
pub struct Lines {
    body: Body,
    read: Vec<u8>,
    /// Offset at which the search for the next line continues.
    from: usize,
}

impl Lines {
    /// The next line; `None` at the end. Within `patience` something has to come.
    ///
    /// # Errors
    /// Nothing has come, or the connection has failed.
    pub async fn next(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, ApiError> {
        loop {
            let found = self.read[self.from..].iter().position(|&byte| byte == b'\n');
            if let Some(at) = found {
                let rest = self.read.split_off(self.from + at + 1);
                self.from = 0;
                return Ok(Some(std::mem::replace(&mut self.read, rest)));
            }
            self.from = self.read.len();
            match part(&mut self.body, patience).await? {
                Some(part) => self.read.extend_from_slice(&part),
                None => return Ok(None),
            }
            if self.read.len() > ANSWER_MAX {
                return Err(ApiError::Lost(format!("a line is longer than {ANSWER_MAX} bytes")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do() {
        let status = |code| StatusCode::from_u16(code).expect("a code");
        let json =
            br#"{"kind":"Status","message":"no","code":422,"details":{"retryAfterSeconds":3}}"#;
        let refusal_of = |code, message: &str, is_lasting| {
            ApiError::Refused(Refusal { code, message: message.to_owned(), is_lasting })
        };
        let refused = |code, message: &str| refusal_of(code, message, false);
        let terminating = br#"{"kind":"Status","message":"no","code":403,"details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#;
        for (code, after, body, expected) in [
            (410, None, &b"x"[..], ApiError::Expired),
            (429, Some(7), b"x", ApiError::TooMuch(Duration::from_secs(7))),
            (429, None, json, ApiError::TooMuch(Duration::from_secs(3))),
            (429, None, b"", ApiError::TooMuch(TOO_MUCH)),
            (429, Some(u64::MAX), b"", ApiError::TooMuch(TOO_MUCH_MAX)),
            (422, None, json, refused(422, "no")),
            (403, None, b"forbidden\n", refused(403, "forbidden")),
            (403, None, terminating, refusal_of(403, "no", true)),
            (403, None, b"x: exceeded quota: y", refusal_of(403, "x: exceeded quota: y", true)),
            (503, None, b"soon", ApiError::Lost("soon (503)".to_owned())),
        ] {
            assert_eq!(refusal(status(code), after, body), expected, "{code}");
        }
    }
}
