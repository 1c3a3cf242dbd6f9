//! The tables in the file. There is one table per kind of record. Each record has a checksum over its table, its key
//! and its bytes.

mod row;
mod transfer;

use row::{CHECKSUM, TableKey, TableRecord, sealed, unseal, unsealed};
pub use transfer::{Aside, copy, salvage};

use super::{Contents, EventHead, EventRecord, Holds, Kept, Last, Weight, Write};
use numaloc_api::{
    Damaged, Stored,
    encoded::Encoded,
    value::{Event, Job, Schedule, Workload},
};
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableDefinition, TableError,
    Value,
};
use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Open jobs are whole in memory. Earlier versions had no bound for them: jobs beyond this are reduced, and planned
/// again.
const OPEN: usize = 128 << 20;

/// The highest version of the layout that is known: 2 has migrations that 0.1.0 would carry out otherwise. A store has
/// the lowest version that understands all of it, and one of a later version is refused.
pub const SCHEMA: u64 = 2;
const FIRST: u64 = 1;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const VERSION: &str = "schema";
/// The release of the latest numalocd that has written to it; see [`release`].
const RELEASE: &str = "release";
const COMMITS: &str = "commits";
/// The id that distinguishes a store from all others.
const ID: &str = "store_id";
/// Since when the daemon is drained or paused, in seconds since the epoch; 0, or no entry: it is not.
const HOLDS: [&str; 2] = ["drained", "paused"];
const LAST: [&str; 3] = ["last_job", "last_schedule", "last_event"];

/// The reason why the tables cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableFault {
    /// An error of the database.
    #[error(transparent)]
    Database(#[from] redb::Error),
    /// The file belongs to another program.
    #[error("it has no numaloc tables")]
    Foreign,
    /// The file has another version of the layout.
    #[error("it has version {0}")]
    Version(u64),
    /// A record has what this version does not know; with the release that wrote it, if that is known.
    #[error("{0}")]
    Newer(String, Option<String>),
    /// A record does not match its checksum.
    #[error("{0} does not match its checksum")]
    Checksum(String),
    /// A record cannot be read.
    #[error("{0} is {1}")]
    Record(String, Damaged),
    /// A record is stored under the key of another one.
    #[error("{0} stands in the place of {1}")]
    Misplaced(String, String),
    /// Some records of a table cannot be found at all.
    #[error("{0}/? cannot be reached: the database's pages are damaged")]
    Unreachable(String),
    /// The id of a record is not a number.
    #[error("{0} is not a name that the daemon gives")]
    Unnumbered(String),
}

macro_rules! from_database {
    ($($error:ty),+) => {$(
        impl From<$error> for TableFault {
            fn from(error: $error) -> Self {
                Self::Database(error.into())
            }
        }
    )+};
}

from_database!(
    redb::CommitError,
    redb::DatabaseError,
    redb::SetDurabilityError,
    redb::StorageError,
    redb::TransactionError
);

impl From<TableError> for TableFault {
    fn from(error: TableError) -> Self {
        match error {
            TableError::TableDoesNotExist(_)
            | TableError::TableTypeMismatch { .. }
            | TableError::TableIsMultimap(_)
            | TableError::TypeDefinitionChanged { .. } => Self::Foreign,
            other => Self::Database(other.into()),
        }
    }
}

/// Stores a record. Returns its number, if it has one.
fn insert<R: TableRecord>(
    table: &mut Table<'_, R::Key, &'static [u8]>,
    record: &R,
) -> Result<u64, TableFault>
where
    for<'a> <R::Key as Value>::SelfType<'a>: TableKey,
{
    let key = record.key().ok_or_else(|| TableFault::Unnumbered(record.name()))?;
    let number = key.number();
    let row = sealed::<R>(&key, &record.encode());
    table.insert(key, &row[..])?;
    Ok(number)
}

/// Stores an event. Returns its number.
fn insert_event(
    table: &mut Table<'_, u64, &'static [u8]>,
    EventRecord { head, encoded }: &EventRecord,
) -> Result<u64, TableFault> {
    table.insert(head.number, &sealed::<Event>(&head.number, encoded.as_ref())[..])?;
    Ok(head.number)
}

/// Makes the tables of a new store.
pub fn create(db: &Database, id: u64) -> Result<(), TableFault> {
    let mut transaction = db.begin_write()?;
    transaction.set_two_phase_commit(true);
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert(VERSION, FIRST)?;
        meta.insert(RELEASE, release())?;
        meta.insert(COMMITS, 0)?;
        meta.insert(ID, id)?;
        for name in LAST {
            meta.insert(name, 0)?;
        }
        transaction.open_table(Job::TABLE)?;
        transaction.open_table(Schedule::TABLE)?;
        transaction.open_table(Workload::TABLE)?;
        transaction.open_table(Event::TABLE)?;
    }
    Ok(transaction.commit()?)
}

