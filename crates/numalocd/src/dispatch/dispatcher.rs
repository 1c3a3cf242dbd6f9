//! The dispatcher's state. Its parts change only through their own functions; each plain field says which file changes
//! it.

use super::{
    DaemonStatus,
    agenda::{Agenda, Changed},
    group::CommitGroup,
    jumps::Jumps,
    leases::Leases,
    limits::SharedLimit,
    measured::Measured,
    open::OpenJobs,
    records::Records,
    run::Run,
};
use crate::{
    access::{Caller, Grants},
    config::Config,
    order::{EngineReport, JobOrder},
    refusal::Refusal,
};
use numaloc_api::value::{EventType, JobId, ScheduleId};
use numaloc_core::Options;
use numaloc_engine::{Aim, FoundTarget};
use numaloc_executor::SharedRooms;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    time::SystemTime,
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

/// Asks whether the target of a schedule exists.
#[derive(Debug)]
pub struct Probe {
    /// The schedule, whose next run is due.
    pub schedule: ScheduleId,
    /// The schedule's etag. If the schedule has changed when the answer comes, the answer is ignored.
    pub etag: String,
    /// The targets that the engine has to look for.
    pub aim: Aim,
    /// Options of the migration, which decide whose memory counts.
    pub options: Options,
    /// The schedule's creator, with its present rights.
    pub creator: Caller,
}

/// The answer to a [`Probe`].
#[derive(Debug)]
pub struct ProbeAnswer {
    /// The schedule of the probe.
    pub schedule: ScheduleId,
    /// The schedule's etag in the question.
    pub etag: String,
    /// The processes that were found, or why there are none.
    pub found: Result<FoundTarget, Refusal>,
}

/// Asks for the processes of a job that was open when the daemon started. Then a new job for the same memory is checked
/// against this one even before this one is planned.
#[derive(Debug)]
pub struct Lookup {
    /// The job, which was open when the daemon started.
    pub job: JobId,
    /// The targets that the engine has to look for.
    pub aim: Aim,
    /// Options of the migration, which decide whose memory counts.
    pub options: Options,
    /// The job's owner, with its present rights.
    pub owner: Caller,
}

/// Everything outside of the dispatcher that it uses.
pub struct Edges {
    /// The configuration in force; a reload replaces it.
    pub config: watch::Receiver<Arc<Config>>,
    /// To the engine: plan and move.
    pub orders: mpsc::UnboundedSender<JobOrder>,
    /// To the engine: is the target of a schedule there?
    pub probes: mpsc::UnboundedSender<Probe>,
    /// To the engine: which parts of a job's target exist?
    pub lookups: mpsc::UnboundedSender<Lookup>,
    /// Called with each count and measurement.
    pub measured: Box<dyn Fn(Measured<'_>) + Send>,
    /// Called with the daemon's status whenever that has changed.
    pub tell: Box<dyn FnMut(&DaemonStatus) + Send>,
    /// The wall clock. It may jump, so durations are measured with `Instant`.
    pub clock: fn() -> SystemTime,
}

impl fmt::Debug for Edges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edges").finish_non_exhaustive()
    }
}

