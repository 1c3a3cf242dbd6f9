//! Results of the schedules, from numalocd's events, and the reports about a pod that follow from them. Pure.

mod own;

use crate::{
    facts::Facts,
    labels::ID,
    outbox::{Post, Report, StatusPatch},
    wanted::{WantedContainer, WantedPod},
};
use numaloc_api::{
    v1,
    value::{Event, EventType, Job, JobId, ScheduleId},
};
use numaloc_node::{CONTAINER, hash};
use numaloc_policy::{
    ContainerResult, LastResult, OWN_STATUS_KEY, OwnStatus, Phase, PodResult, PodStatus,
    STATUS_KEY, Verdict, written_time,
};
use own::{closed, contested, moved, not_done, own_status, past, with_results};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::Instant;

/// An unchanged status is written again after this time.
const STATUS_AGE: Duration = Duration::from_secs(3600);

/// The ends of a pod's runs wait for those of its other containers that long, and longer only for a run under way.
const PATIENCE: Duration = Duration::from_secs(600);

/// Reported for a run of which only its existence is known.
const UNKNOWN: &str =
    "it has run, and numalocd no longer keeps the result (retention in its configuration)";

/// The last run of each schedule that is known.
#[derive(Debug, Default)]
pub struct Results {
    runs: BTreeMap<String, Run>,
    /// Schedules that have begun a run of which nothing has been heard.
    begun: BTreeSet<String>,
    /// Schedules of which a run was under way when numalocd was last asked.
    active: BTreeSet<String>,
    /// Schedules whose memory another program moves back, and numalocd's message about it.
    contested: BTreeMap<String, String>,
}

impl Run {
    /// What tells it from other runs: a new store of numalocd begins with the same jobs.
    fn key(&self) -> String {
        OwnStatus::run(&self.job, &written_time(self.at))
    }
}

/// The end of a run.
#[derive(Debug)]
struct Run {
    job: String,
    /// The number of the job, if it has one.
    number: Option<u64>,
    /// When it ended.
    at: SystemTime,
    result: ContainerResult,
    moved_bytes: u64,
    /// numalocd's message about it.
    message: String,
}

impl Results {
    /// These schedules have begun a run. Their pods wait for its result.
    pub fn begin(&mut self, schedules: BTreeSet<String>) {
        self.begun.extend(schedules);
    }

