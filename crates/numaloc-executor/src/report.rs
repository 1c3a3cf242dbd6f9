//! What one worker has done, and the sum of all.

use crate::sample::Sample;
use numaloc_core::{Account, CallStats, Flows, Plan, Reason};
use std::fmt;

/// Accounts by process, found bytes by extent, flows and calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// One for each of the plan's processes.
    pub accounts: Vec<Account>,
    /// What the kernel refused to do or to say, in words, by process.
    pub errors: Vec<Option<String>>,
    /// Bytes found remote in each of the plan's moves.
    pub found: Vec<u64>,
    /// For each of the plan's moves, whether a scan of it failed: what was not found may be there.
    pub unread: Vec<bool>,
    /// Confirmed moves, by process.
    pub flows: Vec<Flows>,
    /// System calls.
    pub calls: CallStats,
    /// Some of what was moved.
    pub sample: Sample,
}

impl Report {
    /// An empty one for a plan.
    pub fn new(plan: &Plan) -> Self {
        Self {
            accounts: vec![Account::default(); plan.processes.len()],
            errors: vec![None; plan.processes.len()],
            found: vec![0; plan.moves.len()],
            unread: vec![false; plan.moves.len()],
            flows: vec![Flows::new(); plan.processes.len()],
            calls: CallStats::default(),
            sample: Sample::default(),
        }
    }

    /// Records bytes that are remote in extent `step`, in the account of `process`.
    pub fn found(&mut self, step: usize, process: usize, bytes: u64) {
        self.found[step] += bytes;
        self.accounts[process].found(bytes);
    }

    /// Records what went wrong with a process; the first of it is told.
    pub fn error(&mut self, process: usize, error: impl fmt::Display) {
        self.errors[process].get_or_insert_with(|| error.to_string());
    }

    /// Records and settles bytes that no batch has touched.
    pub fn untouched(&mut self, process: usize, reason: Reason, bytes: u64) {
        self.accounts[process].found(bytes);
        self.accounts[process].left(reason, bytes);
    }

    /// Records and settles bytes that the plan saw and no window found.
    pub fn vanished(&mut self, process: usize, bytes: u64) {
        self.accounts[process].found(bytes);
        self.accounts[process].vanished(bytes);
    }

    /// Adds another worker's.
    pub fn add(&mut self, other: Report) {
        self.accounts.iter_mut().zip(&other.accounts).for_each(|(sum, account)| sum.add(account));
        self.found.iter_mut().zip(&other.found).for_each(|(sum, found)| *sum += found);
        self.unread.iter_mut().zip(&other.unread).for_each(|(any, unread)| *any |= unread);
        for (sum, error) in self.errors.iter_mut().zip(other.errors) {
            *sum = sum.take().or(error);
        }
        self.flows.iter_mut().zip(other.flows).for_each(|(sum, flows)| add(sum, flows));
        self.calls.add(&other.calls);
        self.sample.join(other.sample);
    }
}

/// Adds flows to others.
pub fn add(sum: &mut Flows, flows: Flows) {
    for (flow, bytes) in flows {
        *sum.entry(flow).or_default() += bytes;
    }
}
