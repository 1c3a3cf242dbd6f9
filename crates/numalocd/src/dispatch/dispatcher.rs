//! The dispatcher's state, and how it changes: a list of writes is committed, then taken over.

use super::{
    Made, Refusal, Status, book::Book, command::Reply, fight::Fight, group::Group, leases::Leases,
    run::Run,
};
use crate::{
    access::{Caller, Grants},
    config::Config,
    engine::{Aim, Found, Order, Report},
    metrics::Metrics,
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
    /// Its etag: an answer about what it was before a change is of no use.
    pub etag: String,
    /// Whose memory.
    pub aim: Aim,
    /// What goes where.
    pub options: Options,
    /// Its creator, as what it may do now.
    pub creator: Caller,
}

/// The answer to a [`Probe`].
#[derive(Debug)]
pub struct Probed {
    /// The schedule.
    pub schedule: ScheduleId,
    /// Its etag when it was asked.
    pub etag: String,
    /// What was found.
    pub found: Result<Found, Refusal>,
}

/// Asks what of the target of a job is there that was open when the daemon started: so that others for the same memory are
/// told of it before its turn has come.
#[derive(Debug)]
pub struct Lookup {
    /// The job.
    pub job: JobId,
    /// Whose memory.
    pub aim: Aim,
    /// What goes where.
    pub options: Options,
    /// Who it belongs to, as what it may do now.
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
    /// To the engine: is it there?
    pub probes: mpsc::UnboundedSender<Probe>,
    /// To the engine: what is there?
    pub lookups: mpsc::UnboundedSender<Lookup>,
    /// Counters.
    pub metrics: Metrics,
    /// Told what the daemon is doing, whenever that has changed.
    pub tell: Box<dyn FnMut(&Status) + Send>,
    /// The wall clock. It may jump: spans of time are measured by another.
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
    /// Jobs that the engine is at work on.
    pub(super) runs: BTreeMap<u64, Run>,
    /// The rate that runs share, in bytes per second, and what keeps to it.
    pub(super) shared_rate: Option<(u64, Arc<SharedRate>)>,
    /// Who and where, of open jobs as far as known.
    pub(super) found: HashMap<u64, Found>,
    /// Places in line of jobs that have gone behind others.
    pub(super) behind: HashMap<u64, u64>,
    /// When a schedule is looked at next.
    pub(super) due: BTreeMap<u64, Instant>,
    /// Since when a schedule's target has been gone.
    pub(super) gone: HashMap<u64, Instant>,
    /// How often in a row a schedule could not be looked at.
    pub(super) put_off: HashMap<u64, u32>,
    /// Who has asked for a run of a schedule and waits for its job, the first who asked first.
    pub(super) asked: HashMap<u64, Vec<Asked>>,
    /// How schedules fare, by their numbers: of those that have moved something since the start.
    pub(super) fights: HashMap<u64, Fight>,
    /// When workloads are forgotten that nobody renews.
    pub(super) leases: Leases,
    /// While changes are made that share a commit.
    pub(super) group: Option<Group>,
    /// Reports whose consequences could not be stored yet.
    pub(super) late: VecDeque<Report>,
    /// Whether what the last daemon left under way has been dealt with.
    pub(super) recovered: bool,
    /// Whether something has changed since it was last looked whose turn it is.
    pub(super) changed: bool,
    /// What jobs weigh that have ended since it was last looked what to forget.
    pub(super) ended_bytes: usize,
    /// Why the last commit failed, if it did.
    pub(super) problem: Option<String>,
    pub(super) started: SystemTime,
    pub(super) moved_bytes: u64,
    /// Set when it is to stop: until when runs may end.
    pub(super) stopping: Option<Instant>,
}

impl Dispatcher {
    /// With what was stored.
    pub fn new(edges: Edges, book: Book) -> Self {
        let started = (edges.clock)();
        edges.metrics.store_bytes(edges.store.bytes());
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

    /// Who a stored record belongs to, as what it may do now.
    ///
    /// # Errors
    /// Not permitted: it may not have memory moved any more.
    pub(super) fn creator(&self, name: &str, gid: Option<u32>) -> Result<Caller, Refusal> {
        Grants::from(&*self.config()).creator(name, gid).ok_or_else(|| {
            let message = format!("{name} may not have memory moved any more");
            Refusal::NotPermitted { message }
        })
    }

    /// The wall clock.
    pub(super) fn wall(&self) -> SystemTime {
        (self.edges.clock)()
    }

    /// Stores `writes`, all or none, and only then takes them over. Within a group they are taken over at once, and stored
    /// at its end; what is done beside belongs into [`Self::then`].
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
        self.edges.metrics.committed(begin.elapsed(), done.is_ok());
        self.edges.metrics.store_bytes(self.edges.store.bytes());
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

/// Runs what blocks without holding up other tasks of this thread, where the runtime has other threads.
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
