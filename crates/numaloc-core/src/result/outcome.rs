//! The result of a run: what happened to the pages of each process, and how many system calls it took.

use crate::{
    machine::{ids::NodeId, process::Identity, room::CacheStop},
    result::account::Account,
};
use std::{collections::BTreeMap, time::Duration};

/// Confirmed moves by (source, target), in bytes.
pub type Flows = BTreeMap<(NodeId, NodeId), u64>;

/// The result of carrying out a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By process, in the plan's order.
    pub processes: Vec<ProcessOutcome>,
    /// Confirmed moves of all processes.
    pub flows: Flows,
    /// Confirmed moves of each of the processes, in their order.
    pub process_flows: Vec<Flows>,
    /// Bytes that were confirmed as moved of the memory that each of the rules of the request names ([`Options::maps`](crate::Options)).
    pub named_bytes: Vec<u64>,
    /// Page cache that went from targets to other nodes to make room ([`MakeRoom::MoveCache`](crate::MakeRoom)). It is not memory of
    /// the processes.
    pub cache_flows: Flows,
    /// Number, duration and volume of the system calls.
    pub calls: CallStats,
    /// Wall time of the run, pauses and waiting included.
    pub elapsed: Duration,
    /// Whether the run was cancelled before its end.
    pub cancelled: bool,
    /// Why it has ended before its time, if a call has not returned.
    pub ended_with: Option<String>,
    /// A sample of the moved pages; each stands for the same number of bytes.
    pub sample: Vec<Moved>,
}

/// A page that was seen on its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The process that maps it.
    pub process: Identity,
    /// Its virtual address in that process.
    pub address: u64,
    /// The node that the page was seen on after the call.
    pub to: NodeId,
}

impl Outcome {
    /// The sum of the accounts of all processes.
    pub fn account(&self) -> Account {
        ProcessOutcome::total(&self.processes)
    }
    /// Whether remote pages are left that were requested and that a later attempt might move.
    pub fn is_partial(&self) -> bool {
        self.account().is_partial()
    }
}

/// The outcome of one process's pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOutcome {
    /// Pid and start time of the survey; an entry remains if the process has ended.
    pub identity: Identity,
    /// Its name when the plan was made.
    pub comm: String,
    /// Its bytes, by what happened to them. A page that several processes map is in the account of only one of them.
    pub account: Account,
    /// An error message, if the kernel refused to move its pages or to say where they are.
    pub error: Option<String>,
}

impl ProcessOutcome {
    /// The accounts of all of `processes` together.
    pub fn total(processes: &[Self]) -> Account {
        let mut sum = Account::default();
        processes.iter().for_each(|process| sum.add(&process.account));
        sum
    }

    /// The outcomes of a run that was cancelled and then continued as `next`, which looked at all memory again.
    /// Processes that had ended by then keep their place in the list; bytes that the first run had not reached count as
    /// gone.
    pub fn continued_by(first: &[Self], next: &[Self]) -> Vec<Self> {
        let mut rest: BTreeMap<Identity, &Self> =
            next.iter().map(|process| (process.identity, process)).collect();
        let mut processes = Vec::with_capacity(first.len().max(next.len()));
        for process in first {
            let joined = match rest.remove(&process.identity) {
                Some(again) => Self {
                    account: process.account.continued_by(&again.account),
                    error: again.error.clone().or_else(|| process.error.clone()),
                    ..again.clone()
                },
                None => Self { account: process.account.ended(), ..process.clone() },
            };
            processes.push(joined);
        }
        let new = next.iter().filter(|process| rest.contains_key(&process.identity));
        processes.extend(new.cloned());
        processes
    }
}

