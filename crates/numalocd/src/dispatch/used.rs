//! How much of its quota each client uses, and how much all clients together.

use crate::{config::Quota, refusal::Refusal};
use std::collections::HashMap;

/// The kinds of record that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedKind {
    /// A job that has not ended, of a client.
    OpenJob,
    /// A job that has not ended, of a schedule. Their number is that of schedules at most, so only their bytes are bounded.
    Run,
    Schedule,
    Workload,
}

/// A number of records and their weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub records: usize,
    pub bytes: usize,
}

impl Amount {
    /// Adds a record of this weight.
    pub fn add(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes;
    }
}

/// What a record counts for.
#[derive(Debug)]
pub struct Counted {
    pub owner: String,
    pub sort: CountedKind,
    pub bytes: usize,
}

/// What one client has: how many records of each [`CountedKind`], and their weights together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Own {
    records: [usize; 4],
    bytes: usize,
}

/// What the records of all clients take, by client and in sum.
#[derive(Debug, Default)]
pub struct Used {
    clients: HashMap<String, Own>,
    /// The bytes of all clients.
    bytes: usize,
}

impl Used {
    pub fn add(&mut self, record: &Counted) {
        let own = match self.clients.get_mut(&record.owner) {
            Some(own) => own,
            None => self.clients.entry(record.owner.clone()).or_default(),
        };
        own.records[record.sort as usize] += 1;
        own.bytes += record.bytes;
        self.bytes += record.bytes;
    }

    /// Subtracts a record that was counted.
    pub fn take(&mut self, record: &Counted) {
        let Some(own) = self.clients.get_mut(&record.owner) else { return };
        own.records[record.sort as usize] -= 1;
        own.bytes -= record.bytes;
        self.bytes -= record.bytes;
        if *own == Own::default() {
            self.clients.remove(&record.owner);
        }
    }

    /// Checks whether the quota of `creator` allows these records instead of those of `before`.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: the creator has used up the number of records or their bytes, or all clients together their bytes.
    pub fn check(
        &self,
        creator: &str,
        sort: CountedKind,
        after: Amount,
        before: Amount,
        quota: &Quota,
    ) -> Result<(), Refusal> {
        let own = self.clients.get(creator).copied().unwrap_or_default();
        let (what, limit) = match sort {
            CountedKind::OpenJob => ("open jobs", quota.open_jobs),
            CountedKind::Run => ("runs of schedules", usize::MAX),
            CountedKind::Schedule => ("schedules", quota.schedules),
            CountedKind::Workload => ("workloads", quota.workloads),
        };
        let refused = |what, limit| Err(Refusal::Quota { what, limit, caller: creator.to_owned() });
        // A change that makes nothing larger is never refused.
        let records = (own.records[sort as usize] + after.records).saturating_sub(before.records);
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
