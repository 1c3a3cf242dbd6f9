//! Turns the dispatcher's counts and measurements into metrics.

use super::Metrics;
use crate::dispatch::Measured;

impl Metrics {
    /// Takes in what the dispatcher has counted or measured.
    pub fn measured(&self, measured: Measured<'_>) {
        match measured {
            Measured::Committing => {}
            Measured::Commit { elapsed, done } => self.committed(elapsed, done),
            Measured::StoreBytes(bytes) => self.store_bytes(bytes),
            Measured::Dequeued(waited) => self.job_dequeued(waited),
            Measured::OldestQueued(oldest) => self.oldest_queued(oldest),
            Measured::Ended(job) => self.job_ended(job),
            Measured::Local(id, percent) => self.workload_local(id, percent),
            Measured::WorkloadGone(id) => self.workload_gone(id),
        }
    }
}
