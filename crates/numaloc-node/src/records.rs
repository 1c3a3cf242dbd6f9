//! The records that a client has at numalocd, and those that it wants.

mod wanted;

pub use wanted::Wanted;

use crate::{
    daemon::{Daemon, is_lost},
    mark::{Mark, RUN, STATE},
    pulse::Pulse,
};
use numaloc_api::{
    v1,
    value::{ScheduleId, WorkloadId},
};
use numaloc_policy::PodBounds;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;
use tonic::{Code, Status};

/// A refused request is retried after this time: quota may have been freed or the grant changed by then.
pub const AGAIN: Duration = Duration::from_secs(60);
/// Most refusals that are remembered.
const REFUSALS: usize = 10_000;
/// The reason why a workload that was declared is not registered.
const MISSING: &str = "its container has no cgroup, or several: not registered";
/// Fields of a schedule that an update changes before it runs. Its labels come last: they record that it has run.
const FIELDS: &[&str] = &["spec", "interval", "jitter", "ttl_after_gone", "paused"];

/// The records of a client at numalocd, as far as they are known.
#[derive(Debug)]
pub struct Records<D> {
    daemon: D,
    mark: Mark,
    /// Our account at numalocd.
    me: String,
    /// The schedules that numalocd has, by name.
    stored: BTreeMap<String, v1::Schedule>,
    /// Workloads that numalocd has taken, by name.
    registered: BTreeMap<String, v1::Workload>,
    /// Notices logged for containers, by their ids, so that each is logged once.
    told: BTreeMap<String, Vec<String>>,
    /// Refusals of numalocd, with their messages, so that each is logged once.
    refused: BTreeMap<String, String>,
    /// When all is to be declared again because something was refused or held back.
    again: Option<Instant>,
    /// When runs of schedules were last asked for, also of schedules that were removed since.
    ran: BTreeMap<String, (Instant, Duration)>,
    /// Schedules whose next run is held back until enough time has passed since the last one.
    held: BTreeSet<String>,
    /// Schedules that were made or ordered to run since [`Self::begun`] was last called.
    begun: BTreeSet<String>,
    /// Shows that calls end.
    pulse: Arc<Pulse>,
}

impl<D: Daemon> Records<D> {
    /// Records of which nothing is known yet.
    pub fn new(daemon: D, mark: Mark) -> Self {
        Self {
            daemon,
            mark,
            me: String::new(),
            stored: BTreeMap::new(),
            registered: BTreeMap::new(),
            told: BTreeMap::new(),
            refused: BTreeMap::new(),
            again: None,
            ran: BTreeMap::new(),
            held: BTreeSet::new(),
            begun: BTreeSet::new(),
            pulse: Arc::default(),
        }
    }

    /// The records, which beat this pulse with each call that has ended.
    #[must_use]
    pub fn with_pulse(self, pulse: Arc<Pulse>) -> Self {
        Self { pulse, ..self }
    }

    /// Shows that their keeper continues.
    pub fn beat(&self) {
        self.pulse.beat();
    }

    /// Connects. After that all is to be declared.
    ///
    /// # Errors
    /// numalocd cannot be reached.
    pub async fn connect(&mut self) -> Result<(), Status> {
        self.me = self.daemon.connect().await?;
        Ok(())
    }

    pub fn daemon(&mut self) -> &mut D {
        &mut self.daemon
    }

    /// Our account at numalocd: the creator of our records.
    pub fn me(&self) -> &str {
        &self.me
    }

    /// The schedules that numalocd has, by name.
    pub fn schedules(&self) -> &BTreeMap<String, v1::Schedule> {
        &self.stored
    }

    /// Whether numalocd has the schedule of this name.
    pub fn has(&self, schedule: &str) -> bool {
        self.stored.contains_key(schedule)
    }

    /// The reason why numalocd has refused this workload or schedule, if it has. A workload whose container does not
    /// exist is not refused.
    pub fn refused(&self, name: &str) -> Option<&str> {
        self.refused.get(name).map(String::as_str).filter(|&why| why != MISSING)
    }

    /// The number of workloads that numalocd has accepted.
    pub fn workloads(&self) -> usize {
        self.registered.len()
    }

    /// The number of refusals that are remembered.
    pub fn refusals(&self) -> usize {
        self.refused.len()
    }

    /// Whether a run of this schedule is held back because the last one was asked for too short a time ago.
    pub fn is_held(&self, schedule: &str) -> bool {
        self.held.contains(schedule)
    }

    /// When all is to be declared again because something was refused or held back; `None`: nothing was.
    pub fn again(&self) -> Option<Instant> {
        self.again
    }

