//! Schedules as time passes: a schedule is due, a run begins, the target is gone or back.

use super::{
    Made,
    agenda::RunRequest,
    contest::Contest,
    dispatcher::{Dispatcher, Probe, ProbeAnswer},
    relieved::{Direction, ReliefStep},
};
use crate::{
    refusal::Refusal,
    store::{Work, Write},
};
use numaloc_api::value::{EventType, Job, JobState, Schedule, ScheduleState, first_few};
use numaloc_engine::FoundTarget;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// Shortest and longest wait between looks for a target that is gone; within these bounds the wait is the schedule's
/// interval.
const LOOK_MIN: Duration = Duration::from_secs(1);
const LOOK_MAX: Duration = Duration::from_secs(10);
/// Longest wait if the target has been gone for long.
const LOOK_GONE: Duration = Duration::from_secs(60);
/// Wait between looks for the target of a schedule that runs no more, or is paused, and is to be removed after its target.
const LOOK_RESTING: Duration = Duration::from_secs(3600);
/// At most this many schedules are probed at a time: a probe has all members of its target.
const PROBES: usize = 16;
/// First and longest wait before a failed probe of a schedule is repeated.
const RETRY: Duration = Duration::from_secs(10);
const RETRY_MAX: Duration = Duration::from_secs(600);
/// Time between two schedules that are looked at again after daemons have ended meanwhile.
const APART: Duration = Duration::from_secs(5);

impl Dispatcher {
    /// Probes the target of one schedule that is due. Others follow in the dispatcher's next turns, so that clients are
    /// answered in between.
    pub(super) fn tick_schedules(&mut self, now: Instant) {
        if !self.may_probe() {
            return;
        }
        // The answer to the probe sets it again.
        let schedule = self.agenda.take_due(now).and_then(|it| self.records.schedules().get(&it));
        if let Some(schedule) = schedule.cloned() {
            self.probe(&schedule);
        }
    }

    /// Whether another schedule may be probed now.
    pub(super) fn may_probe(&self) -> bool {
        self.stopping.is_none() && self.probing < PROBES
    }

    /// Handles the answer of the engine to a probe.
    pub(super) fn on_answered(&mut self, probed: ProbeAnswer) {
        self.probing = self.probing.saturating_sub(1);
        let number = probed.schedule.number().unwrap_or_default();
        self.records.under_way().end(Work::Schedule(number));
        self.on_probed(probed);
    }

    /// Asks the engine whether the target of a schedule exists.
    pub(super) fn probe(&mut self, schedule: &Schedule) {
        let migration = &schedule.spec.migration;
        let owner = self.creator(&schedule.creator, schedule.creator_gid);
        let found = owner.and_then(|owner| {
            owner.ceilings.check(migration)?;
            let selected = self.select(&migration.target, Some(&owner), Some(&schedule.pins))?;
            Ok((selected.aim, owner))
        });
        let (schedule, etag) = (schedule.id.clone(), schedule.etag.clone());
        match found {
            Err(refusal) => self.on_probed(ProbeAnswer { schedule, etag, found: Err(refusal) }),
            Ok((aim, creator)) => {
                let options = self.sparing(&migration.policy.options, Some(&schedule));
                self.probing += 1;
                self.records
                    .under_way()
                    .begin(Work::Schedule(schedule.number().unwrap_or_default()));
                // This fails only when the daemon ends.
                let _ = self.edges.probes.send(Probe { schedule, etag, aim, options, creator });
            }
        }
    }

