//! Keeps numalocd as it is to be: all containers that run are registered, and each that has a policy has one schedule. It only ever
//! compares what is wanted with what is there, so it does not matter after what failure, and whose, it begins again.

use crate::{
    align::MachineNodes,
    back_off::BackOff,
    config::{AlignMems, Config},
    daemon::{Daemon, is_lost},
    facts::Facts,
    inbox::Inbox,
    labels::{CONTAINER, STATE},
    wanted::{WantedRecords, id, wanted},
};
use numaloc_api::{
    v1,
    value::{ScheduleId, WorkloadId},
};
use numaloc_core::NodeId;
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tonic::{Code, Status};

/// Each lease is renewed this often within its time.
const RENEWALS: u32 = 3;
/// What numalocd has refused is tried again after this time: a quota may have room by then, and a grant another form.
const AGAIN: Duration = Duration::from_secs(60);
/// Most refusals that are remembered.
const REFUSALS: usize = 10_000;
/// From so many changed containers on all are declared at once.
const MANY: usize = 50;
/// What an update changes of a schedule before it runs. Its labels come last: they say that it has run.
const FIELDS: &[&str] = &["spec", "interval", "jitter", "ttl_after_gone", "paused"];

/// Keeps numalocd as it is to be.
#[derive(Debug)]
pub struct Keeper<D> {
    config: Arc<Config>,
    daemon: D,
    nodes: MachineNodes,
    /// Containers that run; `None` until the runtime has told all of them. Nothing is declared or removed before.
    known: Option<BTreeMap<String, Facts>>,
    /// Who we are to numalocd.
    me: String,
    /// The schedules that numalocd has, by name.
    stored: BTreeMap<String, v1::Schedule>,
    /// Workloads that numalocd has taken, by name.
    registered: BTreeSet<String>,
    /// What was logged about containers, so that it is logged once.
    told: BTreeMap<String, Vec<String>>,
    /// What numalocd has refused, with its message, so that it is logged once.
    refused: BTreeMap<String, String>,
    /// When all is declared again because something was refused.
    again: Option<Instant>,
}

impl<D: Daemon> Keeper<D> {
    /// A keeper that knows nothing yet.
    pub fn new(config: Arc<Config>, daemon: D, nodes: MachineNodes) -> Self {
        Self {
            config,
            daemon,
            nodes,
            known: None,
            me: String::new(),
            stored: BTreeMap::new(),
            registered: BTreeSet::new(),
            told: BTreeMap::new(),
            refused: BTreeMap::new(),
            again: None,
        }
    }

    /// Works forever. What fails is done again from the begin, with back-off.
    pub async fn run(mut self, inbox: &Inbox) {
        let mut back_off = BackOff::default();
        loop {
            let begin = Instant::now();
            let Err(status) = self.serve(inbox).await;
            let wait = back_off.after(begin.elapsed());
            tracing::warn!(
                "numalocd: {} ({:?}); again in {wait:?}. Meanwhile nothing is lost: containers are kept in memory",
                status.message(),
                status.code()
            );
            sleep(wait).await;
        }
    }

    /// Declares everything, and then each change, until numalocd is lost.
    async fn serve(&mut self, inbox: &Inbox) -> Result<Infallible, Status> {
        self.take(inbox);
        while self.known.is_none() {
            inbox.filled().await;
            self.take(inbox);
        }
        self.begin().await?;
        let mut renewal = interval(self.config.lease / RENEWALS);
        renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        renewal.reset();
        loop {
            let again = self.again.unwrap_or_else(|| Instant::now() + AGAIN);
            tokio::select! {
                () = inbox.filled() => self.changed(inbox).await?,
                _ = renewal.tick() => self.renew().await?,
                () = sleep_until(again), if self.again.is_some() => self.declare().await?,
            }
        }
    }

    /// Takes in what the runtime has told. Gives back which containers have changed; `None`: all may have.
    fn take(&mut self, inbox: &Inbox) -> Option<Vec<String>> {
        let Some(batch) = inbox.take() else { return Some(Vec::new()) };
        let is_all = batch.all.is_some();
        // Changes that come before the runtime has told all are in what it then tells.
        if self.known.is_none() && !is_all {
            return Some(Vec::new());
        }
        let changed = batch.apply(self.known.get_or_insert_default());
        (!is_all).then_some(changed)
    }

