//! The store: one redb file in the state directory. It outlives the daemon, and each commit is durable before it
//! returns.
//!
//! **Records are stored as messages of the API,** each with a checksum over its table, its key and itself. So answers
//! about ended jobs and about events have the stored bytes: nothing is decoded, converted or encoded for them, except
//! for records of earlier versions, which lack what this one knows. A file is
//! read and checked in full before anything is written to it (`opening`, `disk`); a file that is damaged, foreign or of
//! another version is left as it is and the daemon does not start. A record is read by the same functions as a request,
//! but not by its bounds (`Violations::of_record`): what was valid when it was made stays so. Stores that earlier
//! versions wrote are opened by a test (`crates/numalocd/tests/program/stores`). After a failed write the database is
//! opened again as it was before.
//!
//! **A store is replaced by one rename.** Backups, restores, compaction and repair copy the rows of one read
//! transaction into a new file (`copies`); what takes the place of a store is whole and on the disk before it does.

mod copies;
mod disk;
mod event;
mod kept;
mod labels;
mod opening;
mod quiet;
mod reader;
mod spare;
mod tables;
mod under_way;
mod weight;

#[cfg(test)]
mod tests;

pub use copies::{Repaired, ReplacedStore, StoreSnapshot, compact, repair, restore};
use disk::Disk;
#[cfg(test)]
pub(crate) use disk::InjectedFault as DiskFault;
pub use event::{EventHead, EventRecord};
pub use kept::Kept;
pub use labels::PackedLabels;
use numaloc_api::{
    encoded::Encoded,
    value::{Event, Job, JobId, Schedule, ScheduleId, Workload, WorkloadId},
};
pub use opening::{Lock, lock};
use opening::{Opened, StoreFailure, StoreParts};
pub use reader::StoreReader;
use redb::{CompactionError, Database, ReadableDatabase};
use spare::Spare;
use std::{
    fs::File,
    io, mem,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};
use tables::{Older, TableFault};
pub use under_way::{UnderWay, Work};
pub use weight::Weight;

/// One change. All changes of a commit take effect, or none.
#[derive(Clone, Debug)]
pub enum Write {
    /// A new job, or a job's new state.
    Job(Arc<Job>),
    /// Removes the job that has this name.
    DropJob(JobId),
    /// A new schedule, or its new state.
    Schedule(Arc<Schedule>),
    /// Removes the schedule that has this name.
    DropSchedule(ScheduleId),
    /// A workload, new or changed.
    Workload(Arc<Workload>),
    /// Removes the workload that has this name.
    DropWorkload(WorkloadId),
    /// Appends an event under its number.
    Event(Arc<EventRecord>),
    /// Removes the event that has this number.
    DropEvent(u64),
    /// Sets or ends draining and pausing.
    Holds(Holds),
}

impl Write {
    /// Appends this event.
    pub fn event(event: &Event) -> Self {
        Self::Event(Arc::new(EventRecord::from(event)))
    }

    fn is_removal(&self) -> bool {
        matches!(
            self,
            Self::DropJob(_) | Self::DropSchedule(_) | Self::DropWorkload(_) | Self::DropEvent(_)
        )
    }
}

/// The holds that keep moves from beginning, and since when. Each of the two suffices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// The daemon is drained: moves under way continue to their end.
    pub drained: Option<SystemTime>,
    /// All moves are paused: those under way end after their current batches.
    pub paused: Option<SystemTime>,
}

impl Holds {
    /// The reason why no move begins, as text for people; `None`: moves may begin.
    pub fn why(&self) -> Option<&'static str> {
        match (self.paused, self.drained) {
            (Some(_), _) => Some("all moves are paused"),
            (None, Some(_)) => Some("the daemon is drained"),
            (None, None) => None,
        }
    }
}

/// The contents of a store.
#[derive(Debug, Default)]
pub struct Contents {
    /// Jobs in order of their number.
    pub jobs: Vec<Kept>,
    /// Schedules in order of their number.
    pub schedules: Vec<Schedule>,
    /// Workloads in order of their names.
    pub workloads: Vec<Workload>,
    /// The part of the events that is kept in memory, the oldest first. [`Store::events`] reads whole events.
    pub events: Vec<EventHead>,
    /// The highest numbers ever given, also to records that have been removed since.
    pub last: Last,
    /// Whether the daemon is drained or paused.
    pub holds: Holds,
    /// Records of earlier versions.
    older: Older,
}

impl Contents {
    pub fn records(&self) -> usize {
        self.jobs.len() + self.schedules.len() + self.workloads.len() + self.events.len()
    }
}

/// The highest numbers ever given; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Last {
    /// The highest number of a job.
    pub job: u64,
    /// The highest number of a schedule.
    pub schedule: u64,
    /// The highest number of an event.
    pub event: u64,
}

