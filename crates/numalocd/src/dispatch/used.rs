//! Use of quotas, by each client and by all clients together.

use crate::{
    accounts::{Accounts, Client, Resource},
    config::Quota,
    refusal::Refusal,
};
use std::collections::HashMap;

/// The kinds of record that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedKind {
    /// A job that has not ended, of a client.
    OpenJob,
    /// A job that has not ended, of a schedule. Their number is that of schedules at most, so only their bytes are
    /// bounded.
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

/// A record as it counts in quotas.
#[derive(Debug)]
pub struct Counted {
    pub owner: Client,
    pub sort: CountedKind,
    pub bytes: usize,
}

/// The number of records by client and [`CountedKind`]; their bytes are charged to the owners' accounts.
#[derive(Debug, Default)]
pub struct Used {
    records: HashMap<String, [usize; 4]>,
    accounts: Accounts,
}

impl Used {
    /// Charges bytes to `accounts`.
    pub fn new(accounts: Accounts) -> Self {
        Self { records: HashMap::new(), accounts }
    }

    /// The accounts that it charges.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    pub fn add(&mut self, record: &Counted) {
        let name = &record.owner.name;
        let own = match self.records.get_mut(name) {
            Some(own) => own,
            None => self.records.entry(name.clone()).or_default(),
        };
        own[record.sort as usize] += 1;
        self.accounts.add(&record.owner, Resource::Records, record.bytes);
    }

    /// Subtracts a record that was counted.
    pub fn take(&mut self, record: &Counted) {
        let Some(own) = self.records.get_mut(&record.owner.name) else { return };
        own[record.sort as usize] -= 1;
        if *own == <[usize; 4]>::default() {
            self.records.remove(&record.owner.name);
        }
        self.accounts.subtract(&record.owner, Resource::Records, record.bytes);
    }

    /// Checks whether the quota of `owner` allows these records instead of those of `before`. The bound of all clients
    /// together refuses no run of a schedule: there is one for each schedule at most.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: the owner has used up the number of records or their bytes, or all clients together their
    /// bytes.
    pub fn check(
        &self,
        owner: &Client,
        sort: CountedKind,
        after: Amount,
        before: Amount,
        quota: &Quota,
    ) -> Result<(), Refusal> {
        let own = self.records.get(&owner.name).copied().unwrap_or_default();
        let (what, limit) = match sort {
            CountedKind::OpenJob => ("open jobs", quota.open_jobs),
            CountedKind::Run => ("runs of schedules", usize::MAX),
            CountedKind::Schedule => ("schedules", quota.schedules),
            CountedKind::Workload => ("workloads", quota.workloads),
        };
        // A change that makes nothing larger is never refused.
        let records = (own[sort as usize] + after.records).saturating_sub(before.records);
        if after.records > before.records && records > limit {
            return Err(Refusal::Quota { what, limit, caller: owner.name.clone() });
        }
        match sort {
            CountedKind::Run => {
                self.accounts.check_own(owner, Resource::Records, before.bytes, after.bytes)
            }
            CountedKind::OpenJob | CountedKind::Schedule | CountedKind::Workload => {
                self.accounts.check(owner, Resource::Records, before.bytes, after.bytes)
            }
        }
    }
}