/// Upper bounds in microseconds of the first buckets of [`CallStats::times`]; the last bucket holds longer calls.
pub const CALL_BOUNDS_US: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// The system calls that were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// Calls of move_pages(2) that move pages.
    pub calls: u64,
    /// Addresses passed to them, each naming one folio.
    pub addresses: u64,
    /// Addresses among them that were passed again after a failure.
    pub retried_addresses: u64,
    /// Pages whose NUMA-hint fault had to be taken first (kernels 6.1 to 6.4 with numa_balancing).
    pub hinted_addresses: u64,
    /// Wall time of the longest move_pages call: how long one call can stall the application.
    pub longest: Duration,
    /// Wall time of all move_pages calls together, summed over workers.
    pub total: Duration,
    /// Number of calls by duration: one count for each bucket of [`CALL_BOUNDS_US`].
    pub times: [u64; 13],
    /// Calls that took longer than the pace allows (`max_stall`).
    pub over_stall: u64,
    /// Time for which workers rested to keep to their pace, summed over workers.
    pub rested: Duration,
    /// Further time for which workers held back (pressure, a bandwidth limit, work of a higher class), summed over
    /// workers.
    pub held_back: Duration,
    /// The part of `held_back` in which workers waited for the kernel to make huge pages on the target. A run gives up
    /// waiting after some time.
    pub huge_page_wait: Duration,
    /// Huge pages that the kernel split during the run, on the whole host (/proc/vmstat, thp_migration_split).
    pub split_huge_pages: u64,
    /// Base pages that the kernel failed to migrate during the run, on the whole host (/proc/vmstat, pgmigrate_fail).
    pub failed_pages: u64,
    /// Bytes for which the kernel dropped page cache on a target.
    pub cache_bytes: u64,
    /// Why no more was dropped, or moved away, if something kept it from that.
    pub cache_stop: Option<CacheStop>,
    /// Requests to a node to drop page cache (nodeN/reclaim), instead of waiting for its kswapd.
    pub reclaims: u64,
    /// Requests to compact a node's memory (nodeN/compact).
    pub compactions: u64,
    /// Time that all workers waited for that.
    pub compaction_wait: Duration,
    /// Bytes that came to a target in place of others' memory, which went to where these had been.
    pub exchanged_bytes: u64,
    /// The most workers at the same time.
    pub workers: u64,
    /// Bytes that count as moved by the statuses of calls: of their pages a sample was looked at.
    pub sampled_bytes: u64,
}

impl CallStats {
    /// Counts a call with this number of addresses that took `elapsed`.
    pub fn record(&mut self, addresses: u64, elapsed: Duration) {
        self.calls += 1;
        self.addresses += addresses;
        self.longest = self.longest.max(elapsed);
        self.total += elapsed;
        let bucket =
            CALL_BOUNDS_US.partition_point(|&bound| Duration::from_micros(bound) < elapsed);
        self.times[bucket] += 1;
    }

    /// Adds the numbers of another worker, or of another run.
    pub fn add(&mut self, other: &CallStats) {
        // Without `..`, so that the compiler asks for each new number.
        let &CallStats {
            calls,
            addresses,
            retried_addresses,
            hinted_addresses,
            longest,
            total,
            times,
            over_stall,
            rested,
            held_back,
            huge_page_wait,
            split_huge_pages,
            failed_pages,
            cache_bytes,
            cache_stop,
            reclaims,
            compactions,
            compaction_wait,
            exchanged_bytes,
            workers,
            sampled_bytes,
        } = other;
        self.calls += calls;
        self.addresses += addresses;
        self.retried_addresses += retried_addresses;
        self.hinted_addresses += hinted_addresses;
        self.longest = self.longest.max(longest);
        self.total += total;
        self.times.iter_mut().zip(times).for_each(|(sum, count)| *sum += count);
        self.over_stall += over_stall;
        self.rested += rested;
        self.held_back += held_back;
        self.huge_page_wait += huge_page_wait;
        self.split_huge_pages += split_huge_pages;
        self.failed_pages += failed_pages;
        self.cache_bytes += cache_bytes;
        self.cache_stop = self.cache_stop.or(cache_stop);
        self.reclaims += reclaims;
        self.compactions += compactions;
        self.compaction_wait += compaction_wait;
        self.exchanged_bytes += exchanged_bytes;
        self.workers = self.workers.max(workers);
        self.sampled_bytes += sampled_bytes;
    }
}

#[cfg(test)]
mod tests;
