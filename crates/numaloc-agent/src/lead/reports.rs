//! The reports of all nodes about policies, from their NodeMemoryLocalities.

use crate::cluster::{
    objects::{NodeObject, NodeReport},
    watch::Sink,
};
use numaloc_policy::{PolicyReach, read_time};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};
use tokio::sync::Notify;

/// A report that is older than this is of an agent that does not write any more: each writes twice in this time.
const STALE: Duration = Duration::from_secs(1500);

/// The reports so far.
#[derive(Debug, Default)]
pub struct Reports {
    /// By node; `None` until all are listed.
    of_nodes: Mutex<Option<BTreeMap<String, NodeReport>>>,
    changed: Notify,
}

/// What policies have reached, by node.
pub type Reached = BTreeMap<String, Vec<PolicyReach>>;

impl Reports {
    /// Waits until there may be another report.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The reports of agents that work; `None` until all are listed.
    pub fn fresh(&self, now: SystemTime) -> Option<Reached> {
        let of_nodes = self.of_nodes.lock();
        let is_fresh = |report: &NodeReport| {
            let at = read_time(&report.observed_time);
            at.is_some_and(|at| now.duration_since(at).unwrap_or_default() < STALE)
        };
        let fresh = of_nodes.as_ref()?.iter().filter(|(_, report)| is_fresh(report));
        Some(fresh.map(|(node, report)| (node.clone(), report.policies.clone())).collect())
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, NodeReport>)) {
        change(self.of_nodes.lock().get_or_insert_default());
        self.changed.notify_one();
    }
}

impl Sink<NodeObject> for Reports {
    fn listed(&self, all: Vec<NodeObject>) {
        let all = all.into_iter().map(|node| (node.metadata.name, node.status)).collect();
        self.change(|reports| *reports = all);
    }

    fn applied(&self, one: NodeObject) {
        self.change(|reports| drop(reports.insert(one.metadata.name, one.status)));
    }

    fn deleted(&self, one: NodeObject) {
        self.change(|reports| drop(reports.remove(&one.metadata.name)));
    }
}
