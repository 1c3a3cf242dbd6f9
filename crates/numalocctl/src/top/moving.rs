//! A migration that the view begins, in a thread of its own: planned, asked for, and carried out by the engine.

use super::{
    rows::RowKey,
    state::{Progress, Question, Stage},
};
use crate::{
    args::{LimitArgs, OptionArgs, PaceArgs, QueueArgs, TargetArgs, spec},
    engine::{Chosen, Engine, Next},
    exit::Failure,
    fields::{self, amount},
    job::state,
    output::View,
    text,
};
use numaloc_api::{
    v1,
    value::{MigrationSpec, Target, TargetProcess},
};
use numaloc_core::{NodeSet, Profile};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

/// The form of plans and results.
const VIEW: View = View::TABLE;

/// The thread of a migration. It ends when this value is dropped before the yes; a run that is under way is ordered to
/// end.
pub struct MigrationThread {
    stages: Receiver<Stage>,
    go: Sender<Profile>,
    cancelled: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
    /// Whether the run ends with this process.
    is_own: bool,
}

impl MigrationThread {
    /// Starts the thread, which plans and then waits for [`Self::begin`].
    pub fn plan(engine: Chosen, key: &RowKey) -> Self {
        let (tell, stages) = channel();
        let (go, yes) = channel();
        let cancelled = Arc::new(AtomicBool::new(false));
        let (flag, key, is_own) = (cancelled.clone(), key.clone(), engine.is_own());
        let thread = thread::spawn(move || {
            let work = || {
                let engine = engine.open()?;
                let target = requested(&key, || engine.boot_id())?;
                migrate(&*engine, target, &tell, &yes, &flag)
            };
            let end = match catch_unwind(AssertUnwindSafe(work)) {
                Ok(Ok(Some(text))) => text,
                Ok(Ok(None)) => return,
                Ok(Err(failure)) => format!("not migrated: {failure}"),
                Err(_) => "not migrated: a defect in numalocctl ended it; please report it".into(),
            };
            let _ = tell.send(Stage::Ended(end));
        });
        Self { stages, go, cancelled, thread: Some(thread), is_own }
    }

    /// Carries out the plan, with this profile.
    pub fn begin(&self, profile: Profile) {
        // A thread that has failed has reported that.
        let _ = self.go.send(profile);
    }

    /// Ends it after the batches in hand.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// The stages that it has reached since the last call of this.
    pub fn stages(&self) -> Vec<Stage> {
        self.stages.try_iter().collect()
    }

    /// Lets it end on its own: it finishes its current batches, and the view does not wait for it. Returns the thread.
    pub fn give_up(mut self) -> Option<thread::JoinHandle<()>> {
        self.cancel();
        self.thread.take()
    }

    /// Ends a run of this process after its batches in hand, and waits for that. A job of a daemon continues.
    pub fn end(mut self) {
        if !self.is_own {
            return;
        }
        self.cancel();
        let Self { go, thread, .. } = &mut self;
        // Without a sender there will be no yes.
        let (none, _) = channel();
        *go = none;
        if let Some(thread) = thread.take() {
            let _ = thread.join();
        }
    }
}

/// The target that a key stands for: a process by its start time, too, so that a later one with its pid is not meant,
/// however long the plan has been shown.
pub fn requested(
    key: &RowKey,
    boot_id: impl FnOnce() -> Result<String, Failure>,
) -> Result<Target, Failure> {
    Ok(match *key {
        RowKey::Cgroup(_) => target(key).request(),
        RowKey::Process(pid, start_time) => {
            let process = TargetProcess { pid, start_time, boot_id: boot_id()? };
            Target { processes: [process].into(), ..Target::default() }
        }
    })
}

/// The target that a key stands for.
pub fn target(key: &RowKey) -> TargetArgs {
    match key {
        RowKey::Cgroup(path) => TargetArgs { cgroup: vec![path.clone()], ..TargetArgs::default() },
        RowKey::Process(pid, _) => TargetArgs::pid(*pid),
    }
}

/// The reason why there is no question.
const NOTHING: &str = "nothing to move";

/// Reports the plan and waits for a yes, with the profile. `None`: the answer was no.
fn ask(plan: &v1::Plan, tell: &Sender<Stage>, yes: &Receiver<Profile>) -> Option<OptionArgs> {
    let takes = fields::span(plan.expected_duration);
    let question = Question { plan: text::question(plan), takes };
    tell.send(Stage::Asked(question)).ok()?;
    let pace = PaceArgs { profile: Some(yes.recv().ok()?), ..PaceArgs::default() };
    Some(OptionArgs { pace, ..OptionArgs::default() })
}

