//! An API server that is not real, in memory: lists, watches, patches of pods' annotations, and events, as the real one
//! answers them.

mod write;

use crate::{clock, cluster::api::Api};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Bytes, Frame};
use numaloc_policy::{NODES_PLURAL, PolicyKind};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    future::pending,
    sync::Arc,
};
use tokio::sync::{Notify, mpsc};
use tokio_stream::{StreamExt, wrappers::UnboundedReceiverStream};
use write::{answer, is_policy_status, is_selected, undefined};

/// The node that the agent is for.
pub const NODE: &str = "node-1";
/// The path where agents write reports about their nodes.
const NODE_LOCALITIES: &str = "/apis/numaloc.io/v1alpha1/nodememorylocalities/";

/// The Leases of the agents' namespace.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A cluster. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Cluster(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Objects by the path of their collection, and `namespace/name`.
    objects: BTreeMap<(String, String), Value>,
    /// Changes: the version, the path of the collection, and what watches are shown.
    history: Vec<(u64, String, Arc<Value>)>,
    version: u64,
    /// Watches from before this version have expired.
    oldest: u64,
    /// Counts the times that all connections were cut.
    cuts: u64,
    events: BTreeMap<String, Value>,
    requests: Vec<String>,
    is_hung: bool,
    is_gone: bool,
    refuses_token: bool,
    /// Its watches report no version, as those of kinds that have not changed since its start.
    is_silent: bool,
    /// The next writes are refused like this, with a time to wait.
    busy: u32,
    /// The next writes are refused for want of a right.
    forbidden: u32,
    /// Writes to this namespace are refused for want of a right; empty: none are.
    forbidden_namespace: String,
    /// Lists of this path are refused for want of a right; empty: none are.
    forbidden_list: String,
    /// The paths of kinds that are defined by custom resources.
    kinds: BTreeSet<String>,
    /// Number of writes of NodeMemoryLocality, and of the status of policies.
    node_writes: usize,
    status_writes: usize,
}

impl Cluster {
    /// A cluster with the node.
    pub fn new() -> Self {
        let cluster = Self::default();
        let node = json!({"metadata": {"name": NODE, "uid": "node-uid", "labels": {"pool": "db"}}});
        cluster.put("/api/v1/nodes", NODE, node);
        cluster
    }

