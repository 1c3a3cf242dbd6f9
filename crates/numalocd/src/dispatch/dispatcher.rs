//! The dispatcher's state and how it changes: a list of writes is committed, then taken over into the book.

use super::{
    Made, Status, book::Book, command::Reply, fight::Fight, group::Group, leases::Leases,
    measured::Measured, run::Run,
};
use crate::{
    access::{Caller, Grants},
    config::Config,
    order::{Aim, Found, Order, Report},
    refusal::Refusal,
    store::{Store, StoreError, Write},
};
use numaloc_api::value::{JobId, ScheduleId};
use numaloc_core::Options;
use numaloc_executor::SharedRate;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::Arc,
    time::SystemTime,
};
use tokio::{
    runtime::{Handle as Runtime, RuntimeFlavor},
    sync::{mpsc, watch},
    time::Instant,
};

/// Asks whether the target of a schedule is there.
#[derive(Debug)]
pub struct Probe {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The schedule's etag. If the schedule has changed when the answer comes, the answer is ignored.
    pub etag: String,
    /// The target.
    pub aim: Aim,
    /// Options of the migration.
    pub options: Options,
    /// The schedule's creator, with its present rights.
    pub creator: Caller,
}

/// The answer to a [`Probe`].
#[derive(Debug)]
pub struct Probed {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The schedule's etag in the question.
    pub etag: String,
    /// What was found.
    pub found: Result<Found, Refusal>,
}

/// Asks for the processes of a job that was open when the daemon started. Then a new job for the same memory is checked
/// against this one even before this one is planned.
#[derive(Debug)]
pub struct Lookup {
    /// The job.
    pub job: JobId,
    /// The target.
    pub aim: Aim,
    /// Options of the migration.
    pub options: Options,
    /// The job's owner, with its present rights.
    pub owner: Caller,
}

/// Everything outside of the dispatcher that it uses.
pub struct Edges {
    /// Where records are kept.
    pub store: Store,
    /// The configuration in force.
    pub config: watch::Receiver<Arc<Config>>,
    /// To the engine: plan and move.
    pub orders: mpsc::UnboundedSender<Order>,
    /// To the engine: is the target of a schedule there?
    pub probes: mpsc::UnboundedSender<Probe>,
    /// To the engine: what of the target of a job is there?
    pub lookups: mpsc::UnboundedSender<Lookup>,
    /// Called with all that is counted or measured.
    pub measured: Box<dyn Fn(Measured<'_>) + Send>,
    /// Called with the daemon's status whenever that has changed.
    pub tell: Box<dyn FnMut(&Status) + Send>,
    /// The wall clock. It may jump, so durations are measured with `Instant`.
    pub clock: fn() -> SystemTime,
}

impl fmt::Debug for Edges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edges").field("store", &self.store).finish_non_exhaustive()
    }
}

/// A client that has asked for a run of a schedule.
#[derive(Debug)]
pub(super) struct Asked {
    /// Its name.
    pub who: String,
    /// Makes its request safe to repeat.
    pub request_id: Option<String>,
    /// Where the job goes.
    pub reply: Reply<Made>,
}

