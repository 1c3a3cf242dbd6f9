//! The agent with answers that a real API server has given to it: `tests/kubernetes/agent record` has recorded them,
//! and says when they are out of date.

use super::{Agent, Fake, samples::end, until};
use crate::{
    cluster::api::{Api, ApiError, Form},
    config::Config,
    labels::MARK,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Bytes, Frame};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};
use tokio::sync::watch;

const RECORDED: &str = include_str!("../../tests/recorded.json");
/// Objects written in intervals, and not because of an event: of the node, the Lease, and statuses of policies.
const TIMED: [&str; 3] = ["/nodememorylocalities", "/leases", "policies/"];
/// The node whose agent was recorded.
const NODE: &str = "node-a";

type Body = BoxBody<Bytes, Infallible>;

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Entry {
    /// A line of a watch.
    Line {
        /// Set if the test has asked, and not the agent.
        name: Option<String>,
        watch: String,
        query: BTreeMap<String, String>,
        line: Value,
    },
    /// A request and its answer.
    Call {
        name: Option<String>,
        method: String,
        path: String,
        query: BTreeMap<String, String>,
        #[serde(rename = "type")]
        content: Option<String>,
        sent: Option<Value>,
        status: u16,
        retry_after: Option<String>,
        #[serde(default)]
        answer: Value,
    },
}

fn recorded() -> Vec<Entry> {
    serde_json::from_str(RECORDED).expect("a recording")
}

/// The requested objects: the path, with the selector if there is one.
fn selected(path: &str, query: &BTreeMap<String, String>) -> String {
    match query.get("fieldSelector") {
        Some(selector) => format!("{path}?{selector}"),
        None => path.to_owned(),
    }
}

fn is_timed(path: &str) -> bool {
    TIMED.iter().any(|part| path.contains(part))
}

fn query_of(uri: &http::Uri) -> BTreeMap<String, String> {
    let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.replace("%3D", "="))).collect()
}

/// The paths of all fields.
fn fields(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    into.insert(path.to_owned());
    match value {
        Value::Object(object) => {
            object.iter().for_each(|(key, value)| fields(value, &format!("{path}.{key}"), into));
        }
        Value::Array(list) => {
            list.iter().for_each(|value| fields(value, &format!("{path}[]"), into))
        }
        _ => {}
    }
}

fn fields_of(value: Option<&Value>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    fields(value.unwrap_or(&Value::Null), "", &mut all);
    all
}

/// Answers the agent as it was answered.
struct Player {
    entries: Vec<Entry>,
    /// The writes that are still to come, in their order.
    writes: Mutex<Vec<Entry>>,
    /// The number of writes received.
    written: watch::Sender<usize>,
    lists: Mutex<BTreeMap<String, usize>>,
    /// How often the Lease was read.
    leases: Mutex<usize>,
}

impl Player {
    fn new() -> Arc<Self> {
        let is_write = |entry: &&Entry| matches!(entry, Entry::Call { name: None, method, path, .. } if method != "GET" && !is_timed(path));
        let entries = recorded();
        let writes = entries.iter().filter(is_write).cloned().collect();
        let lists = Mutex::default();
        Arc::new(Self {
            entries,
            writes: Mutex::new(writes),
            written: watch::Sender::new(0),
            lists,
            leases: Mutex::default(),
        })
    }

