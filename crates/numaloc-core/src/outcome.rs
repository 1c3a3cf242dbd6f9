//! What became of the processes of a plan, and by how many system calls.

use crate::{account::Account, process::Identity};
use std::time::Duration;

/// What became of one process's pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOutcome {
    /// The process.
    pub identity: Identity,
    /// Its name when planned.
    pub comm: String,
    /// Its bytes by what became of them. A page that several processes map is in the account of one of them.
    pub account: Account,
    /// Why the kernel refused to go on with it, in words, if it did.
    pub error: Option<String>,
}

/// The system calls that were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// move_pages calls.
    pub calls: u64,
    /// Addresses passed to them, each naming one folio.
    pub addresses: u64,
    /// Addresses among them that were passed again after a failure.
    pub retried_addresses: u64,
    /// Pages whose NUMA-hint fault had to be taken first (kernels 6.1 to 6.4 with numa_balancing).
    pub hinted_addresses: u64,
    /// The longest call.
    pub longest: Duration,
    /// All calls together.
    pub total: Duration,
}

impl CallStats {
    /// Adds those of another worker.
    pub fn add(&mut self, other: &CallStats) {
        self.calls += other.calls;
        self.addresses += other.addresses;
        self.retried_addresses += other.retried_addresses;
        self.hinted_addresses += other.hinted_addresses;
        self.longest = self.longest.max(other.longest);
        self.total += other.total;
    }
}
