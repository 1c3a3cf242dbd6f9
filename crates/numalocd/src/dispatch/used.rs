//! How much of its quota each client uses, and how much all clients together.

use crate::{config::Quota, refusal::Refusal};
use std::collections::HashMap;

/// The kinds of record that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A job that has not ended, of a client.
    OpenJob,
    /// A job that has not ended, of a schedule. Their number is that of schedules at most, so only their bytes are bounded.
    Run,
    /// A schedule.
    Schedule,
    /// A workload.
    Workload,
}

/// A number of records and their weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub records: usize,
    /// Their weights together.
    pub bytes: usize,
}

impl Amount {
    /// Adds a record of this weight.
    pub fn add(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes;
    }
}

/// What one client has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    open_jobs: usize,
    runs: usize,
    schedules: usize,
    workloads: usize,
    bytes: usize,
}

impl Own {
    fn count(&mut self, sort: Sort) -> &mut usize {
        match sort {
            Sort::OpenJob => &mut self.open_jobs,
            Sort::Run => &mut self.runs,
            Sort::Schedule => &mut self.schedules,
            Sort::Workload => &mut self.workloads,
        }
    }
}

/// What all clients have.
#[derive(Debug, Default)]
pub struct Used {
    clients: HashMap<String, Own>,
    /// The bytes of all clients.
    bytes: usize,
}

impl Used {
    /// Counts a record of this weight.
    pub fn add(&mut self, creator: &str, sort: Sort, bytes: usize) {
        let own = match self.clients.get_mut(creator) {
            Some(own) => own,
            None => self.clients.entry(creator.to_owned()).or_default(),
        };
        *own.count(sort) += 1;
        own.bytes += bytes;
        self.bytes += bytes;
    }

    /// Subtracts a record that was counted.
    pub fn take(&mut self, creator: &str, sort: Sort, bytes: usize) {
        let Some(own) = self.clients.get_mut(creator) else { return };
        *own.count(sort) -= 1;
        own.bytes -= bytes;
        self.bytes -= bytes;
        if *own == Own::default() {
            self.clients.remove(creator);
        }
    }

    /// Checks whether the quota of `creator` allows a record of this weight. `before` is the weight of the record that it
    /// replaces; `None`: it is a new one.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: the creator has used up the number of records or their bytes, or all clients together their bytes.
    pub fn check(
        &self,
        creator: &str,
        sort: Sort,
        bytes: usize,
        before: Option<usize>,
        quota: &Quota,
    ) -> Result<(), Refusal> {
        let before = before.map_or_else(Amount::default, |bytes| Amount { records: 1, bytes });
        self.check_many(creator, sort, Amount { records: 1, bytes }, before, quota)
    }

    /// As [`Self::check`], for many records that replace those of `before`.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn check_many(
        &self,
        creator: &str,
        sort: Sort,
        after: Amount,
        before: Amount,
        quota: &Quota,
    ) -> Result<(), Refusal> {
        let mut own = self.clients.get(creator).copied().unwrap_or_default();
        let (what, limit) = match sort {
            Sort::OpenJob => ("open jobs", quota.open_jobs),
            Sort::Run => ("runs of schedules", usize::MAX),
            Sort::Schedule => ("schedules", quota.schedules),
            Sort::Workload => ("workloads", quota.workloads),
        };
        let refused = |what, limit| Err(Refusal::Quota { what, limit, caller: creator.to_owned() });
        // A change that makes nothing larger is never refused.
        let records = (*own.count(sort) + after.records).saturating_sub(before.records);
        if after.records > before.records && records > limit {
            return refused(what, limit);
        }
        if after.bytes <= before.bytes {
            return Ok(());
        }
        let fits =
            |bytes: usize, limit| (bytes + after.bytes).saturating_sub(before.bytes) <= limit;
        match () {
            () if !fits(own.bytes, quota.bytes) => refused("bytes of records", quota.bytes),
            () if !fits(self.bytes, quota.all_bytes) => {
                refused("bytes of records of all clients together", quota.all_bytes)
            }
            () => Ok(()),
        }
    }
}
