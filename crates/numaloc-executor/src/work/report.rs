//! The result of one worker, and the sum over all workers.

use crate::work::sample::Sample;
use numaloc_core::{Account, CallStats, Flows, Plan, Reason};
use std::fmt;

/// Accounts by process, found bytes by extent, flows and calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// One for each of the plan's processes.
    pub accounts: Vec<Account>,
    /// The first error of each process, as text.
    pub errors: Vec<Option<String>>,
    /// Bytes found remote in each of the plan's moves.
    pub found: Vec<u64>,
    /// Bytes confirmed as moved in each of the plan's moves.
    pub moved: Vec<u64>,
    /// For each of the plan's moves, whether a scan of it failed. Pages that were not found may still be there.
    pub unread: Vec<bool>,
    /// Bytes that were confirmed as moved, by process.
    pub flows: Vec<Flows>,
    /// Page cache that made room, by the nodes it was on and went to.
    pub cache_flows: Flows,
    /// Statistics of the calls and rests.
    pub calls: CallStats,
    /// A sample of the moved memory.
    pub sample: Sample,
}

impl Report {
    /// An empty report for a plan.
    pub fn new(plan: &Plan) -> Self {
        Self {
            accounts: vec![Account::default(); plan.processes.len()],
            errors: vec![None; plan.processes.len()],
            found: vec![0; plan.moves.len()],
            moved: vec![0; plan.moves.len()],
            unread: vec![false; plan.moves.len()],
            flows: vec![Flows::new(); plan.processes.len()],
            cache_flows: Flows::new(),
            calls: CallStats::default(),
            sample: Sample::default(),
        }
    }

    /// Counts remote bytes that were found in the extent of move `move_index`, in the account of `process`.
    pub fn found(&mut self, move_index: usize, process: usize, bytes: u64) {
        self.found[move_index] += bytes;
        self.accounts[process].found(bytes);
    }

    /// Records an error of a process. Only the first one is kept.
    pub fn error(&mut self, process: usize, error: impl fmt::Display) {
        self.errors[process].get_or_insert_with(|| error.to_string());
    }

    /// Counts bytes that no batch has touched as found, and settles them as left.
    pub fn untouched(&mut self, process: usize, reason: Reason, bytes: u64) {
        self.accounts[process].found(bytes);
        self.accounts[process].left(reason, bytes);
    }

    /// Counts bytes that the plan saw and no window found as found, and settles them as vanished.
    pub fn vanished(&mut self, process: usize, bytes: u64) {
        self.accounts[process].found(bytes);
        self.accounts[process].vanished(bytes);
    }

    pub fn add(&mut self, other: Report) {
        self.accounts.iter_mut().zip(&other.accounts).for_each(|(sum, account)| sum.add(account));
        self.found.iter_mut().zip(&other.found).for_each(|(sum, found)| *sum += found);
        self.moved.iter_mut().zip(&other.moved).for_each(|(sum, moved)| *sum += moved);
        self.unread.iter_mut().zip(&other.unread).for_each(|(any, unread)| *any |= unread);
        for (sum, error) in self.errors.iter_mut().zip(other.errors) {
            *sum = sum.take().or(error);
        }
        self.flows.iter_mut().zip(other.flows).for_each(|(sum, flows)| add(sum, flows));
        add(&mut self.cache_flows, other.cache_flows);
        self.calls.add(&other.calls);
        self.sample.join(other.sample);
    }
}

pub fn add(sum: &mut Flows, flows: Flows) {
    for (flow, bytes) in flows {
        *sum.entry(flow).or_default() += bytes;
    }
}
