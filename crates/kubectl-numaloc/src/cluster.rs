//! Requests to the API server.

use crate::args::Place;
use http::{Method, Request};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use std::{future::Future, process::ExitCode, time::Duration};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Objects of one answer: the API server is not to hold a whole cluster for us.
const PAGE: usize = 500;
/// Lists have the metadata of objects alone.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The reason why a command has failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The API server cannot be reached.
    #[error("cannot reach the API server: {0}")]
    Unreachable(String),
    #[error("the API server refuses: {0}")]
    Forbidden(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// The exit codes of numalocctl: 3 not found, 4 permission, 5 unreachable.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Other(_) => 1,
            Self::NotFound(_) => 3,
            Self::Forbidden(_) => 4,
            Self::Unreachable(_) => 5,
        })
    }
}

/// The calls of an API server that the commands need. Paths are those of its URLs.
pub trait Api {
    /// An object.
    ///
    /// # Errors
    /// [`Failure::NotFound`] also where its kind is not defined.
    fn get(&self, path: &str) -> impl Future<Output = Result<Value, Failure>>;

    /// All objects of a list; `metadata` alone, if that is wanted.
    ///
    /// # Errors
    /// Those of [`Api::get`].
    fn list(&self, path: &str, metadata: bool)
    -> impl Future<Output = Result<Vec<Value>, Failure>>;

    /// Changes an object by a merge patch (RFC 7386).
    ///
    /// # Errors
    /// Those of [`Api::get`].
    fn patch(&self, path: &str, patch: &Value) -> impl Future<Output = Result<Value, Failure>>;
}

pub struct Kube(Client);

impl Kube {
    /// The server that the command line and the kubeconfig name.
    ///
    /// # Errors
    /// There is no such kubeconfig, or it cannot be parsed.
    pub async fn connect(place: &Place) -> Result<Self, Failure> {
        let options = KubeConfigOptions { context: place.context.clone(), ..Default::default() };
        let other = |error: String| Failure::Other(format!("kubeconfig: {error}"));
        let config = match &place.kubeconfig {
            Some(file) => {
                let file = Kubeconfig::read_from(file).map_err(|error| other(error.to_string()))?;
                Config::from_custom_kubeconfig(file, &options).await
            }
            None => Config::from_kubeconfig(&options).await,
        };
        let config = config.map_err(|error| other(error.to_string()))?;
        Client::try_from(config).map(Self).map_err(|error| other(error.to_string()))
    }

    /// The namespace of the context.
    pub fn default_namespace(&self) -> String {
        self.0.default_namespace().to_owned()
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let request = Request::builder().method(method).uri(path).header("accept", accept);
        let request = match body {
            None => request.body(Vec::new()),
            Some(body) => request
                .header("content-type", "application/merge-patch+json")
                .body(body.to_string().into_bytes()),
        };
        let request = request.map_err(|error| Failure::Other(error.to_string()))?;
        match tokio::time::timeout(PATIENCE, self.0.request::<Value>(request)).await {
            Ok(answer) => answer.map_err(failure),
            Err(_) => Err(Failure::Unreachable(format!("no answer within {PATIENCE:?}"))),
        }
    }
}

fn failure(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) => {
            let message = status.message.clone();
            match status.code {
                404 => Failure::NotFound(message),
                401 | 403 => Failure::Forbidden(message),
                _ => Failure::Other(message),
            }
        }
        kube::Error::SerdeError(_) => {
            Failure::Other("the API server's answer is not JSON".to_owned())
        }
        other => Failure::Unreachable(numaloc_api::innermost(&other)),
    }
}

impl Api for Kube {
    async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.request(Method::GET, path, "application/json", None).await
    }

    async fn list(&self, path: &str, metadata: bool) -> Result<Vec<Value>, Failure> {
        let accept = if metadata { METADATA } else { "application/json" };
        let (mut all, mut next) = (Vec::new(), String::new());
        loop {
            let join = if path.contains('?') { '&' } else { '?' };
            let page = format!("{path}{join}limit={PAGE}&continue={next}");
            let mut answer = self.request(Method::GET, &page, accept, None).await?;
            if let Some(Value::Array(items)) = answer.get_mut("items").map(Value::take) {
                all.extend(items);
            }
            match answer.pointer("/metadata/continue").and_then(Value::as_str) {
                None | Some("") => return Ok(all),
                // A token is base64 for URLs (RFC 4648).
                Some(token) => next = token.to_owned(),
            }
        }
    }

    async fn patch(&self, path: &str, patch: &Value) -> Result<Value, Failure> {
        self.request(Method::PATCH, path, "application/json", Some(patch)).await
    }
}
