//! What became of a migration, as it is told to clients.

use numaloc_core::{Account, CallStats, Locality, NodeId, ProcessOutcome};
use std::{collections::BTreeMap, time::Duration};

/// What became of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By process.
    pub processes: Vec<ProcessOutcome>,
    /// Confirmed moves by (source, target), in bytes.
    pub flows: BTreeMap<(NodeId, NodeId), u64>,
    /// System calls.
    pub calls: CallStats,
    /// Wall time.
    pub elapsed: Duration,
    /// Where the target stood before.
    pub before: Locality,
    /// Where a fresh look afterwards found it; `None` if there was nothing to look at.
    pub after: Option<Locality>,
}

impl Outcome {
    /// All processes' accounts together.
    pub fn account(&self) -> Account {
        let mut sum = Account::default();
        self.processes.iter().for_each(|process| sum.add(&process.account));
        sum
    }
}
