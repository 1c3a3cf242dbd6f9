//! Keeps numalocd as the cluster wants it, and reports the results. One task: after any failure, it compares
//! everything.

mod devices;
mod node;
mod others;
mod reports;
mod rollout;

use crate::{
    clock,
    config::Config,
    devices::Devices,
    facts::Facts,
    feature::Share,
    figures::Figures,
    health::Health,
    known::{Known, PodKey},
    labels::MARK,
    locality::{Since, Slot, Unread},
    metrics::{Counts, Metrics},
    nri::Nri,
    outbox::{Outbox, Subject},
    results::{Now, Results, Standing, Told, report},
    serve::Served,
    sources::{ClusterSources, Problem},
    wanted::{WantedContainer, WantedPod, ids, wanted},
};
use numaloc_node::{AGAIN, Daemon, MANY, Records, Wanted, renewals};
use numaloc_policy::{EventKind, Node};
use rollout::Rollouts;
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, interval, sleep_until, timeout};
use tokio_stream::StreamExt;
use tonic::Status;

/// When no event has come for this time, all stored events have been read.
const QUIET: Duration = Duration::from_millis(100);
/// Runs of a pod's containers that end within this time are reported in one event.
const TOGETHER: Duration = Duration::from_millis(500);
/// A policy has certainly ended this time after its end.
const MOMENT: Duration = Duration::from_millis(100);
/// The keeper shows that often that it continues, also where nothing happens.
const BEAT: Duration = Duration::from_secs(30);
/// The longest wait for a time of the clock.
const CLOCK: Duration = Duration::from_secs(3600);

/// Keeps numalocd as it is to be.
#[derive(Debug)]
pub struct Keeper<D> {
    config: Arc<Config>,
    /// The name of this node.
    node: String,
    records: Records<D>,
    known: Arc<Known>,
    outbox: Arc<Outbox>,
    sources: ClusterSources,
    /// The last problem reported for each.
    problems: Vec<Problem>,
    /// The records of numaloc-nri at numalocd, and the cgroup of one of its containers as long as it has any.
    nri: Nri,
    cgroup: Option<String>,
    /// The pods of this node, and the records wanted for them.
    pods: BTreeMap<PodKey, KeptPod>,
    /// The pod of each schedule that is wanted.
    of_schedule: BTreeMap<String, PodKey>,
    results: Results,
    rollouts: Rollouts,
    /// The devices of containers whose policies go by these.
    devices: Devices,
    /// Pods of which a run has ended, and when they are reported: [`TOGETHER`] after the first of them.
    ended: BTreeSet<PodKey>,
    say_at: Option<Instant>,
    metrics: Arc<Metrics>,
    /// The uid of the node; empty if the API server does not have it, which is logged once.
    node_uid: String,
    is_node_missed: bool,
    /// The served figures of numalocd, the time of the next reading, and the last logged error of one.
    figures: Arc<Figures>,
    health: Arc<Health>,
    read_at: Instant,
    last_read: Instant,
    unread: Option<String>,
    /// The slot in which the NodeMemoryLocality waits for the writer, and the last changes of its conditions.
    locality: Arc<Slot>,
    share: Arc<Share>,
    since: Since,
}

/// A pod as it was last looked at.
#[derive(Debug)]
struct KeptPod {
    facts: Arc<Facts>,
    wanted: WantedPod,
    told: Told,
}

impl KeptPod {
    fn say(
        &mut self,
        results: &Results,
        standing: impl Fn(&WantedContainer) -> Standing,
        outbox: &Outbox,
    ) {
        let (facts, wanted) = (&self.facts, &self.wanted);
        if let Some(report) = report(facts, wanted, results, standing, &mut self.told, Now::new()) {
            outbox.push(Subject::pod(&self.facts), report);
        }
    }
}

/// The state at numalocd of the records wanted for a container.
fn standing<D: Daemon>(records: &Records<D>, container: &WantedContainer) -> Standing {
    let Some(schedule) = container.schedule() else { return Standing::Unscheduled };
    if records.is_held(&schedule) {
        return Standing::Held { is_scheduled: records.has(&schedule) };
    }
    if records.has(&schedule) {
        return Standing::Scheduled;
    }
    let refused = records.refused(&container.workload()).or(records.refused(&schedule));
    refused.map_or(Standing::Unscheduled, |why| Standing::Refused(why.to_owned()))
}

