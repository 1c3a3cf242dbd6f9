//! Rows that wait for a call, by what the folios of one call have in common.

use crate::{call::key::Key, pages::row::Row};
use std::collections::BTreeMap;

/// Rows that wait for a call.
#[derive(Debug, Default)]
pub struct Pending {
    rows: BTreeMap<Key, Vec<Row>>,
    bytes: u64,
}

impl Pending {
    pub fn add(&mut self, key: Key, row: Row) {
        self.bytes += row.bytes();
        self.rows.entry(key).or_default().push(row);
    }

    /// Takes out all rows of the first key.
    pub fn pop(&mut self) -> Option<(Key, Vec<Row>)> {
        let (key, rows) = self.rows.pop_first()?;
        self.bytes -= rows.iter().map(Row::bytes).sum::<u64>();
        Some((key, rows))
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