    /// Handles the answer to a probe.
    pub(super) fn on_probed(&mut self, probed: ProbeAnswer) {
        let ProbeAnswer { schedule, etag, found } = probed;
        let known = self.records.schedule(&schedule).cloned();
        let Some(known) = known.filter(|known| known.etag == etag) else { return };
        // There were two probes, one because the schedule was due and one for a client. The answer to the other has
        // begun the run.
        if known.state == ScheduleState::Active {
            return self.answer_runs(&known.id, &self.last_run(&known));
        }
        if is_resting(&known) && self.agenda.asker(known.id.number().unwrap_or_default()).is_none()
        {
            return self.on_rested(&known, found);
        }
        // A schedule that is not due stays as it is if a run that a client has asked for is not possible.
        let is_due = matches!(known.state, ScheduleState::Waiting | ScheduleState::TargetGone);
        let (answer, done) = match found {
            Ok(found) => {
                // A run that a client asks for looks at the target, too.
                let number = known.id.number().unwrap_or_default();
                let is_look = is_due && self.agenda.asker(number).is_none();
                let node = found.relieved_node.filter(|_| is_look);
                let step = node.and_then(|node| self.relief_step(&known, node));
                match (step, node, self.wait_for_budget(&known)) {
                    (_, _, Some(wait)) if is_look => {
                        let done = self.await_hour(&known, wait);
                        (self.last_run(&known), done)
                    }
                    (Some(ReliefStep::Rest), Some(node), _) => {
                        let done = self.rest(&known, node);
                        (self.last_run(&known), done)
                    }
                    (Some(ReliefStep::Run(back @ Direction::Back { .. })), ..) => {
                        self.ran(&known, None, back, is_due)
                    }
                    _ => self.ran(&known, Some(found), Direction::Out, is_due),
                }
            }
            // The end of the job reports that no node is available as a target, as clients expect.
            Err(Refusal::NoTargetNode { .. }) => self.ran(&known, None, Direction::Out, is_due),
            Err(refusal) if !is_due => (Err(refusal), Ok(())),
            Err(refusal @ (Refusal::TargetNotFound { .. } | Refusal::TargetEmpty { .. })) => {
                let done = self.target_is_gone(&known, refusal.to_string());
                (Err(refusal), done)
            }
            Err(refusal) => {
                let done = self.postpone(&known, refusal.to_string());
                (Err(refusal), done)
            }
        };
        if let Err(refusal) = &done {
            tracing::warn!(schedule = %known.id, %refusal, "a run waits until it can be stored");
            self.set_due(&known.id, Some(Instant::now() + LOOK_MIN));
        }
        self.answer_runs(&known.id, &done.and(answer));
    }

    /// Handles the look for the target of a schedule that rests: only what has been gone for long enough changes anything.
    fn on_rested(&mut self, known: &Schedule, found: Result<FoundTarget, Refusal>) {
        let (number, now) = (known.id.number().unwrap_or_default(), Instant::now());
        let due = match found {
            Err(refusal @ (Refusal::TargetNotFound { .. } | Refusal::TargetEmpty { .. })) => {
                let since = self.agenda.note_gone(number, now);
                let left = known.spec.ttl_after_gone.map(|ttl| ttl.saturating_sub(now - since));
                if left.is_some_and(|left| left.is_zero()) {
                    let done = self.remove_gone(known, &refusal.to_string());
                    if done.is_ok() {
                        return;
                    }
                }
                left.map(|left| now + left.clamp(LOOK_MIN, LOOK_RESTING))
            }
            Ok(_) | Err(Refusal::NoTargetNode { .. }) => {
                self.agenda.note_found(number);
                None
            }
            Err(_) => None,
        };
        self.set_due(&known.id, due);
    }

    /// Removes a schedule whose target has been gone for long enough.
    fn remove_gone(&mut self, known: &Schedule, message: &str) -> Result<(), Refusal> {
        let why = format!("removed: its target has been gone for long enough: {message}");
        let event = self.of_schedule(known, EventType::ScheduleRemoved, why);
        let writes = [Write::DropSchedule(known.id.clone())].into_iter();
        self.commit(writes.chain(self.tell([event])).collect())?;
        self.agenda.forget(known.id.number().unwrap_or_default());
        tracing::info!(schedule = %known.id, "removed: its target has been gone for long enough");
        Ok(())
    }

    /// Begins a run, for what was found if that is known. Gives back the answer for the callers that have asked for the
    /// run, and whether the run could be stored.
    fn ran(
        &mut self,
        known: &Schedule,
        found: Option<FoundTarget>,
        direction: Direction,
        is_due: bool,
    ) -> (Result<Made, Refusal>, Result<(), Refusal>) {
        match self.run_schedule(known, found, direction) {
            Ok(job) => (Ok((job, false)), Ok(())),
            // Other records of the owner have to end first.
            Err(refusal @ Refusal::Quota { .. }) => {
                let done = if is_due { self.postpone(known, refusal.to_string()) } else { Ok(()) };
                (Err(refusal), done)
            }
            Err(refusal) => (Err(refusal.clone()), Err(refusal)),
        }
    }