impl<D: Daemon + Send> numaloc_node::Keeper for Keeper<D> {
    const MEANWHILE: &'static str = "the cluster is watched";

    async fn serve(&mut self) -> Result<Infallible, Status> {
        while !self.known.is_complete() {
            self.records.beat();
            let _ = timeout(BEAT, self.known.filled()).await;
        }
        self.records.connect().await?;
        self.metrics.daemon(true);
        self.nri = self.look_for_nri().await?;
        let me = self.records.me().to_owned();
        let mut events = self.records.daemon().events(me).await?;
        // Their ends may be among the events by now.
        self.results.begin(self.records.begun());
        // Runs that ended while the agent was away are reported before a changed policy starts another one.
        self.look();
        self.take_stored(&mut events).await?;
        self.declare().await?;
        // What waits for a turn is known only when numalocd has shown what it has.
        self.look_again().await?;
        tracing::info!(
            me = %self.records.me(),
            pods = self.pods.len(),
            workloads = self.records.workloads(),
            schedules = self.records.schedules().len(),
            "numalocd has what the cluster wants"
        );
        self.count();
        let mut renewal = renewals(self.config.lease);
        let mut beat = interval(BEAT);
        loop {
            self.records.beat();
            let again = self.records.again();
            let due = again.unwrap_or_else(|| Instant::now() + AGAIN);
            let expires = self.expiry();
            let expiry = expires.unwrap_or(due);
            let (figures, read_at) = (Arc::clone(&self.figures), self.read_at);
            let devices = self.devices_due();
            let devices_due = devices.unwrap_or(due);
            let (is_ended, say_at) = (self.say_at.is_some(), self.say_at.unwrap_or(due));
            tokio::select! {
                () = self.known.filled() => self.changed().await?,
                event = events.next() => self.happened(event)?,
                () = sleep_until(say_at), if is_ended => self.say_ended(),
                _ = renewal.tick() => self.renew().await?,
                _ = beat.tick() => {}
                () = figures.wanted(read_at) => self.read_figures().await?,
                () = sleep_until(due), if again.is_some() => self.declare_again().await?,
                () = sleep_until(devices_due), if devices.is_some() => self.read_devices().await?,
                () = sleep_until(expiry), if expires.is_some() => self.look_again().await?,
            }
            if self.rollouts.take_ended() {
                self.look_again().await?;
            }
            self.report_rollouts();
            self.count();
        }
    }

    fn lost(&mut self, status: &Status) {
        self.metrics.daemon(false);
        self.figures.put(None);
        self.read_at = Instant::now();
        self.report_node(Err(Unread::Lost(status.message())));
    }
}

impl<D: Daemon> Keeper<D> {
    /// A keeper that knows nothing yet.
    pub fn new(
        config: Arc<Config>,
        node: String,
        daemon: D,
        known: Arc<Known>,
        served: Served,
        locality: Arc<Slot>,
    ) -> Self {
        let Served { metrics, outbox, figures, health, share } = served;
        let records = Records::new(daemon, MARK).with_pulse(Arc::clone(&health.pulse));
        Self {
            config,
            node,
            records,
            known,
            outbox,
            sources: ClusterSources::default(),
            problems: Vec::new(),
            nri: Nri::default(),
            cgroup: None,
            pods: BTreeMap::new(),
            of_schedule: BTreeMap::new(),
            results: Results::default(),
            rollouts: Rollouts::default(),
            devices: Devices::default(),
            ended: BTreeSet::new(),
            say_at: None,
            metrics,
            node_uid: String::new(),
            is_node_missed: false,
            figures,
            health,
            read_at: Instant::now(),
            last_read: Instant::now(),
            unread: None,
            locality,
            share,
            since: Since::default(),
        }
    }

