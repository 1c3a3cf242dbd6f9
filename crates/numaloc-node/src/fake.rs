//! numalocd as tests need it, as far as keeping records sees it, with failures before and after what a call does.

mod configured;

pub use configured::{assert_documented, assert_sample, parsed};

use crate::{
    daemon::{Daemon, Events, Others},
    mark::{Mark, STATE},
};
use numaloc_api::v1;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    sync::Arc,
};
use tokio::sync::broadcast;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status};

/// numalocd. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Fake {
    world: Arc<Mutex<World>>,
    mark: Mark,
}

/// The watchers of events.
#[derive(Debug)]
struct Told(broadcast::Sender<v1::Event>);

impl Default for Told {
    fn default() -> Self {
        Self(broadcast::channel(4096).0)
    }
}

#[derive(Debug, Default)]
struct World {
    workloads: BTreeMap<String, v1::Workload>,
    schedules: BTreeMap<String, v1::Schedule>,
    /// Schedules that have run since they were changed.
    ran: BTreeSet<String>,
    runs: usize,
    declared: usize,
    registrations: usize,
    cancelled: Vec<String>,
    etags: u64,
    refused: String,
    /// Workloads whose names end like this have no cgroup.
    without_cgroup: String,
    events: Vec<v1::Event>,
    jobs: BTreeMap<String, v1::Job>,
    told: Told,
    others: Others,
    hangs: bool,
    /// The number of readings of the metrics, and whether they are refused.
    readings: usize,
    refuses_metrics: bool,
    forbids_nodes: bool,
    /// Percentage of calls that fail.
    failures: u8,
    random: fastrand::Rng,
}

impl Fake {
    /// numalocd without any records, for a client whose records have this mark, and ids that begin with its source.
    pub fn new(mark: Mark) -> Self {
        Self { world: Arc::default(), mark }
    }

    /// Whether calls are left without an answer.
    pub fn hang(&self, hangs: bool) {
        self.world.lock().hangs = hangs;
    }

    /// This percentage of calls fails, before or after taking effect.
    pub fn fail(&self, failures: u8, seed: u64) {
        let mut world = self.world.lock();
        (world.failures, world.random) = (failures, fastrand::Rng::with_seed(seed));
    }

    /// Whether our grant lacks the ceiling `named_nodes`.
    pub fn forbid_nodes(&self, forbids: bool) {
        self.world.lock().forbids_nodes = forbids;
    }

    /// It refuses workloads whose names end like this; the empty text refuses none.
    pub fn refuse(&self, name: &str) {
        name.clone_into(&mut self.world.lock().refused);
    }

    /// Containers whose names end like this have no cgroup; the empty text: all have one.
    pub fn take_cgroup(&self, name: &str) {
        name.clone_into(&mut self.world.lock().without_cgroup);
    }

    /// Something happens to a schedule. Nobody learns of the end of a run that numalocd would not report
    /// (numalocd/src/dispatch/events.rs, `is_news`).
    pub fn happens(&self, event: v1::Event) {
        let mut world = self.world.lock();
        if !world.is_news(&event) {
            return;
        }
        world.events.push(event.clone());
        // There may be no watcher.
        drop(world.told.0.send(event));
    }

    /// The only run of a schedule has ended, and its event is not stored any more; without a job that is not either.
    pub fn ended_long_ago(&self, schedule: &str, name: &str, job: Option<v1::Job>) {
        let mut world = self.world.lock();
        let stored = world.schedules.get_mut(schedule).expect("it is there");
        name.clone_into(&mut stored.last_job);
        stored.last_run_time = Some(prost_types::Timestamp { seconds: 50, nanos: 0 });
        stored.state = v1::ScheduleState::Completed.into();
        world.jobs.extend(job.map(|job| (name.to_owned(), job)));
    }

    /// A schedule is in this state.
    pub fn set_state(&self, schedule: &str, state: v1::ScheduleState) {
        let mut world = self.world.lock();
        world.schedules.get_mut(schedule).expect("it is there").state = state.into();
    }

    /// Another source has these records.
    pub fn set_others(&self, others: Others) {
        self.world.lock().others = others;
    }

    pub fn schedules(&self) -> BTreeMap<String, v1::Schedule> {
        self.world.lock().schedules.clone()
    }

    /// The number of declarations of all workloads.
    pub fn declared(&self) -> usize {
        self.world.lock().declared
    }

    /// The number of registrations of a single workload.
    pub fn registrations(&self) -> usize {
        self.world.lock().registrations
    }

    /// The number of readings of the metrics.
    pub fn readings(&self) -> usize {
        self.world.lock().readings
    }

    /// Whether it refuses to provide its metrics.
    pub fn refuse_metrics(&self, refuses: bool) {
        self.world.lock().refuses_metrics = refuses;
    }

