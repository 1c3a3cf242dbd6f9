//! What memory knows of open jobs beyond their records, by number. No IO.

use crate::order::FoundTarget;
use std::collections::HashMap;

/// What is known of all open jobs.
#[derive(Debug, Default)]
pub struct OpenJobs {
    /// Their processes and nodes, where known, without members: records have these.
    found: HashMap<u64, FoundTarget>,
    /// The places in the queue of jobs that have been put behind others.
    behind: HashMap<u64, u64>,
}

impl OpenJobs {
    /// The processes and nodes of a job, if they are known.
    pub fn found(&self, number: u64) -> Option<&FoundTarget> {
        self.found.get(&number)
    }

    /// Takes in the processes and nodes of a job.
    pub fn learn(&mut self, number: u64, found: &FoundTarget) {
        self.found.insert(number, found.bare());
    }

    /// Takes in the processes and nodes of a job of which nothing is known yet.
    pub fn learn_first(&mut self, number: u64, found: &FoundTarget) {
        self.found.entry(number).or_insert_with(|| found.bare());
    }

    /// The place of a job in the queue: its number, unless it has been put behind others.
    pub fn place(&self, number: u64) -> u64 {
        self.behind.get(&number).copied().unwrap_or(number)
    }

    /// Puts a job behind those with lower numbers than `place`.
    pub fn put_behind(&mut self, number: u64, place: u64) {
        self.behind.insert(number, place);
    }

    /// Forgets a job that has ended.
    pub fn forget(&mut self, number: u64) {
        self.found.remove(&number);
        self.behind.remove(&number);
    }

    /// Forgets the processes and nodes of jobs that are not there after all.
    pub fn keep(&mut self, is_there: impl Fn(u64) -> bool) {
        self.found.retain(|&number, _| is_there(number));
    }
}