    /// When a policy ends next, or a first run may begin: pods are decided about again then.
    fn expiry(&self) -> Option<Instant> {
        let next = self.sources.next_expiry().into_iter().chain(self.rollouts.next()).min()?;
        // A moment later, so that it has ended; and a clock that is set meanwhile is noticed within the hour.
        let left = next.duration_since(clock::now()).unwrap_or_default();
        Some(Instant::now() + (left + MOMENT).min(CLOCK))
    }

    /// Counts what there is now.
    fn count(&self) {
        let mut counts = Counts {
            pods: self.pods.len(),
            invalid_policies: self.problems.len(),
            ..Counts::default()
        };
        for pod in self.pods.values() {
            let containers = pod.wanted.containers.iter();
            counts.scheduled += containers.filter(|of| of.records.schedule.is_some()).count();
            counts.stood_back += usize::from(pod.wanted.other.is_some());
            // A request that was reduced is as the operator wants it.
            let mut events = pod.wanted.events.iter();
            let is_invalid = events.any(|event| event.kind == EventKind::Warning);
            counts.invalid += usize::from(pod.wanted.other.is_none() && is_invalid);
        }
        self.metrics.counts(counts);
    }

    async fn renew(&mut self) -> Result<(), Status> {
        let is_same = self.records.renew().await?;
        self.say_overdue().await?;
        let nri = self.look_for_nri().await?;
        if is_same && nri == self.nri {
            return Ok(());
        }
        self.nri = nri;
        self.declare_again().await
    }

    async fn declare_again(&mut self) -> Result<(), Status> {
        self.look();
        self.declare().await
    }

    /// Decides about all pods again, and declares the difference alone.
    async fn look_again(&mut self) -> Result<(), Status> {
        let mut before: BTreeMap<String, Wanted> =
            self.all_wanted().map(|wanted| (wanted.id.clone(), wanted)).collect();
        self.look();
        let changed: Vec<Wanted> = self
            .all_wanted()
            .filter(|wanted| before.remove(&wanted.id).as_ref() != Some(wanted))
            .collect();
        if changed.len() + before.len() >= MANY {
            return self.declare().await;
        }
        for wanted in changed {
            self.records.keep(wanted).await?;
        }
        for id in before.into_keys() {
            self.records.forget(&id).await?;
        }
        self.results.begin(self.records.begun());
        self.say_all(standing);
        Ok(())
    }

    /// The records wanted for all containers, and that of our presence.
    fn all_wanted(&self) -> impl Iterator<Item = Wanted> {
        let containers = self.pods.values().flat_map(|pod| &pod.wanted.containers);
        containers.map(|container| container.records.clone()).chain(self.presence())
    }

    /// Compares the whole known state of the cluster.
    fn look(&mut self) {
        // Callers have waited until it is complete.
        let Some(all) = self.known.snapshot() else { return };
        if all.node.uid.is_empty() && !self.is_node_missed {
            tracing::warn!(
                "node {}: the API server has no node of this name, so policies that select nodes by labels do not apply here, and no \
                 NodeMemoryLocality is written: check NODE_NAME",
                self.node
            );
        }
        self.is_node_missed = all.node.uid.is_empty();
        self.node_uid = all.node.uid;
        let node = Node { name: self.node.clone(), labels: all.node.labels };
        self.sources.update(&self.config.config_maps, &all.config_maps, &node);
        self.sources.policies(all.policies, clock::now());
        self.say_sources();
        self.rollouts.begin(all.turns);
        let mut before = std::mem::take(&mut self.pods);
        let under_way = self.under_way(before.values());
        self.rollouts.under_way(under_way);
        for (key, facts) in all.pods {
            let is_same = before.get(&key).is_some_and(|pod| pod.facts.api_uid == facts.api_uid);
            let same = if is_same { before.remove(&key) } else { None };
            let told = same.map_or_else(|| Told::of(&facts), |pod| pod.told);
            let wanted = self.wanted(&facts);
            self.pods.insert(key, KeptPod { facts, wanted, told });
        }
        before.values().for_each(|pod| self.outbox.gone(&pod.facts.api_uid));
        self.of_schedule = BTreeMap::new();
        for (key, pod) in &self.pods {
            let schedules =
                pod.wanted.containers.iter().filter_map(|container| container.schedule());
            self.of_schedule.extend(schedules.map(|name| (name, key.clone())));
        }
        self.results.retain(|schedule| self.of_schedule.contains_key(schedule));
    }