/// The reason why a store could not be opened. Nothing has been changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error(
        "{path} is in use by another numalocd: stop it, or give this one a state directory of its own"
    )]
    InUse { path: PathBuf },
    /// The process lacks the rights, or the file system is read-only.
    #[error(
        "cannot read and write {path}: {source}; give it and its directory to the user that numalocd runs as, on a \
         file system that can be written, or name another state directory"
    )]
    Denied { path: PathBuf, source: io::Error },
    #[error("no room for {path}: {source}; free some, or name another state directory")]
    Full { path: PathBuf, source: io::Error },
    /// The file is not a store.
    #[error(
        "{path} is not a store of numalocd: {reason}; nothing was changed. Move it away to start with an empty store, \
         or put a copy of the store in its place"
    )]
    Foreign { path: PathBuf, reason: String },
    /// The file is a damaged store.
    #[error(
        "{path} is damaged: {reason}; nothing was changed. Put a backup in its place (numalocd --restore), set aside what \
         cannot be read (numalocd --repair), or move it away to start with an empty store"
    )]
    Damaged { path: PathBuf, reason: String },
    /// Another version of numalocd wrote it.
    #[error(
        "{path} has version {found} and this numalocd knows version {known}; nothing was changed. Run the numalocd \
         that wrote it or a later one, or move it away to start with an empty store"
    )]
    Version {
        path: PathBuf,
        found: u64,
        /// The version that is known.
        known: u64,
    },
    /// A record has what this version does not know.
    #[error(
        "{path} was written by {by}, and this one does not understand it: {reason}; nothing was changed. Install that \
         version or a later one, or move it away to start with an empty store"
    )]
    Newer { path: PathBuf, reason: String, by: String },
    /// Any other error of the file system.
    #[error(
        "cannot open {path}: {source}; name another state directory if this one cannot be repaired"
    )]
    Io { path: PathBuf, source: io::Error },
}

impl OpenError {
    /// Converts an error of the file system about `path`.
    fn of(path: PathBuf, source: io::Error) -> Self {
        use io::ErrorKind as Kind;
        match source.kind() {
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => Self::Denied { path, source },
            Kind::StorageFull | Kind::QuotaExceeded => Self::Full { path, source },
            _ => Self::Io { path, source },
        }
    }
}

/// The reason why a record could not be written or read. Nothing has been changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("no room on the file system of {path}: free some, the daemon continues automatically")]
    Full { path: PathBuf },
    #[error("cannot write or read {path}: {reason}")]
    Failed { path: PathBuf, reason: String },
}

impl StoreError {
    /// Converts an error of the file system about `path`.
    fn of_io(path: PathBuf, error: io::Error) -> Self {
        Self::of(path, StoreFailure { fault: TableFault::Foreign, error: Some(error) })
    }

    fn of(path: PathBuf, StoreFailure { fault, error }: StoreFailure) -> Self {
        use io::ErrorKind as Kind;
        match error {
            Some(error) if matches!(error.kind(), Kind::StorageFull | Kind::QuotaExceeded) => {
                Self::Full { path }
            }
            Some(error) => Self::Failed { path, reason: error.to_string() },
            None => Self::Failed { path, reason: fault.to_string() },
        }
    }
}

/// The store.
///
/// After a failure the database is closed. When it is next needed, it is opened again with the contents that it had
/// before the failed operation. Reading then does not touch the file, so it works on a full disk. Writing continues as
/// soon as it works again.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: Arc<File>,
    spare: Spare,
    under_way: UnderWay,
    opened: Option<Opened>,
    /// The number of commits so far.
    commits: u64,
    /// A random id, chosen when the store was made.
    id: u64,
    /// Records of earlier versions that were in it when it was opened. No number is given twice.
    older: Arc<Older>,
    /// Keeps other processes out. It is the last field, so it is dropped after the database has been closed.
    _lock: Lock,
}

impl Store {
    /// Opens the store in `dir`, or creates it, and `dir` too if that is missing. Reads and checks the whole store.
    /// Blocks.
    ///
    /// # Errors
    /// The file is not a store, damaged, of another version or in use, or it cannot be written.
    pub fn open(dir: &Path) -> Result<(Self, Contents), OpenError> {
        let StoreParts { path, lock, file, opened, mut contents } = opening::open(dir)?;
        let older = Arc::new(mem::take(&mut contents.older));
        let (commits, id) = (opened.commits, opened.id);
        let (spare, under_way) = (Spare::new(dir), UnderWay::open(dir));
        let opened = Some(opened);
        let store = Self { path, file, spare, under_way, opened, commits, id, older, _lock: lock };
        Ok((store, contents))
    }

    /// The id that distinguishes this store from all others.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Work under way, and work that was under way when a daemon died.
    pub fn under_way(&mut self) -> &mut UnderWay {
        &mut self.under_way
    }

