//! The order in which workloads have changed, for clients that watch them. No IO; in memory only. Only the last change of
//! each workload is kept. So memory is bounded by the number of workloads and by [`REMOVALS`] removed ones.

use numaloc_api::value::WorkloadId;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// How many removals are remembered. A watcher that has missed an older one has to read all workloads again.
const REMOVALS: usize = 10_000;

/// The last change of each workload, by numbers that rise.
#[derive(Debug)]
pub struct Changes {
    /// Random id of this run of the daemon. Change numbers of another run mean other changes.
    run: u64,
    last: u64,
    numbers: HashMap<WorkloadId, u64>,
    order: BTreeMap<u64, WorkloadId>,
    removals: VecDeque<u64>,
    /// Number of the latest removal that has been forgotten.
    forgotten: u64,
}

impl Changes {
    /// Without any changes.
    pub fn new(run: u64) -> Self {
        Self {
            run,
            last: 0,
            numbers: HashMap::new(),
            order: BTreeMap::new(),
            removals: VecDeque::new(),
            forgotten: 0,
        }
    }

    /// A workload is new or has changed.
    pub fn put(&mut self, id: &WorkloadId) {
        self.last += 1;
        if let Some(before) = self.numbers.insert(id.clone(), self.last) {
            self.order.remove(&before);
        }
        self.order.insert(self.last, id.clone());
    }

    /// A workload has gone.
    pub fn remove(&mut self, id: &WorkloadId) {
        self.put(id);
        self.removals.push_back(self.last);
        let surplus = self.removals.len() > REMOVALS;
        let oldest = surplus.then(|| self.removals.pop_front()).flatten();
        // A workload that was registered again has a later number; then `order` has nothing under this one.
        if let Some(oldest) = oldest
            && let Some(id) = self.order.remove(&oldest)
        {
            self.numbers.remove(&id);
            self.forgotten = oldest;
        }
    }

    /// The number of the last change.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Changes with numbers above `after`. 0: all present workloads, and the removals that are remembered. `None`: some
    /// changes after it have been forgotten, or this run has no change with the number `after`.
    pub fn after(&self, after: u64) -> Option<impl Iterator<Item = (u64, &WorkloadId)>> {
        let known = after == 0 || (self.forgotten..=self.last).contains(&after);
        known.then(|| self.order.range(after + 1..).map(|(number, id)| (*number, id)))
    }

    /// The resume token with which a client continues after this change.
    pub fn token(&self, number: u64) -> String {
        format!("{:016x}.{number}", self.run)
    }

    /// The number in a token of this run of the daemon; `None` for any other token.
    pub fn number(&self, token: &str) -> Option<u64> {
        let (run, number) = token.split_once('.')?;
        let number = number.parse().ok()?;
        (u64::from_str_radix(run, 16) == Ok(self.run)).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> WorkloadId {
        WorkloadId::new(&format!("w{number}")).expect("an id")
    }

    fn after(changes: &Changes, after: u64) -> Option<Vec<(u64, &str)>> {
        Some(changes.after(after)?.map(|(number, id)| (number, id.id())).collect())
    }

    #[test]
    fn of_each_workload_the_last_change_is_told() {
        let mut changes = Changes::new(7);
        assert_eq!(after(&changes, 0), Some(Vec::new()));
        [0, 1, 0].into_iter().for_each(|number| changes.put(&id(number)));
        assert_eq!(after(&changes, 0), Some(vec![(2, "w1"), (3, "w0")]));
        changes.remove(&id(1));
        assert_eq!(after(&changes, 0), Some(vec![(3, "w0"), (4, "w1")]));
        assert_eq!(after(&changes, 3), Some(vec![(4, "w1")]));
        assert_eq!(after(&changes, 4), Some(Vec::new()));
        assert_eq!(after(&changes, 5), None, "there was no such change");
        changes.put(&id(1));
        assert_eq!(after(&changes, 3), Some(vec![(5, "w1")]));
    }

    #[test]
    fn what_has_gone_takes_no_more_room_than_it_may() {
        let mut changes = Changes::new(7);
        changes.put(&id(0));
        for number in 1..=REMOVALS + 2 {
            changes.put(&id(number));
            changes.remove(&id(number));
        }
        // Each was put and removed: 1 + 2 * n; the first two removals are forgotten.
        assert_eq!((changes.forgotten, changes.order.len()), (5, REMOVALS + 1));
        assert_eq!(changes.numbers.len(), changes.order.len());
        assert!(after(&changes, 4).is_none() && after(&changes, 1).is_none());
        assert_eq!(after(&changes, 5).map(|told| told.len()), Some(REMOVALS));
        // A watcher that begins anew does not need the forgotten removals.
        assert_eq!(after(&changes, 0).map(|told| told[0]), Some((1, "w0")));
        // A workload that was registered again is not forgotten.
        changes.put(&id(3));
        changes.remove(&id(REMOVALS + 3));
        assert!(after(&changes, 0).expect("all is known").iter().any(|(_, id)| *id == "w3"));
    }

    #[test]
    fn tokens_are_of_their_run() {
        let changes = Changes::new(7);
        assert_eq!(changes.number(&changes.token(12)), Some(12));
        for token in ["", "7", "7.", "7.x", "8.12", ".12", &Changes::new(8).token(12)] {
            assert_eq!(changes.number(token), None, "{token}");
        }
    }
}
