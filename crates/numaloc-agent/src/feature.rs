//! The remote share of the node as a class, for schedulers: a NodeFeature object, of which Node Feature Discovery makes
//! a label of the node. A class in place of a number bounds the writes of Nodes, which many components watch.

use crate::cluster::api::{Api, ApiError};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{convert::Infallible, time::Duration};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

/// The API of Node Feature Discovery, which a cluster may lack.
const API_VERSION: &str = "nfd.k8s-sigs.io/v1alpha1";
/// The label of a NodeFeature that names its node.
const NODE_LABEL: &str = "nfd.node.kubernetes.io/node-name";
/// The label of the node.
const LABEL: &str = "numaloc.io/remote-share";
/// Shortest time between two writes, and the time after which one that was refused is tried again.
const GAP: Duration = Duration::from_secs(600);
/// The time after which the object is written again, in case that another client has changed or deleted it.
const REPEAT: Duration = Duration::from_secs(3600);
/// The time without figures after which the label is taken away.
const GONE: Duration = Duration::from_secs(1800);
/// Longest time between two looks.
const LOOK: Duration = Duration::from_secs(60);

/// The share of remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    None,
    Low,
    Medium,
    High,
}

/// The smallest share of each class, in thousandths. Below the first is none.
const FROM: [(Class, u128); 3] = [(Class::Low, 10), (Class::Medium, 100), (Class::High, 300)];

impl Class {
    /// The class of a node with this number of local and remote bytes. It is left downwards only below four fifths of
    /// its smallest share, so that a share about there does not change it again and again.
    fn of(local: u64, remote: u64, before: Option<Self>) -> Self {
        let all = u128::from(local) + u128::from(remote);
        let share = (1000 * u128::from(remote)).checked_div(all).unwrap_or_default();
        let is_reached = |(class, from): &(Self, u128)| {
            let is_kept = before.is_some_and(|before| before >= *class);
            share >= if is_kept { from * 4 / 5 } else { *from }
        };
        FROM.into_iter().filter(is_reached).map(|(class, _)| class).max().unwrap_or(Self::None)
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// The share as it was last measured.
#[derive(Debug)]
pub struct Share {
    state: Mutex<State>,
    seen: Notify,
}

#[derive(Debug)]
struct State {
    class: Option<Class>,
    /// When it was last measured; before that, when this process began.
    measured: Instant,
    node_uid: String,
}

impl Default for Share {
    fn default() -> Self {
        let state = State { class: None, measured: Instant::now(), node_uid: String::new() };
        Self { state: Mutex::new(state), seen: Notify::new() }
    }
}

impl Share {
    /// Takes the local and remote bytes of the node with this uid; `None`: they cannot be read.
    pub fn report(&self, node_uid: &str, memory: Option<(u64, u64)>) {
        let mut state = self.state.lock();
        node_uid.clone_into(&mut state.node_uid);
        if let Some((local, remote)) = memory {
            state.class = Some(Class::of(local, remote, state.class));
            state.measured = Instant::now();
        }
        drop(state);
        self.seen.notify_one();
    }

    /// What the label should be, and the uid of the node: no label if nothing has been measured for long; `None` if
    /// nothing is known yet.
    fn wanted(&self) -> Option<(Option<Class>, String)> {
        let state = self.state.lock();
        let class = if state.measured.elapsed() < GONE { Some(state.class?) } else { None };
        Some((class, state.node_uid.clone()))
    }
}

/// Whether a class is to be written after another one was, this long ago.
fn is_due(class: Option<Class>, written: Option<(Option<Class>, Duration)>) -> bool {
    written.is_none_or(|(last, ago)| ago >= REPEAT || ago >= GAP && class != last)
}

/// Writes the NodeFeature of the node forever.
pub async fn write(node: &str, api: &Api, share: &Share) -> Infallible {
    let namespace = api.namespace();
    let path = format!("/apis/{API_VERSION}/namespaces/{namespace}/nodefeatures/{}", name(node));
    let mut written: Option<(Option<Class>, Instant)> = None;
    let mut said = None;
    loop {
        let _ = timeout(LOOK, share.seen.notified()).await;
        let Some((class, uid)) = share.wanted() else { continue };
        if !is_due(class, written.map(|(class, at)| (class, at.elapsed()))) {
            continue;
        }
        let why = match api.apply(&path, &object(node, &uid, class)).await {
            Ok(()) => {
                (written, said) = (Some((class, Instant::now())), None);
                continue;
            }
            Err(error) if error.refused() == Some(404) => {
                format!(
                    "the cluster does not define NodeFeature of {API_VERSION}: install Node Feature Discovery, or switch node_feature off"
                )
            }
            Err(error) => {
                let why = error.to_string();
                if let ApiError::Lost(_) | ApiError::TooMuch(_) = error {
                    say(&mut said, why);
                    sleep(LOOK).await;
                    continue;
                }
                why
            }
        };
        say(&mut said, why);
        sleep(GAP).await;
    }
}

/// Logs an error, unless it is the last one again.
fn say(said: &mut Option<String>, why: String) {
    if said.as_ref() != Some(&why) {
        tracing::warn!("the label {LABEL} of the node: {why}. It is tried again");
        *said = Some(why);
    }
}

/// The name of the object of a node.
fn name(node: &str) -> String {
    format!("numaloc-{node}")
}

/// The object of the node, which owns it: it goes with the node. Without a class it has no label, and so takes away
/// that which it had.
fn object(node: &str, node_uid: &str, class: Option<Class>) -> Value {
    let labels = class.map(|class| (LABEL.to_owned(), Value::from(class.name())));
    let mut object = json!({
        "apiVersion": API_VERSION,
        "kind": "NodeFeature",
        "metadata": {
            "name": name(node),
            "labels": {NODE_LABEL: node, "app.kubernetes.io/name": "numaloc"},
        },
        // Some versions of the definition require all three.
        "spec": {
            "features": {"attributes": {}, "flags": {}, "instances": {}},
            "labels": labels.into_iter().collect::<serde_json::Map<_, _>>(),
        },
    });
    // Unknown until the API server has listed the node.
    if !node_uid.is_empty() {
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}]);
    }
    object
}

#[cfg(test)]
mod tests;