/// Result of the plan and of the question about it.
enum Planned {
    Nothing,
    Refused,
    /// The migration, and the bytes that its plan moves.
    Agreed(Box<MigrationSpec>, u64),
}

/// Plans, shows the plan, and waits for an answer.
fn plan(
    engine: &dyn Engine,
    target: Target,
    tell: &Sender<Stage>,
    yes: &Receiver<Profile>,
) -> Result<Planned, Failure> {
    let (queue, limits) = (QueueArgs::default(), LimitArgs::default());
    let spec_with =
        |options: &OptionArgs| spec(target.clone(), options, &queue, &limits, &NodeSet::new());
    let plan = engine.plan(&spec_with(&OptionArgs::default())?, &[])?.plan.unwrap_or_default();
    if plan.moves.is_empty() {
        return Ok(Planned::Nothing);
    }
    match ask(&plan, tell, yes) {
        Some(options) => {
            Ok(Planned::Agreed(Box::new(spec_with(&options)?), amount(plan.expected_bytes)))
        }
        None => Ok(Planned::Refused),
    }
}

/// Plans, asks, and carries it out. `None`: the answer was no, or the view has gone.
fn migrate(
    engine: &dyn Engine,
    target: Target,
    tell: &Sender<Stage>,
    yes: &Receiver<Profile>,
    cancelled: &AtomicBool,
) -> Result<Option<String>, Failure> {
    // The plan may wait for long, and does not look up all policies: the run plans again.
    let (spec, planned) = match plan(engine, target, tell, yes)? {
        Planned::Nothing => return Ok(Some(NOTHING.to_owned())),
        Planned::Refused => return Ok(None),
        Planned::Agreed(spec, planned) => (spec, planned),
    };
    let ended = engine.run(&spec, &mut |job| {
        let is_cancelled = cancelled.load(Relaxed);
        match tell.send(Stage::Running(progress(job, planned, is_cancelled))) {
            Err(_) => Next::Leave,
            Ok(()) if is_cancelled => Next::Cancel,
            Ok(()) => Next::Continue,
        }
    })?;
    Ok(ended.map(|job| text::migration(&job, VIEW)))
}

/// The progress of a job. One that waits has no plan yet: that has the `planned` bytes that were agreed to.
fn progress(job: &v1::Job, planned: u64, is_cancelled: bool) -> Progress {
    let progress = job.progress.clone().unwrap_or_default();
    Progress {
        job: match job.name.is_empty() {
            true => "moving".to_owned(),
            false => format!("{} is {}", job.name, state(job)),
        },
        settled_bytes: amount(progress.settled_bytes),
        planned_bytes: Some(amount(progress.planned_bytes)).filter(|&it| it > 0).unwrap_or(planned),
        held_back: match progress.held_back.is_empty() {
            true => job.state_message.clone(),
            false => progress.held_back,
        },
        is_cancelled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_waits_has_the_bytes_of_its_plan() {
        let job = |planned_bytes| v1::Job {
            name: "jobs/6".to_owned(),
            state: v1::JobState::Queued.into(),
            progress: Some(v1::JobProgress { planned_bytes, ..v1::JobProgress::default() }),
            ..v1::Job::default()
        };
        let none = v1::Job { progress: None, ..job(0) };
        let planned = [none, job(0), job(90)].map(|job| progress(&job, 100, false).planned_bytes);
        assert_eq!(planned, [100, 100, 90]);
    }

    /// A row is about one process, however many have had its pid.
    #[test]
    fn a_later_process_with_the_same_pid_is_not_meant() {
        let key = RowKey::Process(4711, 1000);
        let asked = requested(&key, || Ok("boot".to_owned())).expect("the daemon answers");
        let process = TargetProcess { pid: 4711, start_time: 1000, boot_id: "boot".to_owned() };
        assert_eq!(asked, Target { processes: [process].into(), ..Target::default() });
        let cgroup = requested(&RowKey::Cgroup("/a".into()), || panic!("it is not needed"));
        assert_eq!(cgroup.expect("a cgroup").cgroups, ["/a".to_owned()].into());
    }
}