    fn api(self: &Arc<Self>) -> Api {
        let player = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let player = Arc::clone(&player);
            async move { player.serve(request).await }
        });
        Api::fake(kube::Client::new(service, "default"))
    }

    async fn serve(
        &self,
        request: Request<kube::client::Body>,
    ) -> Result<Response<Body>, std::io::Error> {
        let (head, body) = request.into_parts();
        let bytes = body.collect_bytes().await.map_err(std::io::Error::other)?;
        let path = head.uri.path();
        let query = query_of(&head.uri);
        Ok(match head.method {
            Method::GET if path.contains("/leases/") => self.lease(path),
            Method::GET if query.contains_key("watch") => self.watch(path, &query),
            Method::GET => self.list(path, &query),
            _ => {
                let content = head.headers.get("content-type").map(|of| of.to_str().expect("text"));
                let sent: Value = serde_json::from_slice(&bytes).expect("JSON");
                let method = head.method.as_str();
                match is_timed(path) {
                    true => self.write_in_time(method, path),
                    false => self.write(method, path, content, &sent),
                }
            }
        })
    }

    fn list(&self, path: &str, query: &BTreeMap<String, String>) -> Response<Body> {
        let wanted = selected(path, query);
        *self.lists.lock().entry(wanted.clone()).or_default() += 1;
        let found = self.entries.iter().find_map(|entry| match entry {
            Entry::Call { name: None, method, path, query: of, status, answer, .. }
                if method == "GET" && !of.contains_key("watch") && selected(path, of) == wanted =>
            {
                assert_eq!(of.get("resourceVersion"), query.get("resourceVersion"), "{wanted}");
                Some(response(*status, None, answer))
            }
            _ => None,
        });
        found.unwrap_or_else(|| panic!("not recorded: {wanted}"))
    }

    /// The first watch of each kind ends with 410: its version is not kept any more.
    fn watch(&self, path: &str, query: &BTreeMap<String, String>) -> Response<Body> {
        let wanted = selected(path, query);
        let (mut after, mut lines) = (0, Vec::new());
        let is_first = self.lists.lock().get(&wanted) == Some(&1);
        for entry in &self.entries {
            match entry {
                Entry::Call { name: None, method, path, .. }
                    if method != "GET" && !is_timed(path) =>
                {
                    after += 1;
                }
                Entry::Line { name: None, watch, query: of, line }
                    if !is_first && selected(watch, of) == wanted =>
                {
                    lines.push((after, line.to_string()));
                }
                Entry::Line { name: Some(_), line, .. } if is_first => {
                    lines.push((0, line.to_string()));
                }
                _ => {}
            }
        }
        let mut written = self.written.subscribe();
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            for (after, line) in lines {
                let Ok(_) = written.wait_for(|written| *written >= after).await else { return };
                drop(sender.send(Ok(Frame::data(Bytes::from(line + "\n")))));
            }
            sender.closed().await;
        });
        let lines = tokio_stream::wrappers::UnboundedReceiverStream::new(receiver);
        Response::new(BodyExt::boxed(StreamBody::new(lines)))
    }

    /// There is none at first, and then the agent's own.
    fn lease(&self, wanted: &str) -> Response<Body> {
        let answers: Vec<_> = self.calls("GET", wanted).collect();
        let mut read = self.leases.lock();
        let (status, answer) = answers[(*read).min(answers.len() - 1)];
        *read += 1;
        response(status, None, answer)
    }

    /// The recorded calls of this method and path, in their order: status and answer.
    fn calls<'a>(
        &'a self,
        wanted: &'a str,
        place: &'a str,
    ) -> impl Iterator<Item = (u16, &'a Value)> {
        self.entries.iter().filter_map(move |entry| match entry {
            Entry::Call { name: None, method, path, status, answer, .. }
                if method == wanted && path == place =>
            {
                Some((*status, answer))
            }
            _ => None,
        })
    }

    /// When it comes depends on the clock, so it is answered as its like was.
    fn write_in_time(&self, method: &str, path: &str) -> Response<Body> {
        let like = self.calls(method, path).next();
        let (status, answer) = like.unwrap_or_else(|| panic!("{method} {path} was not recorded"));
        response(status, None, answer)
    }

    /// It has to be the next one that was recorded, with the same fields.
    fn write(
        &self,
        method: &str,
        path: &str,
        content: Option<&str>,
        sent: &Value,
    ) -> Response<Body> {
        let next = {
            let mut writes = self.writes.lock();
            assert!(!writes.is_empty(), "{method} {path} was not recorded: {sent}");
            writes.remove(0)
        };
        let Entry::Call {
            method: of, path: at, content: with, sent: recorded, status, answer, ..
        } = next
        else {
            unreachable!("a line is no write")
        };
        assert_eq!((method, path, content), (&*of, &*at, with.as_deref()), "{sent}");
        assert_eq!(fields_of(Some(sent)), fields_of(recorded.as_ref()), "{method} {path}: {sent}");
        self.written.send_modify(|written| *written += 1);
        response(status, None, &answer)
    }
}

fn response(status: u16, retry_after: Option<&str>, answer: &Value) -> Response<Body> {
    let text = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
    let mut response = Response::new(BodyExt::boxed(Full::new(Bytes::from(text))));
    *response.status_mut() = StatusCode::from_u16(status).expect("a code");
    if let Some(after) = retry_after {
        response.headers_mut().insert("retry-after", after.parse().expect("a header"));
    }
    response
}

#[tokio::test(start_paused = true)]
async fn a_pods_life_is_as_it_was_recorded() {
    let (player, fake) = (Player::new(), Fake::new(MARK));
    let _agent = Agent::on(NODE, Config::default(), player.api(), fake.clone());
    until(async || fake.names().1.len() == 1).await;
    let schedule = fake.schedules().into_values().next().expect("it was just there");
    tokio::time::sleep(Duration::from_secs(1)).await;
    fake.happens(end(&schedule, 1, 1, false, (100, 0)));
    // Its event, its status, and then its end.
    until(async || player.writes.lock().is_empty()).await;
    until(async || fake.names().1.is_empty()).await;
    // The leader reads the nodes' objects at a time of its own.
    let is_read = |lists: &BTreeMap<_, _>| lists.len() == 6 && lists.values().all(|&of| of >= 2);
    until(async || is_read(&player.lists.lock())).await;
    let lists = player.lists.lock().clone();
    assert!(lists.values().all(|&lists| lists == 2), "each was forgotten once: {lists:?}");
}

#[tokio::test(start_paused = true)]
async fn refusals_are_understood() {
    let mut names = Vec::new();
    for entry in recorded() {
        let Entry::Call { name: Some(name), status, retry_after, answer, .. } = entry else {
            continue;
        };
        if status == 200 {
            continue;
        }
        let said = answer.clone();
        let service = tower::service_fn(move |_: Request<kube::client::Body>| {
            let response = response(status, retry_after.as_deref(), &said);
            async move { Ok::<_, std::io::Error>(response) }
        });
        let api = Api::fake(kube::Client::new(service, "default"));
        let error = api.list::<Value>("/x", Form::Whole).await.expect_err("it is refused");
        match status {
            429 => assert_eq!(error, ApiError::TooMuch(Duration::from_secs(1)), "{name}"),
            _ => assert_eq!(error.refused(), Some(status), "{name}: {error}"),
        }
        let words = answer.get("message").and_then(Value::as_str).unwrap_or_default();
        assert!(status == 429 || error.to_string().contains(words), "{name}: {error}");
        names.push(status);
    }
    names.sort_unstable();
    assert_eq!(names, [401, 403, 404, 404, 409, 422, 422, 429]);
}