    fn run_schedule(
        &mut self,
        known: &Schedule,
        found: Option<FoundTarget>,
        direction: Direction,
    ) -> Result<Arc<Job>, Refusal> {
        let migration = direction.of(known.spec.migration.clone());
        let owner = self.creator(&known.creator, known.creator_gid)?;
        let selected = self.select(&migration.target, Some(&owner), Some(&known.pins))?;
        let mut job = self.new_job(migration, "schedule".to_owned());
        job.schedule = Some(known.id.clone());
        job.pins.clone_from(&known.pins);
        // A look at a node that is within its bound has found no processes.
        let is_of_target =
            |found: &FoundTarget| found.relieved_node.is_none() || !found.processes.is_empty();
        let found = found.filter(is_of_target);
        if let Some(found) = &found {
            job = job.with_members(found.members.clone());
        }
        job.labels.clone_from(&known.spec.labels);
        let asker = self.agenda.asker(known.id.number().unwrap_or_default());
        if let Some(RunRequest { who, request_id, .. }) = asker {
            // If two requests with the same request_id were under way, the first has it.
            let is_new = |id: &String| self.records.jobs().of_request(who, id).is_none();
            job.request_id = request_id.clone().filter(is_new);
            job.requester = Some(who.clone());
        }
        job.spec.policy.qos_class = selected.class_for(&job.spec.policy)?;
        let job = Arc::new(job);
        self.records.check_job(&job, &self.config().quota)?;
        let schedule = Schedule {
            state: ScheduleState::Active,
            state_message: self.contest_message(&known.id),
            last_job: Some(job.id.clone()),
            last_run: Some(job.created),
            next_run: None,
            gone: None,
            ..known.clone()
        };
        self.commit(vec![Write::Job(job.clone()), Write::Schedule(Arc::new(schedule))])?;
        self.agenda.note_found(known.id.number().unwrap_or_default());
        if let Some((number, found)) = job.id.number().zip(found) {
            self.open.learn(number, &found);
        }
        Ok(job)
    }

    fn target_is_gone(&mut self, known: &Schedule, message: String) -> Result<(), Refusal> {
        let (number, now) = (known.id.number().unwrap_or_default(), Instant::now());
        let since = self.agenda.note_gone(number, now);
        let left = known.spec.ttl_after_gone.map(|ttl| ttl.saturating_sub(now - since));
        if left.is_some_and(|left| left.is_zero()) {
            return self.remove_gone(known, &message);
        }
        if known.state != ScheduleState::TargetGone {
            let gone = known.gone.or(Some(self.wall()));
            let event = self.of_schedule(known, EventType::TargetGone, message.clone());
            let (state, state_message) = (ScheduleState::TargetGone, message);
            let schedule = Schedule { state, state_message, gone, next_run: None, ..known.clone() };
            let writes = [Write::Schedule(Arc::new(schedule))].into_iter();
            self.commit(writes.chain(self.tell([event])).collect())?;
        }
        // The longer the target has been gone, the longer the wait.
        let wait = known.spec.interval.clamp(LOOK_MIN, LOOK_MAX).max((now - since) / 10);
        let wait = wait.min(LOOK_GONE);
        self.set_due(&known.id, Some(now + left.map_or(wait, |left| wait.min(left))));
        Ok(())
    }

    fn postpone(&mut self, known: &Schedule, message: String) -> Result<(), Refusal> {
        // The wait doubles each time. It does not depend on the interval, so a weekly run is not put off by a week.
        let failures = self.agenda.count_failure(known.id.number().unwrap_or_default());
        let wait = RETRY.saturating_mul(1 << failures.min(6)).min(RETRY_MAX);
        if known.state_message != message || known.state != ScheduleState::Waiting {
            let schedule = Schedule {
                state: ScheduleState::Waiting,
                state_message: message,
                next_run: Some(self.wall() + wait),
                ..known.clone()
            };
            self.commit(vec![Write::Schedule(Arc::new(schedule))])?;
        }
        self.set_due(&known.id, Some(Instant::now() + wait));
        Ok(())
    }