/// Checks the version, and reads the number of commits.
pub fn commits(db: &Database) -> Result<u64, TableFault> {
    let meta = db.begin_read()?.open_table(META)?;
    match meta.get(VERSION)?.ok_or(TableFault::Foreign)?.value() {
        FIRST..=SCHEMA => Ok(meta.get(COMMITS)?.ok_or(TableFault::Foreign)?.value()),
        other => Err(TableFault::Version(other)),
    }
}

/// The id of the store; `None`: it was made before stores had ids.
pub fn id(db: &Database) -> Result<Option<u64>, TableFault> {
    let meta = db.begin_read()?.open_table(META)?;
    Ok(meta.get(ID)?.map(|id| id.value()))
}

pub fn contents(db: &Database) -> Result<Contents, TableFault> {
    let transaction = db.begin_read()?;
    let meta = transaction.open_table(META)?;
    let last = |name| Ok::<_, TableFault>(meta.get(name)?.ok_or(TableFault::Foreign)?.value());
    let last = Last { job: last(LAST[0])?, schedule: last(LAST[1])?, event: last(LAST[2])? };
    let hold = |name| Ok::<_, TableFault>(meta.get(name)?.and_then(|since| time(since.value())));
    let holds = Holds { drained: hold(HOLDS[0])?, paused: hold(HOLDS[1])? };
    let mut contents = Contents { last, holds, ..Contents::default() };
    let mut open = 0;
    each(&transaction, |job: Job, record| {
        if job.state.is_end() && job.encode() != record {
            contents.older.jobs.extend(job.id.number());
        }
        contents.jobs.push(Kept::new(Arc::new(within(job, &mut open)), record.len()));
    })?;
    each(&transaction, |schedule: Schedule, _| contents.schedules.push(schedule))?;
    each(&transaction, |workload: Workload, _| contents.workloads.push(workload))?;
    each(&transaction, |event: Event, record| {
        if event.encode() != record {
            contents.older.events.insert(event.number);
        }
        contents.events.push(EventHead::new(&event, record.len()));
    })?;
    Ok(contents)
}

/// An open job with no more than fits into memory beside other jobs that take `open` bytes already.
fn within(job: Job, open: &mut usize) -> Job {
    if job.state.is_end() {
        return job;
    }
    let job = job.bounded();
    let job = if *open + job.weight() > OPEN { job.reduced() } else { job };
    *open += job.weight();
    job
}

/// The time for seconds since the epoch; 0 means none.
fn time(seconds: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).filter(|_| seconds > 0)
}

fn seconds(time: Option<SystemTime>) -> u64 {
    let since = time.map(|time| time.duration_since(UNIX_EPOCH).unwrap_or_default());
    // If the clock is not set it stands at the epoch. 1 is stored instead of 0, so that the hold is kept.
    since.map_or(0, |since| since.as_secs().max(1))
}

/// Reads the records of a table, each with its bytes.
fn each<R: TableRecord>(
    transaction: &ReadTransaction,
    mut visit: impl FnMut(R, &[u8]),
) -> Result<(), TableFault>
where
    for<'a> <R::Key as Value>::SelfType<'a>: TableKey,
{
    for entry in transaction.open_table(R::TABLE)?.iter()? {
        let (key, value) = entry?;
        let record = unseal(&key.value(), value.value())?;
        visit(record, value.value().get(CHECKSUM..).unwrap_or_default());
    }
    Ok(())
}

pub fn job(read: &ReadTransaction, number: u64) -> Result<Option<Job>, TableFault> {
    let jobs = read.open_table(Job::TABLE)?;
    let value = jobs.get(number)?;
    value.map(|value| unseal(&number, value.value())).transpose()
}

/// Records that an earlier version has written, by number: this one writes other bytes for them, as it knows more fields.
#[derive(Debug, Default)]
pub struct Older {
    jobs: HashSet<u64>,
    events: HashSet<u64>,
}

/// As [`job`], encoded.
pub fn encoded_job(
    read: &ReadTransaction,
    number: u64,
    older: &Older,
) -> Result<Option<Encoded<Job>>, TableFault> {
    encoded(&read.open_table(Job::TABLE)?, number, &older.jobs)
}