    /// How the last run of a schedule has ended, in one word.
    pub fn end(&self, schedule: &str) -> Option<&'static str> {
        Some(match self.runs.get(schedule)?.result.verdict {
            Verdict::Completed { .. } => "completed",
            Verdict::NoTarget | Verdict::Reached | Verdict::Skipped(_) => "skipped",
            Verdict::Failed(_) => "failed",
        })
    }

    /// Whether a schedule has begun a run of which nothing has been heard.
    pub fn is_begun(&self, schedule: &str) -> bool {
        self.begun.contains(schedule)
    }

    /// numalocd's message about another program that moves the memory of a schedule back.
    pub fn contest(&self, schedule: &str) -> Option<&str> {
        self.contested.get(schedule).map(String::as_str)
    }

    /// The error with which the last run of a schedule has ended.
    pub fn error(&self, schedule: &str) -> Option<&str> {
        match &self.runs.get(schedule)?.result.verdict {
            Verdict::Failed(why) => Some(why),
            _ => None,
        }
    }

    /// Runs of these schedules, and no others, are under way.
    pub fn active(&mut self, schedules: BTreeSet<String>) {
        self.active = schedules;
    }

    /// Forgets the schedules that are not among these.
    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.runs.retain(|name, _| is_wanted(name));
        self.begun.retain(|name| is_wanted(name));
        self.contested.retain(|name, _| is_wanted(name));
    }

    /// Takes an event of numalocd. Returns the schedule that it is about, if its pod is to be compared.
    pub fn take(&mut self, event: v1::Event) -> Option<String> {
        let event = match Event::try_from(event) {
            Ok(event) => event,
            Err(bad) => {
                tracing::warn!("an event of numalocd cannot be read: {bad}");
                return None;
            }
        };
        let schedule = format!("{}{}", ScheduleId::PREFIX, event.labels.get(ID)?);
        match event.kind {
            EventType::TargetGone | EventType::ScheduleRemoved => {
                self.begun.remove(&schedule);
                return Some(schedule);
            }
            EventType::PlacementContested => {
                self.contested.insert(schedule.clone(), event.message);
                return Some(schedule);
            }
            EventType::PlacementStable => {
                self.contested.remove(&schedule);
                return Some(schedule);
            }
            _ => {}
        }
        let container = event.labels.get(CONTAINER)?;
        let result = ContainerResult::of_event(container, &event)?;
        let number = event.job.as_ref().and_then(JobId::number);
        // Events that are stored come again with each connection. A later run has a higher number, whatever the clock says, and
        // where the store of numalocd is a new one, with numbers from 1, a later time.
        let is_known = |run: &Run| run.number >= number && run.at >= event.time;
        if self.runs.get(&schedule).is_some_and(is_known) {
            return None;
        }
        self.begun.remove(&schedule);
        let job = event.job.as_ref().map(ToString::to_string).unwrap_or_default();
        let moved_bytes = moved(&event.members);
        let run = Run { job, number, at: event.time, result, moved_bytes, message: event.message };
        self.runs.insert(schedule.clone(), run);
        Some(schedule)
    }

    /// Whether the last run of this schedule is unknown: its event has left numalocd's store, or it has not run.
    pub fn is_unseen(&self, schedule: &v1::Schedule) -> bool {
        let waits = self.begun.contains(&schedule.name);
        let known = self.runs.get(&schedule.name);
        !schedule.last_job.is_empty()
            && known.is_none_or(|run| waits && run.job != schedule.last_job)
    }

    /// Takes the end of the last run of a schedule from its job, or, if numalocd does not keep that any more, what the
    /// schedule says.
    pub fn take_last(&mut self, schedule: &v1::Schedule, job: Option<v1::Job>) {
        let Some(container) = schedule.labels.get(CONTAINER) else { return };
        let number = JobId::from_name(&schedule.last_job).and_then(|job| job.number());
        let is_over = schedule.state() == v1::ScheduleState::Completed;
        let run = match job.map(Job::try_from) {
            Some(Ok(job)) => {
                // A run that is under way will have an event.
                let Some(result) = ContainerResult::of_job(container, &job) else { return };
                let at = job.ended.unwrap_or(job.created);
                Run {
                    job: schedule.last_job.clone(),
                    number,
                    at,
                    result,
                    moved_bytes: moved(&job.members),
                    message: job.state_message,
                }
            }
            None if is_over => {
                let begun = schedule.last_run_time.map(SystemTime::try_from);
                let Some(Ok(at)) = begun else { return };
                let message = UNKNOWN.to_owned();
                let verdict = Verdict::Skipped(message.clone());
                let result = ContainerResult { name: container.clone(), verdict, share: None };
                Run { job: schedule.last_job.clone(), number, at, result, moved_bytes: 0, message }
            }
            // The next run has an event.
            None => return,
            Some(Err(bad)) => {
                tracing::warn!("{} of numalocd cannot be read: {bad}", schedule.last_job);
                return;
            }
        };
        self.begun.remove(&schedule.name);
        self.runs.insert(schedule.name.clone(), run);
    }

    fn of(&self, container: &WantedContainer) -> Option<&Run> {
        self.runs.get(&container.schedule()?)
    }
}

/// The reports already made about a pod.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The last result in its status.
    last: Option<LastResult>,
    /// The runs whose ends it is made of ([`Run::key`]); `None`: they are not known.
    jobs: Option<Vec<String>>,
    /// Since when ends of runs have waited for those of other containers.
    waiting: Option<Instant>,
    /// The last one that had an event.
    event: Option<LastResult>,
    phase: Option<Phase>,
    own: OwnStatus,
}