    /// Declares all wanted records.
    async fn declare(&mut self) -> Result<(), Status> {
        let all = self.all_wanted().collect();
        self.records.declare(all).await?;
        self.results.begin(self.records.begun());
        self.say_all(standing);
        Ok(())
    }

    /// Takes changes in, and brings numalocd up to date with them.
    async fn changed(&mut self) -> Result<(), Status> {
        let changed = self.known.changed();
        if changed.all || changed.pods.len() >= MANY {
            return self.look_again().await;
        }
        // The plugin hears of a new container before its pod's status has it.
        if changed.pods.iter().any(|key| self.has_new_container(key)) {
            let nri = self.look_for_nri().await?;
            let is_same = nri.creator == self.nri.creator;
            self.nri = nri;
            if !is_same {
                return self.declare_again().await;
            }
        }
        for key in changed.pods {
            self.change(key).await?;
        }
        Ok(())
    }

    fn has_new_container(&self, key: &str) -> bool {
        let ids = |facts: &Facts| -> BTreeSet<String> {
            facts.containers.iter().filter_map(|container| container.id.clone()).collect()
        };
        let known = self.pods.get(key).map(|pod| ids(&pod.facts)).unwrap_or_default();
        self.known.pod(key).is_some_and(|facts| !ids(&facts).is_subset(&known))
    }

    /// A pod has come, changed or gone.
    async fn change(&mut self, key: PodKey) -> Result<(), Status> {
        let facts = self.known.pod(&key);
        if facts.is_none() {
            self.run_ended(&key);
        }
        let under_way = self.under_way(self.pods.values());
        self.rollouts.under_way(under_way);
        let before = self.pods.remove(&key);
        let mut gone: BTreeSet<_> = before.iter().flat_map(|pod| ids(&pod.facts)).collect();
        if let Some(facts) = facts {
            for id in ids(&facts) {
                gone.remove(&id);
            }
            let wanted = self.wanted(&facts);
            let same = before.as_ref().filter(|pod| pod.facts.api_uid == facts.api_uid);
            let told = same.map_or_else(|| Told::of(&facts), |pod| pod.told.clone());
            let was_wanted = |records: &numaloc_node::Wanted| {
                let before = before.iter().flat_map(|pod| &pod.wanted.containers);
                before.into_iter().any(|container| container.records == *records)
            };
            // Most changes of a pod, such as our own, do not change the wanted records.
            let records = wanted.containers.iter().map(|container| container.records.clone());
            let changed: Vec<_> = records.filter(|records| !was_wanted(records)).collect();
            for container in &wanted.containers {
                if let Some(name) = container.schedule() {
                    self.of_schedule.insert(name, key.clone());
                }
            }
            self.pods.insert(key.clone(), KeptPod { facts, wanted, told });
            for records in changed {
                self.records.keep(records).await?;
            }
            self.results.begin(self.records.begun());
            self.say(&key);
        }
        let now = self.pods.get(&key).map(|pod| &pod.facts.api_uid);
        if let Some(before) = before.filter(|pod| now != Some(&pod.facts.api_uid)) {
            self.outbox.gone(&before.facts.api_uid);
        }
        for id in gone {
            self.records.forget(&id).await?;
            self.of_schedule.remove(&format!("{}{id}", numaloc_api::value::ScheduleId::PREFIX));
        }
        self.results.retain(|schedule| self.of_schedule.contains_key(schedule));
        Ok(())
    }

    fn wanted(&mut self, facts: &Facts) -> WantedPod {
        let other = self.other(facts);
        let sources = self.sources.with(&self.config.pods);
        let devices = self.config.pod_resources.as_ref().map(|_| &self.devices);
        let mut wanted = wanted(facts, sources, &self.registrar(), other.as_ref(), devices);
        self.rollouts.hold_back(facts, &mut wanted, self.records.schedules(), clock::now());
        wanted
    }
}