    /// Removes a workload as if its lease had ended.
    pub fn lose(&self, id: &str) {
        self.world.lock().workloads.remove(&format!("workloads/{id}"));
    }

    /// The registered containers, and the containers that have a schedule.
    pub fn names(&self) -> (Vec<String>, Vec<String>) {
        let world = self.world.lock();
        let short =
            |name: &String, before: &str| name.strip_prefix(before).expect("it is ours").to_owned();
        let before = |kind: &str| format!("{kind}/{}-", self.mark.source);
        let workloads = world.workloads.keys().map(|name| short(name, &before("workloads")));
        let schedules = world.schedules.keys().map(|name| short(name, &before("schedules")));
        (workloads.collect(), schedules.collect())
    }

    /// Whether these containers are registered, and these have a schedule.
    pub fn has(&self, workloads: &[&str], schedules: &[&str]) -> bool {
        let (registered, scheduled) = self.names();
        registered == workloads && scheduled == schedules
    }

    /// The labels of a container's workload.
    pub fn labels(&self, container: &str) -> BTreeMap<String, String> {
        let world = self.world.lock();
        let workload = world.workloads.get(&format!("workloads/{}-{container}", self.mark.source));
        workload.map(|workload| workload.labels.clone()).unwrap_or_default()
    }

    /// The states of the schedules, by the label that distinguishes them.
    pub fn states(&self) -> BTreeMap<String, String> {
        let label =
            |schedule: &v1::Schedule, key| schedule.labels.get(key).cloned().unwrap_or_default();
        let world = self.world.lock();
        let states = world.schedules.values();
        states.map(|schedule| (label(schedule, self.mark.key), label(schedule, STATE))).collect()
    }

    /// The number of requested runs.
    pub fn runs(&self) -> usize {
        self.world.lock().runs
    }

    /// The containers whose jobs were cancelled.
    pub fn cancelled(&self) -> Vec<String> {
        self.world.lock().cancelled.clone()
    }

    /// Does something, or fails before or after it.
    async fn call<T>(
        &self,
        act: impl FnOnce(&mut World) -> Result<T, Status>,
    ) -> Result<T, Status> {
        if self.world.lock().hangs {
            // As the calls of the real client do at their time limit.
            tokio::time::timeout(std::time::Duration::from_secs(30), pending::<()>())
                .await
                .unwrap_or(());
            return Err(Status::deadline_exceeded("no answer"));
        }
        tokio::task::yield_now().await;
        let mut world = self.world.lock();
        let lost = || Err(Status::unavailable("it has gone"));
        let percent = world.random.u8(..100);
        let (before, after) = (world.failures / 2, world.failures);
        match percent {
            percent if percent < before => lost(),
            percent if percent < after => act(&mut world).and(lost()),
            _ => act(&mut world),
        }
    }
}

fn check(world: &World, workload: &v1::Workload) -> Result<(), Status> {
    match !world.refused.is_empty() && workload.name.ends_with(&world.refused) {
        true => Err(Status::permission_denied("its cgroup is not yours")),
        false => Ok(()),
    }
}

/// A repeating schedule has another event when its local share has changed by more than this.
const POINTS: f64 = 10.0;

impl World {
    fn is_news(&self, event: &v1::Event) -> bool {
        let schedule = self.schedules.get(&event.schedule);
        let policy = |schedule: &v1::Schedule| schedule.spec.clone()?.policy;
        let is_told_all = schedule.and_then(policy).is_some_and(|it| it.emit() == v1::Emit::Always);
        let interval = schedule.and_then(|schedule| schedule.interval).unwrap_or_default();
        let repeats = interval != prost_types::Duration::default();
        let mut before = self.events.iter().rev();
        match before.find(|last| last.schedule == event.schedule) {
            Some(last) if repeats && !is_told_all => {
                let ratios = last.after_percent.zip(event.after_percent);
                last.r#type != event.r#type
                    || ratios.is_some_and(|(last, now)| (last - now).abs() > POINTS)
            }
            _ => true,
        }
    }

    fn stamp(&mut self, mut schedule: v1::Schedule) -> v1::Schedule {
        self.etags += 1;
        schedule.etag = self.etags.to_string();
        self.schedules.insert(schedule.name.clone(), schedule.clone());
        schedule
    }
}

impl Daemon for Fake {
    async fn connect(&mut self) -> Result<String, Status> {
        self.call(|_| Ok("uid:990".to_owned())).await
    }

    async fn nodes(&mut self) -> Result<Vec<v1::Node>, Status> {
        let node = |(node_id, cpus): (i32, &str)| v1::Node {
            node_id,
            cpus: cpus.to_owned(),
            total_bytes: 1 << 30,
            ..v1::Node::default()
        };
        self.call(|_| Ok([(0, "0-3"), (1, "4-7")].map(node).to_vec())).await
    }