impl Told {
    /// The reports recorded in a pod's annotations. An agent knows nothing else after its start.
    pub fn of(facts: &Facts) -> Self {
        let annotation = |key: &str| facts.pod.annotations.get(key);
        // One that cannot be parsed counts as missing: the next run writes a new one.
        let status = annotation(STATUS_KEY).and_then(|text| PodStatus::read(text).ok());
        // A restored or copied pod has the annotations of another one.
        let is_older = |status: &PodStatus| {
            let completed = status.last.as_ref().map(|last| seconds(last.completed));
            completed.zip(facts.created).is_some_and(|(it, created)| it < seconds(created))
        };
        if status.as_ref().is_some_and(is_older) {
            return Self::default();
        }
        let (phase, last) = status.map(|status| (status.phase, status.last)).unzip();
        let (last, own) = (last.flatten(), annotation(OWN_STATUS_KEY));
        let own = own.map(|text| OwnStatus::read(text)).unwrap_or_default();
        let jobs = own.runs().filter(|_| last.is_some());
        Self { event: last.clone(), last, phase, own, jobs, waiting: None }
    }

    /// Whether ends of runs have waited so long for those of other containers that they do without, except for runs
    /// that are under way.
    pub fn is_overdue(&self, now: Instant) -> bool {
        self.waiting.is_some_and(|since| now - since >= PATIENCE)
    }
}

/// The state at numalocd of the records wanted for a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has not been compared yet since the agent is connected.
    Unknown,
    /// numalocd has its schedule.
    Scheduled,
    /// Its next run waits because its pod may not ask for runs so often.
    Held {
        /// Whether numalocd has its schedule, with an earlier run.
        is_scheduled: bool,
    },
    /// No schedule: none is wanted, or it is tried again.
    Unscheduled,
    /// No schedule, because numalocd refuses it, or its workload, for this reason.
    Refused(String),
}

/// The present, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For the lengths of times.
    pub instant: Instant,
    pub wall: SystemTime,
}

impl Now {
    pub fn new() -> Self {
        Self { instant: Instant::now(), wall: SystemTime::now() }
    }
}

/// The new report about a pod; `None` if there is none. `standing` gives the state at numalocd: a schedule that
/// numalocd has refused does not block the pod's others.
pub fn report(
    facts: &Facts,
    wanted: &WantedPod,
    results: &Results,
    standing: impl Fn(&WantedContainer) -> Standing,
    told: &mut Told,
    now: Now,
) -> Option<Report> {
    let mut report = Report::default();
    let standings: Vec<_> = wanted.containers.iter().map(standing).collect();
    let is_there = |at: usize| {
        use Standing::{Held, Scheduled, Unknown};
        matches!(standings[at], Scheduled | Unknown | Held { is_scheduled: true })
    };
    let ran = ended(wanted, results, is_there, told, now.instant);
    let status = match ran {
        Some(ran) => after(facts, wanted, ran, told, &mut report),
        None => closed(wanted, told),
    };
    // Before everything has been compared, it would revoke reports about refusals.
    let is_known = !standings.contains(&Standing::Unknown);
    let own = is_known.then(|| {
        let refused = wanted.containers.iter().zip(standings).filter_map(not_done);
        let contested = wanted.containers.iter().filter_map(|of| contested(of, results));
        let events = wanted.events.iter().cloned().chain(refused).chain(contested).collect();
        own_status(facts, wanted, events, results, told, &mut report, now.wall)
    });
    let own = own.flatten();
    if status.is_some() || own.is_some() {
        let mut own = own.unwrap_or_else(|| {
            let problems = told.own.problems.clone();
            OwnStatus { problems, ..with_results(wanted, results, told.own.said.clone()) }
        });
        own.last_runs = told.own.last_runs.clone();
        let status_json = status.as_ref().map(PodStatus::to_json);
        report.patch = Some(StatusPatch { status: status_json, own: own.to_json() });
        told.own = own;
        if let Some(status) = status {
            (told.phase, told.last) = (Some(status.phase), status.last);
        }
    }
    (report != Report::default()).then_some(report)
}

