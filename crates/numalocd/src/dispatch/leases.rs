//! Computes when workloads that are not renewed are forgotten. No IO. Leases are not stored: when the daemon starts,
//! each lease begins with its full time, because no client could renew it while the daemon was away.

use numaloc_api::value::WorkloadId;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// When the leases of workloads end, the earliest first.
#[derive(Debug, Default)]
pub struct Leases {
    ends: BTreeMap<WorkloadId, Instant>,
    in_order: BTreeSet<(Instant, WorkloadId)>,
}

impl Leases {
    /// Sets when a lease ends; `None`: there is none.
    pub fn set(&mut self, id: &WorkloadId, end: Option<Instant>) {
        let before = match end {
            Some(end) => self.ends.insert(id.clone(), end),
            None => self.ends.remove(id),
        };
        if let Some(before) = before {
            self.in_order.remove(&(before, id.clone()));
        }
        self.in_order.extend(end.map(|end| (end, id.clone())));
    }

    /// When the lease of a workload ends.
    pub fn end(&self, id: &WorkloadId) -> Option<Instant> {
        self.ends.get(id).copied()
    }

    /// When the next lease ends.
    pub fn next(&self) -> Option<Instant> {
        self.in_order.first().map(|(end, _)| *end)
    }

    /// Workloads whose leases have ended, in the order of those ends.
    pub fn ended(&self, now: Instant) -> impl Iterator<Item = &WorkloadId> {
        self.in_order.iter().take_while(move |(end, _)| *end <= now).map(|(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_workload_has_one_end() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let [a, b] = ["a", "b"].map(|id| WorkloadId::new(id).expect("an id"));
        let mut leases = Leases::default();
        assert_eq!(leases.next(), None);
        leases.set(&a, Some(at(1)));
        leases.set(&b, Some(at(2)));
        assert_eq!((leases.next(), leases.end(&b)), (Some(at(1)), Some(at(2))));
        leases.set(&a, Some(at(3)));
        assert_eq!(leases.next(), Some(at(2)));
        assert_eq!(leases.ended(at(1)).count(), 0);
        assert_eq!(leases.ended(at(2)).collect::<Vec<_>>(), [&b]);
        assert_eq!(leases.ended(at(3)).collect::<Vec<_>>(), [&b, &a]);
        leases.set(&b, None);
        leases.set(&b, None);
        assert_eq!(leases.ended(at(9)).collect::<Vec<_>>(), [&a]);
        assert_eq!(leases.end(&b), None);
    }
}
