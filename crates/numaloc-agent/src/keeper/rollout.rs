//! Holds first runs of policies back until they may begin: at their place in time, within the hours, and in the turn of
//! this node. A container whose schedule at numalocd is not the decided one has its first run before it; until then it
//! keeps what it has.

use super::{Keeper, KeptPod};
use crate::{
    facts::Facts,
    wanted::{WantedContainer, WantedPod},
};
use numaloc_api::v1;
use numaloc_node::{Daemon, STATE, hash};
use numaloc_policy::{DecidingPolicy, PolicyReach, Turn};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::Instant;

/// A turn in which no run begins for this time ends: numalocd refuses what is left.
const IDLE: Duration = Duration::from_secs(120);
/// Shortest time between two readings of numalocd's figures for reports about turns.
const GAP: Duration = Duration::from_secs(2);

/// First runs of policies on this node.
#[derive(Debug, Default)]
pub(super) struct Rollouts {
    /// The turns of this node, by the uid of the policy.
    turns: BTreeMap<String, Turn>,
    /// The last turn of each policy in which nothing is left to do.
    done: BTreeMap<String, u64>,
    /// Turns in which no run is under way, and since when.
    idle: BTreeMap<String, (u64, Instant)>,
    /// Workloads with first runs under way, by the uid of the policy and the number of the workload.
    under_way: BTreeSet<(String, String)>,
    /// When the next first run may begin that waits for its time.
    next: Option<SystemTime>,
    /// Whether a first run has ended.
    has_ended: bool,
    /// What policies had reached when that was last counted.
    told: Vec<PolicyReach>,
}

impl Rollouts {
    /// All pods are decided about: these are the turns of this node.
    pub(super) fn begin(&mut self, turns: BTreeMap<String, Turn>) {
        self.done.retain(|uid, _| turns.contains_key(uid));
        self.idle.retain(|uid, _| turns.contains_key(uid));
        (self.turns, self.next) = (turns, None);
    }

    /// These workloads have first runs under way.
    pub(super) fn under_way(&mut self, under_way: BTreeSet<(String, String)>) {
        self.under_way = under_way;
    }

    /// When pods are to be decided about again, because a first run may begin then.
    pub(super) fn next(&self) -> Option<SystemTime> {
        self.next
    }

    /// Whether a first run has ended since the last call.
    pub(super) fn take_ended(&mut self) -> bool {
        std::mem::take(&mut self.has_ended)
    }

    /// Has containers of a pod wait whose first run may not begin yet. `stored` is what numalocd has.
    pub(super) fn hold_back(
        &mut self,
        facts: &Facts,
        wanted: &mut WantedPod,
        stored: &BTreeMap<String, v1::Schedule>,
        now: SystemTime,
    ) {
        // A pod's containers begin together.
        let mut begins = BTreeSet::new();
        for container in &mut wanted.containers {
            let (Some(policy), Some(schedule)) = (&container.policy, &container.records.schedule)
            else {
                continue;
            };
            let stored = stored.get(&schedule.name);
            if stored.is_some_and(|of| of.labels.get(STATE) == schedule.labels.get(STATE)) {
                continue;
            }
            let is_held = match policy.is_paused {
                true => stored.is_none(),
                false => !begins.contains(&policy.uid) && !self.may_begin(facts, policy, now),
            };
            if is_held {
                container.wait();
            } else if policy.rollout.takes_turns() {
                begins.insert(policy.uid.clone());
            }
        }
        let workload = workload(facts);
        self.under_way.extend(begins.into_iter().map(|uid| (uid, workload.clone())));
    }

    fn may_begin(&mut self, facts: &Facts, policy: &DecidingPolicy, now: SystemTime) -> bool {
        let changed = policy.changed.unwrap_or(UNIX_EPOCH);
        let at = policy.rollout.first_run(&policy.uid, &facts.pod.uid, changed, now);
        if at > now {
            self.next = Some(self.next.map_or(at, |next| next.min(at)));
            return false;
        }
        if !policy.rollout.takes_turns() {
            return true;
        }
        let Some(turn) = self.turns.get(&policy.uid) else { return false };
        if self.done.get(&policy.uid).is_some_and(|done| *done >= turn.id) {
            return false;
        }
        let workload = workload(facts);
        !policy.rollout.one_replica
            || (turn.workloads.contains(&workload)
                && !self.under_way.contains(&(policy.uid.clone(), workload)))
    }