/// The ends of the runs of a pod's containers, in its order, if they are to be judged together and have not been.
fn ended<'r>(
    wanted: &WantedPod,
    results: &'r Results,
    is_there: impl Fn(usize) -> bool,
    told: &mut Told,
    now: Instant,
) -> Option<Vec<&'r Run>> {
    let is_scheduled = |(at, container): &(usize, &WantedContainer)| {
        container.schedule().is_some() && is_there(*at)
    };
    let scheduled = || {
        wanted.containers.iter().enumerate().filter(is_scheduled).map(|(_, container)| container)
    };
    let runs: Vec<&Run> = scheduled().filter_map(|container| results.of(container)).collect();
    let last = runs.iter().map(|run| run.at).max()?;
    let is_new = match (&told.jobs, &told.last) {
        (Some(jobs), _) => runs.iter().any(|run| !jobs.contains(&run.key())),
        // The annotation has whole seconds.
        (None, Some(told)) => seconds(last) > seconds(told.completed),
        (None, None) => true,
    };
    if !is_new {
        told.waiting = None;
        return None;
    }
    let is_named = |names: &BTreeSet<String>, container: &WantedContainer| {
        container.schedule().is_some_and(|name| names.contains(&name))
    };
    let waits = |container: &WantedContainer| is_named(&results.begun, container);
    let misses = |container: &WantedContainer| {
        container.container_id.is_some()
            && !container.is_paused()
            && results.of(container).is_none()
    };
    let awaited = |container: &&WantedContainer| waits(container) || misses(container);
    // Each of a pod's policies ends with one event for all of its containers. Policies that repeat report the last run
    // of each.
    let is_first = !(wanted.repeats && told.event.is_some());
    if is_first && scheduled().any(|container| awaited(&container)) {
        told.waiting.get_or_insert(now);
        // One that does not begin, for example because no program registers it, hides no result of the others.
        let is_active = |container: &WantedContainer| is_named(&results.active, container);
        if !told.is_overdue(now) || scheduled().filter(awaited).any(is_active) {
            return None;
        }
    }
    told.waiting = None;
    Some(runs)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The status after runs, if it is to be written, and the event for them, if there is to be one.
fn after(
    facts: &Facts,
    wanted: &WantedPod,
    runs: Vec<&Run>,
    told: &mut Told,
    report: &mut Report,
) -> Option<PodStatus> {
    let completed = runs.iter().map(|run| run.at).max()?;
    // It is written with the next status: a run without news causes no write of its own.
    told.own.remember(past(&runs, told)?);
    told.jobs = Some(runs.iter().map(|run| run.key()).collect());
    let containers = runs.iter().map(|run| run.result.clone()).collect();
    let result = PodResult { containers, repeats: wanted.repeats };
    let status = PodStatus::after(&result, completed);
    let last = status.last.clone()?;
    let is_news = last.is_news(told.event.as_ref(), result.repeats);
    if is_news {
        let when = seconds(completed).to_string();
        let jobs = runs.iter().map(|run| run.job.as_str());
        let texts: Vec<&str> = [facts.pod.uid.as_str(), &when].into_iter().chain(jobs).collect();
        report.posts.push(Post { id: hash(&texts), event: result.event(), at: Some(completed) });
        told.event = Some(last.clone());
    }
    let age = |told: &LastResult| completed.duration_since(told.completed).unwrap_or_default();
    let is_old = told.last.as_ref().is_none_or(|told| age(told) >= STATUS_AGE);
    (is_news || is_old || told.phase != Some(status.phase)).then_some(status)
}

#[cfg(test)]
mod tests;
