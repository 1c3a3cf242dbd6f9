//! What each client uses up of what is kept for it.

use crate::{config::Quota, dispatch::Refusal};
use std::collections::HashMap;

/// A sort of record that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A job that has not ended.
    OpenJob,
    /// A schedule.
    Schedule,
    /// A workload.
    Workload,
}

/// What one client has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    open_jobs: usize,
    schedules: usize,
    workloads: usize,
    bytes: usize,
}

impl Own {
    fn count(&mut self, sort: Sort) -> &mut usize {
        match sort {
            Sort::OpenJob => &mut self.open_jobs,
            Sort::Schedule => &mut self.schedules,
            Sort::Workload => &mut self.workloads,
        }
    }
}

/// What all have.
#[derive(Debug, Default)]
pub struct Used(HashMap<String, Own>);

impl Used {
    /// Counts a record of this weight.
    pub fn add(&mut self, creator: &str, sort: Sort, bytes: usize) {
        let own = match self.0.get_mut(creator) {
            Some(own) => own,
            None => self.0.entry(creator.to_owned()).or_default(),
        };
        *own.count(sort) += 1;
        own.bytes += bytes;
    }

    /// Takes one back that was counted.
    pub fn take(&mut self, creator: &str, sort: Sort, bytes: usize) {
        let Some(own) = self.0.get_mut(creator) else { return };
        *own.count(sort) -= 1;
        own.bytes -= bytes;
        if *own == Own::default() {
            self.0.remove(creator);
        }
    }

    /// Whether `creator` may have a record of this weight, in place of one of the weight `before` or besides what it has.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: its number or its bytes are used up.
    pub fn check(
        &self,
        creator: &str,
        sort: Sort,
        bytes: usize,
        before: Option<usize>,
        quota: &Quota,
    ) -> Result<(), Refusal> {
        let mut own = self.0.get(creator).copied().unwrap_or_default();
        let (what, limit) = match sort {
            Sort::OpenJob => ("open jobs", quota.open_jobs),
            Sort::Schedule => ("schedules", quota.schedules),
            Sort::Workload => ("workloads", quota.workloads),
        };
        let refused = |what, limit| Err(Refusal::Quota { what, limit, caller: creator.to_owned() });
        if before.is_none() && *own.count(sort) >= limit {
            return refused(what, limit);
        }
        // What takes less room than before is never refused.
        let grows = bytes > before.unwrap_or_default();
        let all = (own.bytes + bytes).saturating_sub(before.unwrap_or_default());
        if grows && all > quota.bytes { refused("bytes of records", quota.bytes) } else { Ok(()) }
    }
}