    /// A client of this cluster.
    pub fn api(&self) -> Api {
        let cluster = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let cluster = cluster.clone();
            async move { cluster.serve(request).await }
        });
        Api::fake(kube::Client::new(service, "default"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// Creates or replaces an object.
    pub fn put(&self, path: &str, name: &str, mut object: Value) {
        let mut state = self.state();
        state.version += 1;
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        let before = state.objects.insert((path.to_owned(), name.to_owned()), object.clone());
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        state.tell(path, kind, &object);
        drop(state);
        self.0.changed.notify_waiters();
    }

    pub fn remove(&self, path: &str, name: &str) {
        let mut state = self.state();
        state.version += 1;
        let gone = state.objects.remove(&(path.to_owned(), name.to_owned()));
        let mut gone = gone.expect("it is there");
        gone["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.tell(path, "DELETED", &gone);
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Defines the kinds of policies, and that of the reports.
    pub fn define(&self) {
        let kinds = PolicyKind::ALL.map(PolicyKind::plural).into_iter().chain([NODES_PLURAL]);
        for kind in kinds {
            self.state().kinds.insert(format!("/apis/numaloc.io/v1alpha1/{kind}"));
        }
    }

    /// The status of a policy.
    pub fn status(&self, namespace: &str, name: &str) -> Value {
        let kind = if namespace.is_empty() { PolicyKind::Cluster } else { PolicyKind::Namespaced };
        let path = format!("/apis/numaloc.io/v1alpha1/{}", kind.plural());
        let state = self.state();
        let object = state.objects.get(&(path, format!("{namespace}/{name}")));
        object.map(|object| object["status"].clone()).unwrap_or_default()
    }

    /// The agent that holds the Lease.
    pub fn leader(&self) -> Option<String> {
        let state = self.state();
        let mut leases = state.objects.iter().filter(|((path, _), _)| path == LEASES);
        Some(leases.next()?.1["spec"]["holderIdentity"].as_str()?.to_owned())
    }

    /// The number of writes of the status of policies.
    pub fn status_writes(&self) -> usize {
        self.state().status_writes
    }

    /// The agent's report about its node.
    pub fn node_locality(&self) -> Option<Value> {
        let key = (NODE_LOCALITIES.trim_end_matches('/').to_owned(), NODE.to_owned());
        self.state().objects.get(&key).cloned()
    }

    /// Removes the definitions of the kinds.
    pub fn undefine(&self) {
        self.state().kinds.clear();
    }

    /// Creates or replaces a policy; without a namespace it is of the cluster.
    pub fn policy(&self, namespace: &str, name: &str, spec: &Value) {
        let (kind, metadata) = match namespace {
            "" => (PolicyKind::Cluster, json!({"name": name, "uid": name})),
            _ => {
                (PolicyKind::Namespaced, json!({"name": name, "uid": name, "namespace": namespace}))
            }
        };
        let path = format!("/apis/numaloc.io/v1alpha1/{}", kind.plural());
        let key = format!("{namespace}/{name}");
        let before = self.state().objects.get(&(path.clone(), key.clone())).cloned();
        let before = before.unwrap_or_default();
        let mut object = json!({"metadata": metadata, "spec": spec, "status": before["status"]});
        let generation = before["metadata"]["generation"].as_u64().unwrap_or_default();
        let is_same = before["spec"] == *spec;
        object["metadata"]["generation"] = (generation + u64::from(!is_same)).into();
        let now = numaloc_api::timestamp(clock::now()).to_string();
        object["metadata"]["managedFields"] = json!([{"manager": "kubectl", "time": now}]);
        self.put(&path, &key, object);
    }

    /// Creates or replaces a pod.
    pub fn pod(&self, pod: Value) {
        let name = format!(
            "{}/{}",
            pod["metadata"]["namespace"].as_str().expect("text"),
            pod["metadata"]["name"].as_str().expect("text")
        );
        self.put("/api/v1/pods", &name, pod);
    }

    pub fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut pod = self.get(name);
        change(&mut pod);
        self.pod(pod);
    }

    /// Sets annotations of a pod.
    pub fn annotate(&self, name: &str, annotations: &[(&str, &str)]) {
        self.change(name, |pod| {
            for (key, value) in annotations {
                pod["metadata"]["annotations"][key] = (*value).into();
            }
        });
    }

    pub fn get(&self, name: &str) -> Value {
        let key = ("/api/v1/pods".to_owned(), name.to_owned());
        self.state().objects.get(&key).expect("it is there").clone()
    }

    /// The annotation of a pod.
    pub fn annotation(&self, name: &str, key: &str) -> Option<String> {
        Some(self.get(name)["metadata"]["annotations"].get(key)?.as_str()?.to_owned())
    }

    /// The events of a pod as `reason: message`, in the order of their names.
    pub fn events(&self, name: &str) -> Vec<String> {
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let state = self.state();
        let of = state.events.values().filter(|event| {
            let object = &event["involvedObject"];
            format!("{}/{}", text(object, "namespace"), text(object, "name")) == name
        });
        of.map(|event| format!("{}: {}", text(event, "reason"), text(event, "message"))).collect()
    }

    /// The number of the agent's reports about its node.
    pub fn node_writes(&self) -> usize {
        self.state().node_writes
    }

    /// Takes the requests so far, as `METHOD path`, but for those about nodes, Leases and the status of policies.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state().requests)
    }

    /// All connections are cut, and no request before this version is continued.
    pub fn expire(&self) {
        self.cut(|state| {
            state.oldest = state.version + 1;
            state.version += 1;
        });
    }

    /// Whether it answers nothing.
    pub fn hang(&self, is_hung: bool) {
        self.state().is_hung = is_hung;
        self.0.changed.notify_waiters();
    }

    /// Its watches report only changes.
    pub fn be_silent(&self) {
        self.state().is_silent = true;
    }

    /// Whether it is reachable.
    pub fn go(&self, is_gone: bool) {
        self.cut(|state| state.is_gone = is_gone);
    }

    /// Whether the token has expired: all connections are cut, and each request is answered with 401.
    pub fn refuse_token(&self, refuses: bool) {
        self.cut(|state| state.refuses_token = refuses);
    }

    /// Changes its state, and cuts all connections.
    fn cut(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        state.cuts += 1;
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// The next `times` writes are refused as too many.
    pub fn be_busy(&self, times: u32) {
        self.state().busy = times;
    }

    /// The right to the next `times` writes is missing, as while an API server starts.
    pub fn forbid(&self, times: u32) {
        self.state().forbidden = times;
    }

    /// The right to writes of this namespace is missing; empty: of none.
    pub fn forbid_in(&self, namespace: &str) {
        namespace.clone_into(&mut self.state().forbidden_namespace);
    }

    /// From now on the agent may not list this path.
    pub fn forbid_list(&self, path: &str) {
        self.state().forbidden_list = path.to_owned();
    }

    async fn serve(&self, request: Request<kube::client::Body>) -> Result<Answer, std::io::Error> {
        let (head, body) = request.into_parts();
        let (is_hung, is_gone) = {
            let mut state = self.state();
            let is_dry = head.uri.query().is_some_and(|query| query.contains("dryRun"));
            let path = head.uri.path();
            let nodes = NODE_LOCALITIES.trim_end_matches('/');
            if path.starts_with(NODE_LOCALITIES) {
                state.node_writes += usize::from(!is_dry);
            } else if path != nodes && !path.starts_with(LEASES) && !is_policy_status(path) {
                state.requests.push(format!("{} {}", head.method, head.uri));
            }
            (state.is_hung, state.is_gone)
        };
        if is_hung {
            pending::<()>().await;
        }
        if self.state().refuses_token {
            let body = json!({"code": 401, "message": "Unauthorized"});
            return Ok(answer(StatusCode::UNAUTHORIZED, &body));
        }
        if is_gone {
            return Err(std::io::Error::other("connection refused"));
        }
        let bytes = body.collect_bytes().await.map_err(std::io::Error::other)?;
        let query: BTreeMap<&str, &str> = head
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let path = head.uri.path();
        Ok(match head.method {
            Method::GET if query.contains_key("watch") => {
                let from = query["resourceVersion"].parse().expect("a version");
                let selector = query.get("fieldSelector").copied().unwrap_or_default();
                self.watch(path, selector.to_owned(), from)
            }
            Method::GET if path.starts_with(LEASES) => self.lease(path),
            Method::GET if path == self.state().forbidden_list => {
                answer(StatusCode::FORBIDDEN, &json!({"code": 403, "message": "Forbidden"}))
            }
            Method::GET if path.starts_with("/apis/") && !self.state().kinds.contains(path) => {
                undefined()
            }
            Method::GET => self.list(path, query.get("fieldSelector").copied().unwrap_or_default()),
            _ if query.contains_key("dryRun") => self.try_write(),
            _ => self.write(&head.method, path, &bytes),
        })
    }

    fn list(&self, path: &str, selector: &str) -> Answer {
        let state = self.state();
        let items = state
            .objects
            .iter()
            .filter(|((of, _), object)| of == path && is_selected(selector, object));
        let items: Vec<_> = items.map(|(_, object)| object.clone()).collect();
        let list =
            json!({"metadata": {"resourceVersion": state.version.to_string()}, "items": items});
        answer(StatusCode::OK, &list)
    }

    fn lease(&self, path: &str) -> Answer {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        match self.state().objects.get(&(LEASES.to_owned(), name)) {
            Some(lease) => answer(StatusCode::OK, lease),
            None => undefined(),
        }
    }

    fn watch(&self, path: &str, selector: String, from: u64) -> Answer {
        let (sender, receiver) = mpsc::unbounded_channel();
        let cluster = self.clone();
        let path = path.to_owned();
        let (is_expired, cuts) = {
            let state = self.state();
            (from < state.oldest, state.cuts)
        };
        if is_expired {
            let status =
                json!({"kind": "Status", "code": 410, "message": "too old resource version"});
            // As the real server does: the answer begins, and carries the error.
            drop(sender.send(format!("{}\n", json!({"type": "ERROR", "object": status}))));
        } else {
            tokio::spawn(async move {
                let mut at = from;
                loop {
                    let changed = cluster.0.changed.notified();
                    tokio::pin!(changed);
                    changed.as_mut().enable();
                    let lines: Vec<_> = {
                        let state = cluster.state();
                        if state.cuts != cuts {
                            return;
                        }
                        match state.is_hung {
                            true => Vec::new(),
                            false => {
                                let begin = state.history.partition_point(|(it, ..)| *it <= at);
                                let new =
                                    state.history[begin..].iter().filter(|(_, of, change)| {
                                        *of == path && is_selected(&selector, &change["object"])
                                    });
                                let lines = new.map(|(.., change)| format!("{change}\n")).collect();
                                at = state.version;
                                lines
                            }
                        }
                    };
                    for line in lines {
                        if sender.send(line).is_err() {
                            return;
                        }
                    }
                    // A bookmark each minute.
                    let minute = tokio::time::sleep(std::time::Duration::from_secs(60));
                    tokio::select! {
                        () = changed => {}
                        () = sender.closed() => return,
                        () = minute => {
                            let is_hung = {
                                let state = cluster.state();
                                state.is_hung || state.is_silent
                            };
                            let meta = json!({"metadata": {"resourceVersion": at.to_string()}});
                            let line = format!("{}\n", json!({"type": "BOOKMARK", "object": meta}));
                            if !is_hung && sender.send(line).is_err() {
                                return;
                            }
                        }
                    }
                }
            });
        }
        let frames = UnboundedReceiverStream::new(receiver)
            .map(|line: String| Ok(Frame::data(Bytes::from(line))));
        Response::new(BodyExt::boxed(StreamBody::new(frames)))
    }

    /// A write of the node's object that changes nothing.
    fn try_write(&self) -> Answer {
        match self.state().kinds.is_empty() {
            true => undefined(),
            false => answer(StatusCode::OK, &json!({})),
        }
    }
}

impl State {
    fn tell(&mut self, path: &str, kind: &str, object: &Value) {
        let change = json!({"type": kind, "object": object});
        self.history.push((self.version, path.to_owned(), Arc::new(change)));
    }
}