    /// Takes what the policies have reached, of which those that take turns are named. Returns the report, and whether it
    /// is to be written at once.
    fn report(
        &mut self,
        mut reach: Vec<PolicyReach>,
        one_replica: &BTreeSet<String>,
        now: Instant,
    ) -> bool {
        for of in &mut reach {
            if let Some(turn) = self.turns.get(&of.uid) {
                let is_granted = |workload: &String| {
                    !one_replica.contains(&of.uid) || turn.workloads.contains(workload)
                };
                let since = match (of.running.is_empty(), of.waiting.iter().any(is_granted)) {
                    (false, _) => None,
                    (true, false) => Some(now - IDLE),
                    (true, true) => {
                        let known = self.idle.get(&of.uid).filter(|(id, _)| *id == turn.id);
                        Some(known.map_or(now, |(_, since)| *since))
                    }
                };
                match since {
                    None => drop(self.idle.remove(&of.uid)),
                    Some(since) if now - since >= IDLE => {
                        self.done.insert(of.uid.clone(), turn.id);
                    }
                    Some(since) => drop(self.idle.insert(of.uid.clone(), (turn.id, since))),
                }
            }
            of.done_turn = self.done.get(&of.uid).copied().unwrap_or_default();
        }
        let turns = |all: &[PolicyReach]| -> Vec<_> {
            all.iter().filter(|of| of.takes_turns()).map(PolicyReach::turn).collect()
        };
        let is_urgent = turns(&reach) != turns(&self.told);
        self.told = reach;
        is_urgent
    }

    /// What policies have reached, for the report about the node.
    pub(super) fn told(&self) -> Vec<PolicyReach> {
        self.told.clone()
    }
}

/// A number of the workload that a pod is of, as the status of policies has it.
fn workload(facts: &Facts) -> String {
    hash(&[&facts.pod.namespace, &facts.pod.owner.kind, &facts.pod.owner.name])
}

impl<D: Daemon> Keeper<D> {
    /// The workloads with first runs under way, by policy.
    pub(super) fn under_way<'p>(
        &self,
        pods: impl Iterator<Item = &'p KeptPod>,
    ) -> BTreeSet<(String, String)> {
        let mut all = BTreeSet::new();
        for pod in pods {
            for container in &pod.wanted.containers {
                if let Some(policy) = self.first_run(container) {
                    all.insert((policy.uid.clone(), workload(&pod.facts)));
                }
            }
        }
        all
    }

    /// The policy of which a first run that takes a turn is under way in a container.
    fn first_run<'c>(&self, container: &'c WantedContainer) -> Option<&'c DecidingPolicy> {
        let policy = container.policy.as_ref().filter(|policy| policy.rollout.takes_turns())?;
        let schedule = container.records.schedule.as_ref()?;
        self.results.is_begun(&schedule.name).then_some(policy)
    }

    /// A run of a schedule of this pod has ended: another first run may begin.
    pub(super) fn run_ended(&mut self, pod: &str) {
        let containers = self.pods.get(pod).map(|pod| &pod.wanted.containers);
        let mut policies = containers.into_iter().flatten().filter_map(|of| of.policy.as_ref());
        self.rollouts.has_ended |= policies.any(|policy| policy.rollout.takes_turns());
    }

    /// Takes what policies have reached into the report about the node, which is written soon if turns depend on it.
    pub(super) fn report_rollouts(&mut self) {
        let mut reach: BTreeMap<String, PolicyReach> = BTreeMap::new();
        let mut one_replica = BTreeSet::new();
        let now = crate::clock::now();
        for pod in self.pods.values() {
            let mut seen = BTreeSet::new();
            for container in &pod.wanted.containers {
                let Some(policy) = &container.policy else { continue };
                let of = reach.entry(policy.uid.clone()).or_default();
                of.uid.clone_from(&policy.uid);
                if of.error.is_empty() {
                    of.error = self.error_of(container).unwrap_or_default();
                }
                let is_new = seen.insert(policy.uid.as_str());
                of.pods += u64::from(is_new);
                if policy.rollout.one_replica {
                    one_replica.insert(policy.uid.clone());
                }
                of.waiting_pods += u64::from(container.waits && is_new);
                if policy.is_paused || !policy.rollout.takes_turns() {
                    continue;
                }
                let workload = workload(&pod.facts);
                if container.waits {
                    let changed = policy.changed.unwrap_or(UNIX_EPOCH);
                    let uid = &pod.facts.pod.uid;
                    let at = policy.rollout.first_run(&policy.uid, uid, changed, now);
                    if at <= now && !of.waiting.contains(&workload) {
                        of.waiting.push(workload);
                    }
                } else if self.first_run(container).is_some() && !of.running.contains(&workload) {
                    of.running.push(workload);
                }
            }
        }
        let is_urgent =
            self.rollouts.report(reach.into_values().collect(), &one_replica, Instant::now());
        if is_urgent {
            self.read_at = self.read_at.min(self.last_read + GAP);
        }
    }

    /// The error of the last run of a container, or of the request for one.
    fn error_of(&self, container: &WantedContainer) -> Option<String> {
        let schedule = container.schedule()?;
        let refused = self.records.refused(&container.workload());
        let error =
            refused.or(self.records.refused(&schedule)).or(self.results.error(&schedule))?;
        Some(format!("container {}: {error}", container.name))
    }
}