/// Owns jobs, schedules, workloads and events.
#[derive(Debug)]
pub struct Dispatcher {
    pub(super) edges: Edges,
    pub(super) book: Book,
    /// Jobs that the engine is working on, by number.
    pub(super) runs: BTreeMap<u64, Run>,
    /// The rate limit that all runs share, in bytes per second, and the limiter.
    pub(super) shared_rate: Option<(u64, Arc<SharedRate>)>,
    /// Processes and nodes of open jobs, where known, by job number.
    pub(super) found: HashMap<u64, Found>,
    /// Places in the queue of jobs that have been put behind others, by job number.
    pub(super) behind: HashMap<u64, u64>,
    /// When a schedule is due, by number.
    pub(super) due: BTreeMap<u64, Instant>,
    /// Since when a schedule's target has been gone.
    pub(super) gone: HashMap<u64, Instant>,
    /// How many probes of a schedule have failed in a row, by number.
    pub(super) put_off: HashMap<u64, u32>,
    /// Callers that have asked for a run of a schedule and wait for its job, by schedule number; first come, first listed.
    pub(super) asked: HashMap<u64, Vec<Asked>>,
    /// Whether schedules' work stays done, by schedule number: for repeating schedules of which a run has ended since the
    /// start.
    pub(super) fights: HashMap<u64, Fight>,
    /// The leases of workloads: when those that nobody renews are forgotten.
    pub(super) leases: Leases,
    /// The changes that are to share the commit now being prepared; `None` outside of that.
    pub(super) group: Option<Group>,
    /// Reports whose consequences could not be stored yet.
    pub(super) late: VecDeque<Report>,
    /// Whether the jobs that the last daemon left under way have been dealt with.
    pub(super) recovered: bool,
    /// Whether anything has changed since jobs were last chosen to start.
    pub(super) changed: bool,
    /// Total weight of the jobs that have ended since old records were last removed.
    pub(super) ended_bytes: usize,
    /// Why the last commit failed, if it did.
    pub(super) problem: Option<String>,
    pub(super) started: SystemTime,
    pub(super) moved_bytes: u64,
    /// Set when the daemon stops: the deadline for runs to end.
    pub(super) stopping: Option<Instant>,
}

impl Dispatcher {
    /// A dispatcher with a book of the stored records.
    pub fn new(edges: Edges, book: Book) -> Self {
        let started = (edges.clock)();
        (edges.measured)(Measured::StoreBytes(edges.store.bytes()));
        Self {
            edges,
            book,
            runs: BTreeMap::new(),
            shared_rate: None,
            found: HashMap::new(),
            behind: HashMap::new(),
            due: BTreeMap::new(),
            gone: HashMap::new(),
            put_off: HashMap::new(),
            asked: HashMap::new(),
            fights: HashMap::new(),
            leases: Leases::default(),
            group: None,
            late: VecDeque::new(),
            recovered: false,
            changed: true,
            ended_bytes: 0,
            problem: None,
            started,
            moved_bytes: 0,
            stopping: None,
        }
    }

    /// The configuration in force.
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
                "{name} has no right any more to have memory moved: ask for a grant in the daemon's configuration"
            );
            Refusal::NotPermitted { message }
        })
    }

    /// The wall clock.
    pub(super) fn wall(&self) -> SystemTime {
        (self.edges.clock)()
    }

    /// Stores `writes`, all or none, and only then takes them over into the book. Within a group, writes are taken over at
    /// once and stored when the group ends; all other effects of a change have to go through [`Self::then`].
    ///
    /// # Errors
    /// There is no room, or the store cannot be written. Nothing has changed.
    pub(super) fn commit(&mut self, writes: Vec<Write>) -> Result<(), Refusal> {
        if let Some(group) = &mut self.group {
            group.add(&mut self.book, writes);
            return Ok(());
        }
        self.store(&writes)?;
        self.book.apply(writes);
        Ok(())
    }

    /// Stores `writes`, all or none.
    pub(super) fn store(&mut self, writes: &[Write]) -> Result<(), Refusal> {
        let store = &mut self.edges.store;
        let begin = Instant::now();
        let done = blocking(|| store.commit(writes));
        let (elapsed, store_bytes) = (begin.elapsed(), store.bytes());
        (self.edges.measured)(Measured::Commit { elapsed, done: done.is_ok() });
        (self.edges.measured)(Measured::StoreBytes(store_bytes));
        match done {
            Ok(()) => {
                self.problem = None;
                self.changed = true;
                Ok(())
            }
            Err(error) => {
                if self.problem.is_none() {
                    tracing::error!(%error, "changes cannot be stored");
                }
                self.problem = Some(error.to_string());
                Err(error.into())
            }
        }
    }
}

/// Runs blocking work. Where the runtime has other threads, other tasks of this thread go on meanwhile.
pub(super) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Runtime::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => work(),
        _ => tokio::task::block_in_place(work),
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::Full { .. } => Self::StoreFull { message },
            StoreError::Failed { .. } => Self::Unavailable { message },
        }
    }
}
