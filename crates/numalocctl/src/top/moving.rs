//! A migration that the view begins, in a thread of its own: planned, asked for, carried out by the daemon where there
//! is one, and here where there is none.

use super::{
    rows::RowKey,
    state::{Progress, Question, Stage},
};
use crate::{
    args::{ConnectArgs, LimitArgs, OptionArgs, PaceArgs, QueueArgs, TargetArgs, spec},
    doc::{MovedFlows, Moving},
    endpoint::Endpoint,
    engine::{Engine, LocalEngine, Next},
    exit::Failure,
    fields::{self, amount, node},
    job::state,
    output::View,
    remote::Daemon,
    text,
};
use numaloc_api::{
    v1,
    value::{MigrationSpec, Target, TargetProcess},
};
use numaloc_core::{NodeSet, Profile};
use numaloc_host::{Roots, boot_id};
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

/// Reports of the thread to the view.
#[derive(Debug)]
pub enum ThreadReport {
    Stage(Stage),
    /// Bytes that this program has moved itself so far.
    Moved(u64),
    /// The final moves of this program.
    Flows(MovedFlows),
}

/// Whether this program or the daemon carries the migration out.
#[derive(Clone, Debug)]
pub enum By {
    Here(Roots),
    Daemon(Endpoint, Box<ConnectArgs>),
}

impl By {
    pub fn is_here(&self) -> bool {
        matches!(self, Self::Here(_))
    }
}

/// The thread of a migration. It ends when this value is dropped before the yes; a run that is under way is ordered to
/// end.
pub struct MigrationThread {
    reports: Receiver<ThreadReport>,
    go: Sender<Profile>,
    cancelled: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl MigrationThread {
    /// Starts the thread, which plans and then waits for [`Self::begin`].
    pub fn plan(by: By, key: &RowKey) -> Self {
        let (tell, reports) = channel();
        let (go, yes) = channel();
        let cancelled = Arc::new(AtomicBool::new(false));
        let (flag, key) = (cancelled.clone(), key.clone());
        let thread = thread::spawn(move || {
            let work = || match &by {
                By::Here(roots) => {
                    let engine = LocalEngine::new(roots.clone());
                    let target = requested(&key, || Ok(boot_id(roots)?))?;
                    migrate((&engine, true), target, &tell, &yes, &flag)
                }
                By::Daemon(endpoint, connect) => {
                    let daemon = Daemon::connect(endpoint.clone(), connect)?;
                    let target = requested(&key, || Ok(daemon.status()?.boot_id))?;
                    migrate((&daemon, false), target, &tell, &yes, &flag)
                }
            };
            let end = match catch_unwind(AssertUnwindSafe(work)) {
                Ok(Ok(Some(text))) => text,
                Ok(Ok(None)) => return,
                Ok(Err(failure)) => format!("not migrated: {failure}"),
                Err(_) => "not migrated: a defect in numalocctl ended it; please report it".into(),
            };
            let _ = tell.send(ThreadReport::Stage(Stage::Ended(end)));
        });
        Self { reports, go, cancelled, thread: Some(thread) }
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

    /// The reports since the last call of this.
    pub fn reports(&self) -> Vec<ThreadReport> {
        self.reports.try_iter().collect()
    }

    /// Lets it end on its own: it finishes its current batches, and the view does not wait for it. Returns the thread.
    pub fn give_up(mut self) -> Option<thread::JoinHandle<()>> {
        self.cancel();
        self.thread.take()
    }

    /// Ends it and waits until it has ended.
    pub fn end(mut self) {
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

/// A migration that this program carries out itself, as rows show it.
pub fn moving(key: &RowKey) -> Moving {
    let target = target(key).request();
    Moving {
        job: "here".into(),
        is_open: true,
        pids: target.pids,
        cgroups: target.cgroups,
        ..Moving::default()
    }
}

/// The reason why there is no question.
const NOTHING: &str = "nothing to move";

/// Reports the plan and waits for a yes, with the profile. `None`: the answer was no.
fn ask(
    plan: &v1::Plan,
    tell: &Sender<ThreadReport>,
    yes: &Receiver<Profile>,
) -> Option<OptionArgs> {
    let takes = fields::span(plan.expected_duration);
    let question = Question { plan: text::question(plan), takes };
    tell.send(ThreadReport::Stage(Stage::Asked(question))).ok()?;
    let pace = PaceArgs { profile: Some(yes.recv().ok()?), ..PaceArgs::default() };
    Some(OptionArgs { pace, ..OptionArgs::default() })
}

/// Result of the plan and of the question about it.
enum Planned {
    Nothing,
    Refused,
    Agreed(Box<MigrationSpec>),
}

/// Plans, shows the plan, and waits for an answer.
fn plan(
    engine: &dyn Engine,
    target: Target,
    tell: &Sender<ThreadReport>,
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
        Some(options) => Ok(Planned::Agreed(Box::new(spec_with(&options)?))),
        None => Ok(Planned::Refused),
    }
}

/// Plans, asks, and carries it out. `None`: the answer was no, or the view has gone.
fn migrate(
    (engine, is_own): (&dyn Engine, bool),
    target: Target,
    tell: &Sender<ThreadReport>,
    yes: &Receiver<Profile>,
    cancelled: &AtomicBool,
) -> Result<Option<String>, Failure> {
    // The plan may wait for long, and does not look up all policies: the run plans again.
    let spec = match plan(engine, target, tell, yes)? {
        Planned::Nothing => return Ok(Some(NOTHING.to_owned())),
        Planned::Refused => return Ok(None),
        Planned::Agreed(spec) => spec,
    };
    let moved = |bytes: i64| is_own.then(|| tell.send(ThreadReport::Moved(amount(bytes))));
    let ended = engine.run(&spec, &mut |job| {
        let is_cancelled = cancelled.load(Relaxed);
        moved(job.progress.as_ref().map_or(0, |progress| progress.moved_bytes));
        match tell.send(ThreadReport::Stage(Stage::Running(progress(job, is_cancelled)))) {
            Err(_) => Next::Leave,
            Ok(()) if is_cancelled => Next::Cancel,
            Ok(()) => Next::Continue,
        }
    })?;
    let Some(job) = ended else { return Ok(None) };
    let outcome = job.outcome.iter().filter(|_| is_own);
    for v1::Outcome { account, flows, .. } in outcome {
        moved(account.as_ref().map_or(0, |account| account.moved_bytes));
        let flow = |flow: &v1::Flow| {
            ((node(flow.from_node_id), node(flow.to_node_id)), amount(flow.bytes))
        };
        let _ = tell.send(ThreadReport::Flows(flows.iter().map(flow).collect()));
    }
    Ok(Some(text::migration(&job, VIEW)))
}

fn progress(job: &v1::Job, is_cancelled: bool) -> Progress {
    let progress = job.progress.clone().unwrap_or_default();
    Progress {
        job: match job.name.is_empty() {
            true => "moving".to_owned(),
            false => format!("{} is {}", job.name, state(job)),
        },
        settled_bytes: amount(progress.settled_bytes),
        planned_bytes: amount(progress.planned_bytes),
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