    /// The schedule of a job that ends now, in its next state, and when it is due next. `None` if this is not the
    /// schedule's last run.
    pub(super) fn after_run(
        &self,
        job: &Job,
        contest: Option<&Contest>,
    ) -> Option<(Arc<Schedule>, Option<Instant>)> {
        let known = self.records.schedule(job.schedule.as_ref()?)?;
        let again = job.state == JobState::Interrupted;
        if known.last_job.as_ref() != Some(&job.id) {
            return None;
        }
        let spec = &known.spec;
        let once = spec.interval.is_zero();
        let interval = spec.interval * contest.map_or(1, Contest::slowdown);
        let (state, wait) = match () {
            () if once && !again => (ScheduleState::Completed, None),
            () if spec.paused => (ScheduleState::Paused, None),
            () if again => (ScheduleState::Waiting, Some(Duration::ZERO)),
            () => (ScheduleState::Waiting, Some(interval + jitter(spec.jitter))),
        };
        let next_run = wait.map(|wait| self.wall() + wait);
        let state_message = contest.map(Contest::message).unwrap_or_default().to_owned();
        let schedule = Schedule { state, state_message, next_run, ..(**known).clone() };
        let schedule = self.in_hour(self.relieved(schedule, job), job);
        Some((Arc::new(schedule), wait.map(|wait| Instant::now() + wait)))
    }

    /// When those schedules may be looked at again with whose probes or runs daemons have ended more than once in a
    /// row. One after the other, because only one of them may be the cause.
    fn backed_off(&mut self, now: Instant) -> BTreeMap<u64, Instant> {
        let suspects: Vec<_> = self.records.under_way().left().collect();
        let schedules = suspects.into_iter().filter_map(|(work, ends)| match work {
            Work::Schedule(number) if ends > 1 => Some((number, ends)),
            Work::Schedule(_) | Work::Job(_) => None,
        });
        let (mut due, mut names) = (BTreeMap::new(), Vec::new());
        for (before, (number, ends)) in (0_u32..).zip(schedules) {
            let wait = RETRY.saturating_mul(1 << (ends - 2).min(6)).min(RETRY_MAX) + before * APART;
            if let Some(schedule) = self.records.schedules().get(&number) {
                tracing::debug!(schedule = %schedule.id, ends, wait_seconds = wait.as_secs(), "it waits");
                names.push(&schedule.id);
                due.insert(number, now + wait);
            }
        }
        if let Some(schedules) = first_few(names.into_iter()) {
            tracing::warn!(
                %schedules,
                "the daemon ended repeatedly while it resolved the targets of these schedules, or ran them: they wait"
            );
        }
        due
    }

    /// Sets when each stored schedule is due, at the start of the daemon. If the wall clock has jumped meanwhile, no
    /// schedule is delayed by more than its own interval and jitter.
    pub(super) fn set_all_due(&mut self) {
        let (now, wall) = (Instant::now(), self.wall());
        let backed_off = self.backed_off(now);
        for (&number, schedule) in self.records.schedules().iter() {
            let spec = &schedule.spec;
            match schedule.state {
                ScheduleState::Waiting => {
                    let left = schedule.next_run.map_or(Duration::ZERO, |next| until(wall, next));
                    let due = now + left.min(spec.interval + spec.jitter);
                    let due = backed_off.get(&number).map_or(due, |&later| due.max(later));
                    self.agenda.set_due(number, Some(due));
                }
                ScheduleState::TargetGone => {
                    // Counted from the start: nothing has looked for the target while the daemon or the host was off.
                    self.agenda.set_gone(number, now);
                    let due = backed_off.get(&number).copied().unwrap_or(now);
                    self.agenda.set_due(number, Some(due));
                }
                ScheduleState::Paused | ScheduleState::Completed => {
                    self.agenda.set_due(number, resting_due(schedule, now));
                }
                // An active schedule continues when its job ends.
                ScheduleState::Active => {}
            }
        }
    }
}

/// Whether a schedule starts no run unasked.
fn is_resting(schedule: &Schedule) -> bool {
    matches!(schedule.state, ScheduleState::Paused | ScheduleState::Completed)
}

/// When the target of a schedule that rests is looked for; `None`: it does not rest, or stays without its target.
pub(super) fn resting_due(schedule: &Schedule, now: Instant) -> Option<Instant> {
    let is_removed = is_resting(schedule) && schedule.spec.ttl_after_gone.is_some();
    is_removed.then_some(now + LOOK_RESTING)
}

fn until(from: SystemTime, to: SystemTime) -> Duration {
    to.duration_since(from).unwrap_or_default()
}

fn jitter(most: Duration) -> Duration {
    most.mul_f64(fastrand::f64())
}
