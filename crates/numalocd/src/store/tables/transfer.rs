//! Copies one store into another: everything, or everything that can be read.

use super::{
    EVENTS, Fault, ID, JOBS, LAST, META, Place, SCHEDULES, WORKLOADS, fits_event, fits_job,
    fits_schedule, fits_workload, unseal,
};
use crate::store::quiet::quietly;
use numaloc_api::Stored;
use redb::{Database, Key, ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};

/// A record that could not be read.
#[derive(Debug)]
pub struct Aside {
    /// Its table and key.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
    /// The stored bytes.
    pub bytes: Vec<u8>,
}

/// Copies all of a store into a new one, which gets this id. The checksum of each record is verified. Fails if a record cannot be
/// read.
pub fn copy(from: &ReadTransaction, to: &Database, id: u64) -> Result<(), Fault> {
    let mut aside = Vec::new();
    transfer(from, to, id, &mut |wrong| aside.push(wrong))?;
    match aside.pop() {
        None => Ok(()),
        Some((fault, _)) => Err(fault),
    }
}

/// Copies what can be read of a store into a new one, which gets this id. Returns the records that cannot be read.
pub fn salvage(from: &ReadTransaction, to: &Database, id: u64) -> Result<Vec<Aside>, Fault> {
    let mut aside = Vec::new();
    transfer(from, to, id, &mut |wrong| aside.push(wrong))?;
    let records = aside.into_iter().map(|(fault, bytes)| {
        let why = fault.to_string();
        let (name, why) = why.split_once(' ').unwrap_or((&why, "cannot be read"));
        Aside { name: name.to_owned(), why: why.to_owned(), bytes }
    });
    Ok(records.collect())
}

/// What is wrong with a record, and its bytes.
type Wrong = (Fault, Vec<u8>);

fn transfer(
    from: &ReadTransaction,
    to: &Database,
    id: u64,
    wrong: &mut dyn FnMut(Wrong),
) -> Result<(), Fault> {
    let mut transaction = to.begin_write()?;
    transaction.set_two_phase_commit(true);
    {
        let mut meta = transaction.open_table(META)?;
        for entry in from.open_table(META)?.iter()? {
            let (name, value) = entry?;
            meta.insert(name.value(), value.value())?;
        }
        meta.insert(ID, id)?;
        let last = [
            rows(from, &transaction, JOBS, wrong, fits_job)?,
            rows(from, &transaction, SCHEDULES, wrong, fits_schedule)?,
            rows(from, &transaction, EVENTS, wrong, fits_event)?,
        ];
        rows(from, &transaction, WORKLOADS, wrong, fits_workload)?;
        // Numbers are never given twice, not even those of records that could not be read.
        for (name, number) in LAST.into_iter().zip(last) {
            let before = meta.get(name)?.map_or(0, |last| last.value());
            meta.insert(name, number.max(before))?;
        }
    }
    Ok(transaction.commit()?)
}

/// Copies the rows of a table that can be read. It reads from the front, and if it meets rows that cannot be reached, also from
/// the back. Returns the highest key that is a number.
fn rows<K, T>(
    from: &ReadTransaction,
    to: &WriteTransaction,
    table: TableDefinition<K, &'static [u8]>,
    wrong: &mut dyn FnMut(Wrong),
    fits: impl for<'a> Fn(K::SelfType<'a>, &T) -> Result<(), Fault>,
) -> Result<u64, Fault>
where
    K: Key + 'static,
    T: Stored,
    for<'a> K::SelfType<'a>: Place,
{
    let name = redb::TableHandle::name(&table).to_owned();
    let (there, mut copy) = (from.open_table(table)?, to.open_table(table)?);
    let (mut highest, mut last): (u64, Option<Vec<u8>>) = (0, None);
    for is_back in [false, true] {
        let Ok(Ok(mut rows)) = quietly(|| there.iter()) else { continue };
        loop {
            let row = quietly(|| if is_back { rows.next_back() } else { rows.next() });
            let (key, value) = match row {
                Ok(None) => return Ok(highest),
                Ok(Some(Ok(row))) => row,
                Ok(Some(Err(closed @ redb::StorageError::DatabaseClosed))) => {
                    return Err(closed.into());
                }
                Ok(Some(Err(_))) | Err(_) => break,
            };
            let bytes = key.value().bytes();
            if is_back && last.as_ref() == Some(&bytes) {
                break;
            }
            highest = highest.max(key.value().number());
            let record = unseal(&name, &key.value(), value.value());
            match record.and_then(|record| fits(key.value(), &record)) {
                Ok(()) => drop(copy.insert(key.value(), value.value())?),
                Err(fault) => wrong((fault, value.value().to_vec())),
            }
            if !is_back {
                last = Some(bytes);
            }
        }
    }
    wrong((Fault::Unreachable(name), Vec::new()));
    Ok(highest)
}
