//! Rows that wait for a call, by what the folios of one call have in common.

use crate::pages::row::Row;
use numaloc_core::{MakeRoom, NodeId};
use numaloc_sys::MoveFlag;
use std::collections::BTreeMap;

/// The properties that the folios of one call share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Index of the process whose thread id is passed to the call.
    pub process: usize,
    /// The pages that the call may move.
    pub flag: MoveFlag,
    /// The target node. One node for the whole call, because a change of target ends the kernel's page list.
    pub to: NodeId,
    /// Page size in bytes, if they are hugetlb pages: these come from a pool of their own.
    pub hugetlb_bytes: Option<u64>,
    /// The permitted way to make room there.
    pub make_room: MakeRoom,
}

/// Rows that wait for a call.
#[derive(Debug, Default)]
pub struct Pending {
    rows: BTreeMap<Key, Vec<Row>>,
    bytes: u64,
}

impl Pending {
    pub fn add(&mut self, key: Key, rows: &[Row]) {
        self.bytes += rows.iter().map(Row::bytes).sum::<u64>();
        self.rows.entry(key).or_default().extend(rows);
    }

    /// Whether any wait for a call to a process with this index or a higher one.
    pub fn has_from(&self, process: usize) -> bool {
        self.rows.last_key_value().is_some_and(|(key, _)| key.process >= process)
    }

    /// Takes out all rows of the first key.
    pub fn pop(&mut self) -> Option<(Key, Vec<Row>)> {
        let (key, rows) = self.rows.pop_first()?;
        self.bytes -= rows.iter().map(Row::bytes).sum::<u64>();
        Some((key, rows))
    }

    /// Bytes that wait, for all targets together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