/// A record as it is stored: it was readable when it was written, or when the store was opened. One of an earlier version is read,
/// and encoded as this one does.
fn encoded<R: TableRecord<Key = u64>>(
    table: &impl ReadableTable<u64, &'static [u8]>,
    number: u64,
    older: &HashSet<u64>,
) -> Result<Option<Encoded<R>>, TableFault>
where
    for<'a> <R::Key as Value>::SelfType<'a>: TableKey,
{
    let Some(value) = table.get(number)? else { return Ok(None) };
    if older.contains(&number) {
        return Ok(Some(Encoded::from(&unseal::<R>(&number, value.value())?)));
    }
    let record = unsealed::<R>(&number, value.value())?;
    Ok(Some(Encoded::of_stored(record.to_vec())))
}

pub fn events(
    read: &ReadTransaction,
    numbers: &[u64],
    older: &Older,
) -> Result<Vec<(u64, Encoded<Event>)>, TableFault> {
    let events = read.open_table(Event::TABLE)?;
    let mut found = Vec::new();
    for &number in numbers {
        found.extend(encoded(&events, number, &older.events)?.map(|event| (number, event)));
    }
    Ok(found)
}

/// The number that a record is stored under.
fn number(number: Option<u64>, name: &impl ToString) -> Result<u64, TableFault> {
    number.ok_or_else(|| TableFault::Unnumbered(name.to_string()))
}

/// The lowest version of the layout that understands a write. A field of a migration that is new, and that changes what
/// is done, is named where this asks.
fn layout(write: &Write) -> u64 {
    let spec = match write {
        Write::Job(job) => &job.spec,
        Write::Schedule(schedule) => &schedule.spec.migration,
        _ => return FIRST,
    };
    if spec.is_newer_than_0_1() { SCHEMA } else { FIRST }
}

/// This release, as a number that rises.
fn release() -> u64 {
    let parts = env!("CARGO_PKG_VERSION").split(['.', '-']).take(3);
    parts.fold(0, |sum, part| sum * 1_000_000 + part.parse().unwrap_or(0))
}

/// Sets an entry, unless it is that high already.
fn raise(
    meta: &mut Table<'_, &'static str, u64>,
    name: &'static str,
    value: u64,
) -> Result<(), TableFault> {
    let before = meta.get(name)?.map_or(0, |before| before.value());
    if value > before {
        meta.insert(name, value)?;
    }
    Ok(())
}

/// The release of the latest numalocd that has written to the store, for people; `None`: it was written before stores
/// had that.
pub fn writer(db: &Database) -> Option<String> {
    let meta = db.begin_read().ok()?.open_table(META).ok()?;
    let release = meta.get(RELEASE).ok()??.value();
    let part = |unit: u64| release / unit % 1_000_000;
    Some(format!("{}.{}.{}", part(1_000_000_000_000), part(1_000_000), part(1)))
}

/// Carries out `writes` as the commit with the number `commits`, in the store with this id.
pub fn commit(db: &Database, writes: &[Write], commits: u64, id: u64) -> Result<(), TableFault> {
    let mut transaction = db.begin_write()?;
    // With two phases, damage to the last commit can be distinguished from a commit that a crash cut short.
    transaction.set_two_phase_commit(true);
    {
        let mut meta = transaction.open_table(META)?;
        let mut jobs = transaction.open_table(Job::TABLE)?;
        let mut schedules = transaction.open_table(Schedule::TABLE)?;
        let mut workloads = transaction.open_table(Workload::TABLE)?;
        let mut events = transaction.open_table(Event::TABLE)?;
        let mut last = [0; 3];
        let mut taken = |which: usize, number: u64| last[which] = number.max(last[which]);
        for write in writes {
            match write {
                Write::Job(job) => taken(0, insert(&mut jobs, &**job)?),
                Write::DropJob(id) => drop(jobs.remove(number(id.number(), id)?)?),
                Write::Schedule(schedule) => taken(1, insert(&mut schedules, &**schedule)?),
                Write::DropSchedule(id) => drop(schedules.remove(number(id.number(), id)?)?),
                Write::Workload(workload) => drop(insert(&mut workloads, &**workload)?),
                Write::DropWorkload(id) => drop(workloads.remove(id.id())?),
                Write::Event(event) => taken(2, insert_event(&mut events, event)?),
                Write::DropEvent(number) => drop(events.remove(number)?),
                Write::Holds(holds) => {
                    for (name, since) in HOLDS.into_iter().zip([holds.drained, holds.paused]) {
                        meta.insert(name, seconds(since))?;
                    }
                }
            }
        }
        meta.insert(COMMITS, commits)?;
        meta.insert(ID, id)?;
        raise(&mut meta, VERSION, writes.iter().map(layout).max().unwrap_or(FIRST))?;
        raise(&mut meta, RELEASE, release())?;
        for (name, number) in LAST.into_iter().zip(last) {
            let before = meta.get(name)?.ok_or(TableFault::Foreign)?.value();
            if number > before {
                meta.insert(name, number)?;
            }
        }
    }
    Ok(transaction.commit()?)
}