/// Owns jobs, schedules, workloads and events.
#[derive(Debug)]
pub struct Dispatcher {
    pub(super) edges: Edges,
    /// Jobs, schedules, workloads and events. `commits` changes them.
    pub(super) records: Records,
    /// Effects and answers of the changes that share the commit now being prepared; `None`: no commit is being
    /// prepared. `commits` has it.
    pub(super) group: Option<CommitGroup<Self>>,
    /// Jobs that the engine is working on, by number. `turn` begins them, `reports` ends them.
    pub(super) runs: BTreeMap<u64, Run>,
    /// State of open jobs beyond their records.
    pub(super) open: OpenJobs,
    /// State of schedules beyond their records.
    pub(super) agenda: Agenda,
    /// The leases of workloads: when workloads that are not renewed are forgotten. `workloads` sets them.
    pub(super) leases: Leases,
    /// The rate limit that all runs share. `turn` hands it out.
    pub(super) shared_rate: SharedLimit,
    /// Room on the nodes that all runs share. `turn` hands it out.
    pub(super) rooms: Arc<SharedRooms>,
    /// Reports whose consequences could not be stored yet. `reports` has them.
    pub(super) late: VecDeque<EngineReport>,
    /// Bytes moved since the start. `reports` adds to them.
    pub(super) moved_bytes: u64,
    /// News of the host since the start, as events with these messages. `recover` reports them.
    pub(super) news: Vec<(EventType, String)>,
    /// Jobs that the last daemon left open and whose processes are still to be looked up. `recover` has it.
    pub(super) unseen: VecDeque<u64>,
    /// Probes whose answers have not come yet. `ticks` counts them.
    pub(super) probing: usize,
    /// Cgroups whose CPUs or nodes have changed, as far as schedules are still to be compared with them. `cpusets` has
    /// it.
    pub(super) cpusets: Option<Changed>,
    /// Whether the jobs that the last daemon left under way have been dealt with. `recover` sets it.
    pub(super) recovered: bool,
    /// Whether the schedules may differ from the declarations in the configuration. `declare` clears it.
    pub(super) undeclared: bool,
    /// Whether anything has changed since jobs were last chosen to start. All set it; `task` clears it.
    pub(super) changed: bool,
    /// Total weight of the jobs that have ended since old records were last removed. `ends` adds to it, `forget` clears
    /// it.
    pub(super) ended_bytes: usize,
    /// The same of events. `commits` adds to it, `forget` clears it.
    pub(super) event_bytes: usize,
    /// The size of the store's file after it last gave back room; 0: it has not. `forget` has it.
    pub(super) shrunk_to: u64,
    /// Whether the wall clock has jumped. `forget` asks it.
    pub(super) jumps: Jumps,
    pub(super) started: SystemTime,
    /// Set by `task` when the daemon stops: the deadline for runs to end.
    pub(super) stopping: Option<Instant>,
}

impl Dispatcher {
    /// A dispatcher of these records.
    pub fn new(edges: Edges, records: Records) -> Self {
        let started = (edges.clock)();
        (edges.measured)(Measured::StoreBytes(records.store_bytes()));
        Self {
            edges,
            records,
            group: None,
            runs: BTreeMap::new(),
            open: OpenJobs::default(),
            agenda: Agenda::default(),
            leases: Leases::default(),
            shared_rate: SharedLimit::default(),
            rooms: Arc::default(),
            late: VecDeque::new(),
            moved_bytes: 0,
            news: Vec::new(),
            unseen: VecDeque::new(),
            probing: 0,
            cpusets: None,
            recovered: false,
            undeclared: true,
            changed: true,
            ended_bytes: 0,
            event_bytes: 0,
            shrunk_to: 0,
            jumps: Jumps::default(),
            started,
            stopping: None,
        }
    }

    /// Makes it report this news of the host when it begins, as events with these messages.
    #[must_use]
    pub fn telling(self, news: Vec<(EventType, String)>) -> Self {
        Self { news, ..self }
    }

    pub(super) fn config(&self) -> Arc<Config> {
        self.edges.config.borrow().clone()
    }

    /// The creator of a stored record, with its present rights.
    ///
    /// # Errors
    /// Not permitted: the creator may not have memory moved any more.
    pub(super) fn creator(&self, name: &str, gid: Option<u32>) -> Result<Caller, Refusal> {
        Grants::from(&*self.config()).creator(name, gid).ok_or_else(|| {
            let message = format!(
                "{name} is no longer permitted to have memory moved: ask for a grant in the daemon's configuration"
            );
            Refusal::NotPermitted { message }
        })
    }

    /// The wall clock of the host, or that of a test.
    pub(super) fn wall(&self) -> SystemTime {
        (self.edges.clock)()
    }
}
