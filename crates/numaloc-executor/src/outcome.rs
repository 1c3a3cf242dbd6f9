//! What became of a plan.

use numaloc_core::{Account, CallStats, NodeId, ProcessOutcome, Reason};
use std::{collections::BTreeMap, time::Duration};

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By process, in the plan's order.
    pub processes: Vec<ProcessOutcome>,
    /// Confirmed moves by (source, target), in bytes.
    pub flows: BTreeMap<(NodeId, NodeId), u64>,
    /// System calls.
    pub calls: CallStats,
    /// Wall time.
    pub elapsed: Duration,
    /// Whether it was cancelled before its end.
    pub cancelled: bool,
}

impl Outcome {
    /// All processes' accounts together.
    pub fn account(&self) -> Account {
        let mut sum = Account::default();
        self.processes.iter().for_each(|process| sum.add(&process.account));
        sum
    }
    /// Whether remote pages are left that were asked for and could, at another time, have been moved.
    pub fn is_partial(&self) -> bool {
        let account = self.account();
        account.shortfall_bytes() > account.left_for(Reason::ProcessGone)
    }
}
