//! State of open jobs beyond their records, by number. No IO.

use numaloc_api::WorkingJob;
use numaloc_core::Flows;
use numaloc_engine::FoundTarget;
use std::collections::{HashMap, VecDeque};
use tokio::time::Instant;

/// Most ended jobs that are remembered for live views, and most processes of all of them.
const ENDED: usize = 256;
const ENDED_PROCESSES: usize = 65_536;

/// State of all open jobs beyond their records.
#[derive(Debug, Default)]
pub struct OpenJobs {
    /// Their processes and nodes, where known, without members: records have these.
    found: HashMap<u64, FoundTarget>,
    /// The places in the queue of jobs that have been put behind others.
    behind: HashMap<u64, u64>,
    /// Jobs that have moved memory and ended, with when they did, the oldest first: live views show what they have
    /// moved.
    ended: VecDeque<(Instant, WorkingJob)>,
    /// Bytes that jobs have moved that have ended, by nodes.
    flows: Flows,
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

    /// Remembers a job that ends, for live views.
    pub fn remember(&mut self, at: Instant, job: WorkingJob) {
        self.ended.push_back((at, job));
        let mut count: usize = self.ended.iter().map(|(_, job)| job.processes.len()).sum();
        while self.ended.len() > ENDED || count > ENDED_PROCESSES {
            let Some((_, oldest)) = self.ended.pop_front() else { return };
            count -= oldest.processes.len();
        }
    }

    /// Counts what a job has moved.
    pub fn count(&mut self, flows: &Flows) {
        flows.iter().for_each(|(nodes, bytes)| *self.flows.entry(*nodes).or_default() += bytes);
    }

    /// Bytes that ended jobs have moved, by nodes.
    pub fn flows(&self) -> &Flows {
        &self.flows
    }

    /// The jobs that have moved memory and ended at `begin` or later, as far as they are remembered. `None`: all of
    /// them.
    pub fn ended_since(&self, begin: Option<Instant>) -> impl Iterator<Item = &WorkingJob> {
        let is_since = move |at: Instant| begin.is_none_or(|begin| at >= begin);
        self.ended.iter().filter(move |(at, _)| is_since(*at)).map(|(_, job)| job)
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