    /// Connects, and brings numalocd up to date.
    async fn begin(&mut self) -> Result<(), Status> {
        self.me = self.daemon.connect().await?;
        if self.config.align_mems != AlignMems::Off {
            let nodes = self.daemon.nodes().await?;
            let nodes = nodes.into_iter().filter(|node| node.total_bytes > 0).filter_map(|node| {
                let id = NodeId(u32::try_from(node.node_id).ok()?);
                Some((id, node.cpus.parse().ok()?))
            });
            self.nodes.set(nodes.collect());
        }
        self.declare().await?;
        tracing::info!(
            me = %self.me,
            containers = self.registered.len(),
            schedules = self.stored.len(),
            "numalocd knows all containers"
        );
        Ok(())
    }

    async fn renew(&mut self) -> Result<(), Status> {
        let count = self.daemon.renew().await?;
        // Somebody has removed some, or their leases have ended while this host was suspended.
        if count != self.registered.len() { self.declare().await } else { Ok(()) }
    }

    /// Declares all workloads, and makes the schedules what they are to be.
    async fn declare(&mut self) -> Result<(), Status> {
        self.again = None;
        let known = self.known.iter().flatten();
        let mut all: Vec<_> =
            known.filter_map(|(_, facts)| wanted(facts, &self.config, &self.me)).collect();
        self.tell_all(&all);
        self.declare_workloads(all.iter().map(|wanted| wanted.workload.clone()).collect()).await?;
        // A schedule for what is not registered would wait forever.
        all.retain(|wanted| self.registered.contains(&wanted.workload.name));
        let stored = self.daemon.schedules(self.me.clone()).await?;
        self.stored = stored.into_iter().map(|stored| (stored.name.clone(), stored)).collect();
        let names: BTreeSet<_> =
            all.iter().filter_map(|wanted| Some(wanted.schedule.as_ref()?.name.clone())).collect();
        let orphans: Vec<_> =
            self.stored.values().filter(|stored| !names.contains(&stored.name)).cloned().collect();
        for orphan in orphans {
            let container = orphan.labels.get(CONTAINER).cloned().unwrap_or_default();
            self.remove(&orphan.name, &container).await?;
        }
        for schedule in all.into_iter().filter_map(|wanted| wanted.schedule) {
            self.settle(schedule).await?;
        }
        Ok(())
    }

    /// Says what is to be said of all containers, and forgets what was said of others.
    fn tell_all(&mut self, all: &[WantedRecords]) {
        let names: BTreeSet<_> = all.iter().map(|wanted| wanted.workload.name.as_str()).collect();
        self.told.retain(|name, _| names.contains(name.as_str()));
        all.iter().for_each(|wanted| tell(&mut self.told, wanted));
    }

    /// Declares all workloads. If numalocd refuses the set because of one of them, it gets the others.
    async fn declare_workloads(&mut self, mut all: Vec<v1::Workload>) -> Result<(), Status> {
        let missing = match self.daemon.replace(all.clone()).await {
            Ok(missing) => missing,
            Err(status) if is_lost(&status) => return Err(status),
            Err(_) => {
                let mut taken = Vec::new();
                for workload in all {
                    let done = self.daemon.register(workload.clone()).await;
                    if self.is_done(&workload.name, done)?.is_some() {
                        taken.push(workload);
                    }
                }
                let done = self.daemon.replace(taken.clone()).await;
                all = taken;
                self.is_done("the set of workloads", done)?.unwrap_or_default()
            }
        };
        self.registered = all.into_iter().map(|workload| workload.name).collect();
        for name in missing {
            self.registered.remove(&name);
            self.put_off(&name, "its container has no cgroup, or several: not registered");
        }
        Ok(())
    }

    /// Takes changes in, and brings numalocd up to date with them.
    async fn changed(&mut self, inbox: &Inbox) -> Result<(), Status> {
        let Some(changed) = self.take(inbox).filter(|changed| changed.len() < MANY) else {
            return self.declare().await;
        };
        for container in changed {
            let facts = self.known.as_ref().and_then(|known| known.get(&container));
            match facts.map(|facts| wanted(facts, &self.config, &self.me)) {
                Some(Some(wanted)) => self.keep(wanted).await?,
                Some(None) => {
                    tracing::warn!(%container, "numalocd takes no such id: not registered")
                }
                None => self.forget(&container).await?,
            }
        }
        Ok(())
    }

    /// A container has started or changed.
    async fn keep(&mut self, wanted: WantedRecords) -> Result<(), Status> {
        tell(&mut self.told, &wanted);
        let WantedRecords { workload, schedule, .. } = wanted;
        let name = workload.name.clone();
        let done = self.daemon.register(workload).await;
        if self.is_done(&name, done)?.is_none() {
            // A schedule for what is not registered would wait forever.
            return Ok(());
        }
        self.registered.insert(name);
        match schedule {
            Some(schedule) => self.settle(schedule).await,
            None => Ok(()),
        }
    }