    async fn may_name_nodes(&mut self) -> Result<bool, Status> {
        self.call(|world| Ok(!world.forbids_nodes)).await
    }

    async fn replace(&mut self, all: Vec<v1::Workload>) -> Result<Vec<String>, Status> {
        self.call(|world| {
            all.iter().try_for_each(|workload| check(world, workload))?;
            world.declared += 1;
            let is_missing = |workload: &v1::Workload| {
                !world.without_cgroup.is_empty() && workload.name.ends_with(&world.without_cgroup)
            };
            let (missing, there): (Vec<_>, Vec<_>) = all.into_iter().partition(is_missing);
            world.workloads =
                there.into_iter().map(|workload| (workload.name.clone(), workload)).collect();
            Ok(missing.into_iter().map(|workload| workload.name).collect())
        })
        .await
    }

    async fn register(&mut self, workload: v1::Workload) -> Result<(), Status> {
        self.call(|world| {
            check(world, &workload)?;
            world.registrations += 1;
            world.workloads.insert(workload.name.clone(), workload);
            Ok(())
        })
        .await
    }

    async fn unregister(&mut self, name: String) -> Result<(), Status> {
        self.call(|world| {
            world.workloads.remove(&name);
            Ok(())
        })
        .await
    }

    async fn renew(&mut self) -> Result<usize, Status> {
        self.call(|world| Ok(world.workloads.len())).await
    }

    async fn schedules(&mut self, _me: String) -> Result<Vec<v1::Schedule>, Status> {
        self.call(|world| Ok(world.schedules.values().cloned().collect())).await
    }

    async fn create(&mut self, schedule: v1::Schedule) -> Result<v1::Schedule, Status> {
        self.call(|world| match world.schedules.contains_key(&schedule.name) {
            true => Err(Status::already_exists("there is one of that name")),
            false => {
                // It begins with a run.
                world.ran.insert(schedule.name.clone());
                Ok(world.stamp(schedule))
            }
        })
        .await
    }

    async fn update(
        &mut self,
        schedule: v1::Schedule,
        fields: &'static [&'static str],
    ) -> Result<v1::Schedule, Status> {
        self.call(|world| {
            let Some(stored) = world.schedules.get(&schedule.name).cloned() else {
                return Err(Status::not_found("there is none of that name"));
            };
            let labels = if fields.contains(&"labels") {
                assert!(
                    schedule.paused || world.ran.contains(&schedule.name),
                    "its state is written before it has run"
                );
                schedule.labels.clone()
            } else {
                world.ran.remove(&schedule.name);
                stored.labels
            };
            Ok(world.stamp(v1::Schedule { labels, ..schedule }))
        })
        .await
    }

    async fn run(&mut self, name: String) -> Result<(), Status> {
        self.call(|world| {
            if !world.schedules.contains_key(&name) {
                return Err(Status::new(Code::NotFound, "there is none of that name"));
            }
            world.runs += 1;
            world.ran.insert(name);
            Ok(())
        })
        .await
    }

    async fn delete(&mut self, name: String) -> Result<(), Status> {
        self.call(|world| match world.schedules.remove(&name) {
            Some(_) => Ok(()),
            None => Err(Status::not_found("there is none of that name")),
        })
        .await
    }

    async fn events(&mut self, _me: String) -> Result<Events, Status> {
        let watch = self.call(|world| Ok((world.events.clone(), world.told.0.subscribe()))).await?;
        let (stored, mut told) = watch;
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        stored.into_iter().for_each(|event| drop(sender.send(Ok(event))));
        tokio::spawn(async move {
            while let Ok(event) = told.recv().await {
                if sender.send(Ok(event)).is_err() {
                    break;
                }
            }
        });
        Ok(Box::pin(UnboundedReceiverStream::new(receiver)))
    }

    async fn others(&mut self, _source: &'static str) -> Result<Others, Status> {
        self.call(|world| Ok(world.others.clone())).await
    }

    async fn job(&mut self, name: String) -> Result<Option<v1::Job>, Status> {
        self.call(|world| Ok(world.jobs.get(&name).cloned())).await
    }

    async fn metrics(&mut self) -> Result<String, Status> {
        self.call(|world| {
            world.readings += 1;
            match world.refuses_metrics {
                true => Err(Status::unimplemented("not known")),
                false => {
                    Ok("numaloc_host_memory_bytes{node=\"0\",place=\"local\"} 4096\n".to_owned())
                }
            }
        })
        .await
    }

    async fn cancel(&mut self, _me: String, container: String) -> Result<(), Status> {
        self.call(|world| {
            world.cancelled.push(container);
            Ok(())
        })
        .await
    }
}