    /// The size of its file, in bytes.
    pub fn bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Returns a function that makes disk operations fail, until the database is opened again.
    #[cfg(test)]
    pub(crate) fn failing(&self) -> Box<dyn Fn(DiskFault) + Send + Sync> {
        let disk = self.opened.as_ref().map(|opened| opened.disk.clone());
        Box::new(move |fault| disk.iter().for_each(|disk| disk.fail(fault)))
    }

    /// Writes all of `writes`, durably. Blocks.
    ///
    /// Where a commit that only removes finds no room, it takes the room that is kept in reserve and is done in halves,
    /// each of which makes room for the next. If one of them fails, those before it have taken effect. Removing a
    /// record that is gone already changes nothing, so the same commit may be tried again.
    ///
    /// # Errors
    /// [`StoreError::Full`] if no room is left; the next commit tries again. [`StoreError::Failed`] if the file cannot
    /// be written, or if the id of a job or schedule is not a number.
    pub fn commit(&mut self, writes: &[Write]) -> Result<(), StoreError> {
        match self.commit_at_once(writes) {
            Err(StoreError::Full { .. }) if writes.iter().all(Write::is_removal) => {
                self.spare.give_up();
                self.remove_in_steps(writes)?;
                self.spare.keep();
                Ok(())
            }
            result => result,
        }
    }

    fn remove_in_steps(&mut self, writes: &[Write]) -> Result<(), StoreError> {
        match self.commit_at_once(writes) {
            Err(StoreError::Full { .. }) if writes.len() > 1 => {
                let (first, rest) = writes.split_at(writes.len() / 2);
                self.remove_in_steps(first)?;
                self.remove_in_steps(rest)
            }
            result => result,
        }
    }

    fn commit_at_once(&mut self, writes: &[Write]) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        let (next, id) = (self.commits + 1, self.id);
        self.with(|db, disk| {
            disk.release().map_err(redb::Error::Io)?;
            tables::commit(db, writes, next, id)
        })?;
        self.commits = next;
        Ok(())
    }

    /// Gives room that the file no longer needs back to the file system. It takes the time of writing all records, or
    /// more. Gives back whether it was done: not while a reader or a copy is under way. Blocks.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn shrink(&mut self) -> Result<bool, StoreError> {
        self.with(|db, disk| {
            disk.release().map_err(redb::Error::Io)?;
            match db.compact() {
                Ok(_) => Ok(true),
                Err(CompactionError::TransactionInProgress) => Ok(false),
                Err(CompactionError::Storage(error)) => Err(error.into()),
                Err(error) => Err(TableFault::Database(error.into())),
            }
        })
    }

    /// A whole job, with its plan, members and outcome. Blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn job(&mut self, id: &JobId) -> Result<Option<Job>, StoreError> {
        let Some(number) = id.number() else { return Ok(None) };
        self.with(|db, _| tables::job(&db.begin_read()?, number))
    }

    /// As [`Self::job`], encoded.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn encoded_job(&mut self, id: &JobId) -> Result<Option<Encoded<Job>>, StoreError> {
        let Some(number) = id.number() else { return Ok(None) };
        let older = self.older.clone();
        self.with(|db, _| tables::encoded_job(&db.begin_read()?, number, &older))
    }

    /// Whether the database need not be opened again before it is next used.
    pub fn is_open(&self) -> bool {
        self.opened.is_some()
    }

    /// The contents at this moment, to be read by others.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn reader(&mut self) -> Result<StoreReader, StoreError> {
        let read = self.with(|db, _| Ok(db.begin_read()?))?;
        Ok(StoreReader::new(read, self.older.clone(), self.path.clone()))
    }

    /// The contents at this moment, to be copied while the store continues.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn snapshot(&mut self) -> Result<StoreSnapshot, StoreError> {
        let read = self.with(|db, _| Ok(db.begin_read()?))?;
        Ok(StoreSnapshot::new(read, self.id, self.path.clone()))
    }

    /// The events with these numbers, each after its number. Numbers without an event are left out. Blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn events(&mut self, numbers: &[u64]) -> Result<Vec<(u64, Encoded<Event>)>, StoreError> {
        let older = self.older.clone();
        self.with(|db, _| tables::events(&db.begin_read()?, numbers, &older))
    }

    /// Runs `work` with the database. The database is opened first if it is closed, and closed if `work` fails.
    fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Database, &Disk) -> Result<T, TableFault>,
    ) -> Result<T, StoreError> {
        let mut opened = match self.opened.take() {
            Some(opened) => opened,
            None => opening::reopen(&self.file, self.commits)
                .map_err(|reason| StoreError::Failed { path: self.path.clone(), reason })?,
        };
        let disk = opened.disk.clone();
        match opened.with(|db| work(db, &disk)) {
            Ok(value) => {
                self.opened = Some(opened);
                Ok(value)
            }
            Err(failure) => {
                // Closing the database must not write anything, not even the mark that it was closed.
                disk.cut();
                Err(StoreError::of(self.path.clone(), failure))
            }
        }
    }
}
