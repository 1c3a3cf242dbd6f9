//! Copies one store into another: everything, or everything that can be read.

use super::{ID, LAST, META, TableFault, TableKey, TableRecord, unseal};
use crate::store::quiet::quietly;
use numaloc_api::value::{Event, Job, Schedule, Workload};
use redb::{Database, ReadTransaction, ReadableTable, TableHandle, Value, WriteTransaction};

/// A record that could not be read.
#[derive(Debug)]
pub struct Aside {
    /// Its table and its key, for example `jobs/7`.
    pub name: String,
    /// The reason why it is invalid.
    pub why: String,
    /// The bytes of the record, as the table has them.
    pub bytes: Vec<u8>,
}

/// Copies all of a store into a new one, which gets this id. The checksum of each record is verified. Fails if a record
/// cannot be read.
pub fn copy(from: &ReadTransaction, to: &Database, id: u64) -> Result<(), TableFault> {
    let mut aside = Vec::new();
    transfer(from, to, id, &mut |wrong| aside.push(wrong))?;
    match aside.pop() {
        None => Ok(()),
        Some((fault, _)) => Err(fault),
    }
}

/// Copies what can be read of a store into a new one, which gets this id. Returns the records that cannot be read.
pub fn salvage(from: &ReadTransaction, to: &Database, id: u64) -> Result<Vec<Aside>, TableFault> {
    let mut aside = Vec::new();
    transfer(from, to, id, &mut |wrong| aside.push(wrong))?;
    let records = aside.into_iter().map(|(fault, bytes)| {
        let why = fault.to_string();
        let (name, why) = why.split_once(' ').unwrap_or((&why, "cannot be read"));
        Aside { name: name.to_owned(), why: why.to_owned(), bytes }
    });
    Ok(records.collect())
}

/// The fault of a record, and its bytes.
type Wrong = (TableFault, Vec<u8>);

fn transfer(
    from: &ReadTransaction,
    to: &Database,
    id: u64,
    wrong: &mut dyn FnMut(Wrong),
) -> Result<(), TableFault> {
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
            rows::<Job>(from, &transaction, wrong)?,
            rows::<Schedule>(from, &transaction, wrong)?,
            rows::<Event>(from, &transaction, wrong)?,
        ];
        rows::<Workload>(from, &transaction, wrong)?;
        // Numbers are never given twice, not even those of records that could not be read.
        for (name, number) in LAST.into_iter().zip(last) {
            let before = meta.get(name)?.map_or(0, |last| last.value());
            meta.insert(name, number.max(before))?;
        }
    }
    Ok(transaction.commit()?)
}

/// Copies the rows of a table that can be read. It reads from the front, and if it meets rows that cannot be reached,
/// also from the back. Returns the highest key that is a number.
fn rows<R: TableRecord>(
    from: &ReadTransaction,
    to: &WriteTransaction,
    wrong: &mut dyn FnMut(Wrong),
) -> Result<u64, TableFault>
where
    for<'a> <R::Key as Value>::SelfType<'a>: TableKey,
{
    let (there, mut copy) = (from.open_table(R::TABLE)?, to.open_table(R::TABLE)?);
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
            match unseal::<R>(&key.value(), value.value()) {
                Ok(_) => drop(copy.insert(key.value(), value.value())?),
                Err(fault) => wrong((fault, value.value().to_vec())),
            }
            if !is_back {
                last = Some(bytes);
            }
        }
    }
    wrong((TableFault::Unreachable(R::TABLE.name().to_owned()), Vec::new()));
    Ok(highest)
}