    async fn forget(&mut self, container: &str) -> Result<(), Status> {
        let Some(id) = id(container) else { return Ok(()) };
        let schedule = format!("{}{id}", ScheduleId::PREFIX);
        if self.stored.contains_key(&schedule) {
            self.remove(&schedule, container).await?;
        }
        let workload = format!("{}{id}", WorkloadId::PREFIX);
        let done = self.daemon.unregister(workload.clone()).await;
        self.is_done(&workload, done)?;
        self.registered.remove(&workload);
        self.told.remove(&workload);
        Ok(())
    }

    /// Makes a schedule what it is to be.
    async fn settle(&mut self, schedule: v1::Schedule) -> Result<(), Status> {
        let name = schedule.name.clone();
        let Some(stored) = self.stored.get(&name) else {
            let most = self.config.pods.ceilings.containers;
            let is_of_pod = |other: &&v1::Schedule| tenant(other) == tenant(&schedule);
            if self.stored.values().filter(is_of_pod).count() >= most {
                let why =
                    format!("its pod has {most} schedules already (pods.ceilings.containers)");
                self.put_off(&name, &why);
                return Ok(());
            }
            let made = self.daemon.create(schedule).await;
            // If there is one of that id, the next look at all of them shows whose it is.
            if let Some(made) = self.is_done(&name, made)? {
                self.stored.insert(name, made);
            }
            return Ok(());
        };
        if stored.labels.get(STATE) == schedule.labels.get(STATE) {
            return Ok(());
        }
        // Another policy, or other CPUs. Each step may be the last one before a failure: the state is written when it has run.
        let done = self.daemon.update(schedule.clone(), FIELDS).await;
        if self.is_done(&name, done)?.is_none() {
            return Ok(());
        }
        if !schedule.paused {
            match self.daemon.run(name.clone()).await {
                // The container is about to go, or has no process yet.
                Err(status)
                    if matches!(status.code(), Code::NotFound | Code::FailedPrecondition) => {}
                done => {
                    self.is_done(&name, done)?;
                }
            }
        }
        let done = self.daemon.update(schedule, &["labels"]).await;
        if let Some(stored) = self.is_done(&name, done)? {
            self.stored.insert(name, stored);
        }
        Ok(())
    }

    /// Removes the schedule of a container, and cancels what it has begun.
    async fn remove(&mut self, schedule: &str, container: &str) -> Result<(), Status> {
        match self.daemon.delete(schedule.to_owned()).await {
            Err(status) if status.code() == Code::NotFound => {}
            done => {
                self.is_done(schedule, done)?;
            }
        }
        self.stored.remove(schedule);
        let cancelled = self.daemon.cancel(self.me.clone(), container.to_owned()).await;
        self.is_done(schedule, cancelled)?;
        Ok(())
    }

    /// What a call has given; `None` if numalocd has refused it. It is then tried again later.
    ///
    /// # Errors
    /// numalocd is lost.
    fn is_done<T>(&mut self, what: &str, done: Result<T, Status>) -> Result<Option<T>, Status> {
        match done {
            Ok(done) => {
                self.refused.remove(what);
                Ok(Some(done))
            }
            Err(status) if is_lost(&status) => Err(status),
            Err(status) => {
                let (code, message) = (status.code(), status.message());
                self.put_off(what, &format!("numalocd refuses it: {message} ({code:?})"));
                Ok(None)
            }
        }
    }

    /// Something cannot be done now: it is tried again later, and logged once.
    fn put_off(&mut self, what: &str, why: &str) {
        self.again = Some(Instant::now() + AGAIN);
        if self.refused.len() >= REFUSALS {
            self.refused.clear();
        }
        let before = self.refused.insert(what.to_owned(), why.to_owned());
        if before.as_deref() != Some(why) {
            tracing::warn!("{what}: {why}. It is tried again each {AGAIN:?}");
        }
    }
}

/// The pod that a schedule is for.
fn tenant(schedule: &v1::Schedule) -> &str {
    let policy = schedule.spec.as_ref().and_then(|spec| spec.policy.as_ref());
    policy.map_or("", |policy| &policy.tenant)
}

/// Says what is to be said of a container, once.
fn tell(told: &mut BTreeMap<String, Vec<String>>, wanted: &WantedRecords) {
    let before = told.insert(wanted.workload.name.clone(), wanted.notes.clone());
    if before.as_ref() != Some(&wanted.notes) {
        let workload = &wanted.workload.name;
        wanted.notes.iter().for_each(|note| tracing::warn!(%workload, "{note}"));
    }
}
