//! A row of a table: a record under its key, with a checksum over the table's name, the key and the record.

use super::TableFault;
use numaloc_api::{
    Damaged, Stored,
    value::{Event, Job, Schedule, Workload},
};
use redb::{Key, TableDefinition, TableHandle, Value};

/// Bytes of a record's checksum.
pub const CHECKSUM: usize = 4;

/// A key: as bytes for the checksum, and as text for people.
pub trait TableKey {
    fn bytes(&self) -> Vec<u8>;
    fn text(&self) -> String;
    /// The key as a number; 0: it is not a number.
    fn number(&self) -> u64;
}

impl TableKey for u64 {
    fn bytes(&self) -> Vec<u8> {
        self.to_le_bytes().to_vec()
    }
    fn text(&self) -> String {
        self.to_string()
    }
    fn number(&self) -> u64 {
        *self
    }
}

impl TableKey for &str {
    fn bytes(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
    fn text(&self) -> String {
        (*self).to_owned()
    }
    fn number(&self) -> u64 {
        0
    }
}

/// A kind of record, which has a table of its own.
pub trait TableRecord: Stored {
    /// The key that the table is sorted by.
    type Key: Key + 'static;
    const TABLE: TableDefinition<'static, Self::Key, &'static [u8]>;

    /// The key that the record is stored under; `None`: it has no number.
    fn key(&self) -> Option<<Self::Key as Value>::SelfType<'_>>;
    fn name(&self) -> String;
}

macro_rules! rows {
    ($($record:ty, $table:literal, $key:ty, |$it:ident| $its_key:expr, $name:expr;)+) => {$(
        impl TableRecord for $record {
            type Key = $key;
            const TABLE: TableDefinition<'static, $key, &'static [u8]> =
                TableDefinition::new($table);

            fn key(&self) -> Option<<$key as Value>::SelfType<'_>> {
                let $it = self;
                $its_key
            }
            fn name(&self) -> String {
                let $it = self;
                $name
            }
        }
    )+};
}

rows! {
    Job, "jobs", u64, |it| it.id.number(), it.id.to_string();
    Schedule, "schedules", u64, |it| it.id.number(), it.id.to_string();
    Workload, "workloads", &'static str, |it| Some(it.spec.id.id()), it.spec.id.to_string();
    Event, "events", u64, |it| Some(it.number), format!("events/{}", it.number);
}

fn checksum(table: &str, key: &impl TableKey, record: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = crc32fast::Hasher::new();
    for part in [table.as_bytes(), &key.bytes(), record] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_le_bytes()
}

/// The name of a row, for people.
fn row_name<R: TableRecord>(key: &impl TableKey) -> String {
    format!("{}/{}", R::TABLE.name(), key.text())
}

/// The bytes of a record, which are those that were stored under this key.
pub fn unsealed<'a, R: TableRecord>(
    key: &impl TableKey,
    value: &'a [u8],
) -> Result<&'a [u8], TableFault> {
    match value.split_first_chunk::<CHECKSUM>() {
        Some((sum, record)) if *sum == checksum(R::TABLE.name(), key, record) => Ok(record),
        _ => Err(TableFault::Checksum(row_name::<R>(key))),
    }
}

/// Reads a record, and checks that it is the one that was stored under this key.
pub fn unseal<R: TableRecord>(key: &impl TableKey, value: &[u8]) -> Result<R, TableFault>
where
    for<'a> <R::Key as Value>::SelfType<'a>: TableKey,
{
    let name = || row_name::<R>(key);
    let record = R::decode(unsealed::<R>(key, value)?).map_err(|why| match why {
        Damaged::Newer { .. } => TableFault::Newer(format!("{} is {why}", name()), None),
        why => TableFault::Record(name(), why),
    })?;
    if record.key().is_none_or(|own| own.bytes() != key.bytes()) {
        return Err(TableFault::Misplaced(record.name(), name()));
    }
    Ok(record)
}

/// The row of a record.
pub fn sealed<R: TableRecord>(key: &impl TableKey, record: &[u8]) -> Vec<u8> {
    [&checksum(R::TABLE.name(), key, record)[..], record].concat()
}