    /// Takes the names of schedules that have begun a run since this was last called.
    pub fn begun(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.begun)
    }

    /// Begins all leases again. Returns whether numalocd has the number of workloads that it has accepted: if not, some
    /// were removed, or their leases have ended while this host was suspended, and all are to be declared.
    ///
    /// # Errors
    /// numalocd is lost.
    pub async fn renew(&mut self) -> Result<bool, Status> {
        Ok(self.daemon.renew().await? == self.registered.len())
    }

    /// Declares all workloads, and creates or updates the schedules. Records that are not among `all` are removed.
    ///
    /// # Errors
    /// numalocd is lost.
    pub async fn declare(&mut self, mut all: Vec<Wanted>) -> Result<(), Status> {
        self.again = None;
        self.tell_all(&all);
        self.declare_workloads(all.iter().filter_map(|wanted| wanted.workload.clone()).collect())
            .await?;
        all.retain(|wanted| self.is_registered(wanted));
        let stored = self.daemon.schedules(self.me.clone()).await?;
        self.stored = stored.into_iter().map(|stored| (stored.name.clone(), stored)).collect();
        let names: BTreeSet<_> = all.iter().filter_map(Wanted::scheduled).collect();
        let orphans: Vec<_> =
            self.stored.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for orphan in orphans {
            self.remove(&orphan).await?;
        }
        for Wanted { schedule, bounds, stops, .. } in all {
            if let Some(schedule) = schedule {
                self.settle(schedule, bounds, stops).await?;
            }
        }
        Ok(())
    }

    /// Whether it may have a schedule: one for an unregistered workload would wait forever.
    fn is_registered(&self, wanted: &Wanted) -> bool {
        wanted.workload.as_ref().is_none_or(|workload| self.registered.contains_key(&workload.name))
    }

    /// Logs new notices of these containers and forgets the rest.
    fn tell_all(&mut self, all: &[Wanted]) {
        let ids: BTreeSet<_> = all.iter().map(|wanted| wanted.id.as_str()).collect();
        self.told.retain(|id, _| ids.contains(id.as_str()));
        self.refused.retain(|what, _| {
            let id = what.split_once('/').map(|(_, id)| id);
            id.is_none_or(|id| ids.contains(id)) || self.stored.contains_key(what)
        });
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
        self.registered =
            all.into_iter().map(|workload| (workload.name.clone(), workload)).collect();
        for name in missing {
            self.registered.remove(&name);
            self.put_off(&name, MISSING);
        }
        Ok(())
    }

    /// A container has started or changed.
    ///
    /// # Errors
    /// numalocd is lost.
    pub async fn keep(&mut self, wanted: Wanted) -> Result<(), Status> {
        tell(&mut self.told, &wanted);
        let name = format!("{}{}", WorkloadId::PREFIX, wanted.id);
        if let Some(workload) = wanted.workload.clone() {
            // To register a container, numalocd looks through all cgroups; another policy does not need that.
            if self.registered.get(&name) != Some(&workload) {
                let done = self.daemon.register(workload.clone()).await;
                if self.is_done(&name, done)?.is_some() {
                    self.registered.insert(name, workload);
                }
            }
        } else if self.registered.contains_key(&name) {
            self.unregister(&name).await?;
        }
        let is_registered = self.is_registered(&wanted);
        match wanted.schedule {
            Some(schedule) if is_registered => {
                self.settle(schedule, wanted.bounds, wanted.stops).await
            }
            Some(_) => Ok(()),
            None if wanted.stays => Ok(()),
            None => self.unschedule(&wanted.id).await,
        }
    }

    /// A container is gone.
    ///
    /// # Errors
    /// numalocd is lost.
    pub async fn forget(&mut self, id: &str) -> Result<(), Status> {
        self.unschedule(id).await?;
        self.told.remove(id);
        let name = format!("{}{id}", WorkloadId::PREFIX);
        self.unregister(&name).await?;
        self.refused.remove(&name);
        self.refused.remove(&format!("{}{id}", ScheduleId::PREFIX));
        Ok(())
    }

    async fn unregister(&mut self, workload: &str) -> Result<(), Status> {
        let done = self.daemon.unregister(workload.to_owned()).await;
        self.is_done(workload, done)?;
        self.registered.remove(workload);
        Ok(())
    }

    async fn unschedule(&mut self, id: &str) -> Result<(), Status> {
        let schedule = format!("{}{id}", ScheduleId::PREFIX);
        if self.stored.contains_key(&schedule) { self.remove(&schedule).await } else { Ok(()) }
    }

    /// Creates or updates a schedule. Its runs are cancelled if it `stops`.
    async fn settle(
        &mut self,
        schedule: v1::Schedule,
        bounds: PodBounds,
        stops: bool,
    ) -> Result<(), Status> {
        let name = schedule.name.clone();
        self.held.remove(&name);
        let Some(stored) = self.stored.get(&name) else {
            if self.is_early(&name, bounds) {
                return Ok(());
            }
            let most = bounds.containers;
            let is_of_pod = |other: &&v1::Schedule| tenant(other) == tenant(&schedule);
            if self.stored.values().filter(is_of_pod).count() >= most {
                let why =
                    format!("its pod has {most} schedules already (pods.ceilings.containers)");
                self.put_off(&name, &why);
                return Ok(());
            }
            let is_paused = schedule.paused;
            let made = self.daemon.create(schedule).await;
            // If a schedule of this id exists, the next comparison of all schedules shows its owner.
            if let Some(made) = self.is_done(&name, made)? {
                if !is_paused {
                    self.begins(&name, bounds);
                }
                self.stored.insert(name, made);
            }
            return Ok(());
        };
        let is_changed = stored.labels.get(STATE) != schedule.labels.get(STATE);
        let run = schedule.labels.get(RUN);
        let is_asked = run.is_some() && stored.labels.get(RUN) != run;
        if !is_changed && !is_asked {
            return Ok(());
        }
        // Another policy, or other CPUs. Each step may be the last one before a failure: the labels are written when it
        // has run.
        if is_changed {
            let done = self.daemon.update(schedule.clone(), FIELDS).await;
            if self.is_done(&name, done)?.is_none() {
                return Ok(());
            }
            if stops && schedule.paused {
                self.cancel(&name).await?;
            }
        }
        if is_asked || !schedule.paused {
            if self.is_early(&name, bounds) {
                return Ok(());
            }
            match self.daemon.run(name.clone()).await {
                // The container is about to go, or has no process yet.
                Err(status)
                    if matches!(status.code(), Code::NotFound | Code::FailedPrecondition) => {}
                done => {
                    if self.is_done(&name, done)?.is_some() {
                        self.begins(&name, bounds);
                    }
                }
            }
        }
        let done = self.daemon.update(schedule, &["labels"]).await;
        if let Some(stored) = self.is_done(&name, done)? {
            self.stored.insert(name, stored);
        }
        Ok(())
    }

    /// A run of a schedule begins.
    fn begins(&mut self, name: &str, bounds: PodBounds) {
        self.begun.insert(name.to_owned());
        self.ran.retain(|_, (at, gap)| at.elapsed() < *gap);
        if !bounds.min_interval.is_zero() {
            self.ran.insert(name.to_owned(), (Instant::now(), bounds.min_interval));
        }
    }

    /// Whether a run of this schedule has to wait, because its pod may not ask for one so soon after the last. All is
    /// declared again then.
    fn is_early(&mut self, name: &str, bounds: PodBounds) -> bool {
        let Some((at, _)) = self.ran.get(name) else { return false };
        let due = *at + bounds.min_interval;
        if due <= Instant::now() {
            return false;
        }
        self.held.insert(name.to_owned());
        self.declare_at(due);
        true
    }

    /// Declares all again then, or sooner.
    fn declare_at(&mut self, then: Instant) {
        self.again = Some(self.again.map_or(then, |again| again.min(then)));
    }

    /// Removes a schedule, and cancels its jobs.
    async fn remove(&mut self, schedule: &str) -> Result<(), Status> {
        match self.daemon.delete(schedule.to_owned()).await {
            Err(status) if status.code() == Code::NotFound => {}
            done => {
                self.is_done(schedule, done)?;
            }
        }
        self.cancel(schedule).await?;
        self.held.remove(schedule);
        self.stored.remove(schedule);
        Ok(())
    }

    /// Cancels the jobs of a schedule.
    async fn cancel(&mut self, schedule: &str) -> Result<(), Status> {
        let value = |stored: &v1::Schedule| stored.labels.get(self.mark.key).cloned();
        let value = self.stored.get(schedule).and_then(value).unwrap_or_default();
        let cancelled = self.daemon.cancel(self.me.clone(), value).await;
        self.is_done(schedule, cancelled).map(drop)
    }

    /// The result of a call; `None` if numalocd has refused it. It is then retried later.
    ///
    /// # Errors
    /// numalocd is lost.
    fn is_done<T>(&mut self, what: &str, done: Result<T, Status>) -> Result<Option<T>, Status> {
        self.beat();
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
        self.declare_at(Instant::now() + AGAIN);
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

/// Logs the notices of a container, once.
fn tell(told: &mut BTreeMap<String, Vec<String>>, wanted: &Wanted) {
    let before = told.insert(wanted.id.clone(), wanted.notes.clone());
    if before.as_ref() != Some(&wanted.notes) {
        let id = &wanted.id;
        wanted.notes.iter().for_each(|note| tracing::warn!(%id, "{note}"));
    }
}
