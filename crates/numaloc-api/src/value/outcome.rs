//! What became of a migration, as it is told to clients.

use numaloc_core::{Account, CallStats, Locality, NodeId, ProcessOutcome};
use std::{collections::BTreeMap, time::Duration};

/// What became of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By process.
    pub processes: Vec<ProcessOutcome>,
    /// The accounts of processes that are not among these: of all of them where a list of jobs leaves them out.
    pub others: Account,
    /// Confirmed moves by (source, target), in bytes.
    pub flows: BTreeMap<(NodeId, NodeId), u64>,
    /// System calls.
    pub calls: CallStats,
    /// Wall time.
    pub elapsed: Duration,
    /// Where the target stood before.
    pub before: Locality,
    /// Where a fresh look afterwards found it; `None` if there was nothing to look at.
    pub after: Option<Locality>,
    /// Bytes of what the last run of the same schedule had moved that were remote again before this one, estimated from a
    /// sample; `None` if that was not looked at.
    pub returned_bytes: Option<u64>,
}

impl Outcome {
    /// What became of a plan that was made when the target stood at `before`.
    pub fn new(run: numaloc_core::Outcome, before: Locality, after: Option<Locality>) -> Self {
        let numaloc_core::Outcome { processes, flows, calls, elapsed, .. } = run;
        let others = Account::default();
        Self { processes, others, flows, calls, elapsed, before, after, returned_bytes: None }
    }

    /// What became of it in all, this being the outcome of a leg that was cancelled on its way, `next` that of the leg
    /// that went on with a fresh look.
    pub fn continued_by(&self, next: &Self) -> Self {
        let mut joined = Self {
            processes: ProcessOutcome::continued_by(&self.processes, &next.processes),
            others: self.others.continued_by(&next.others),
            elapsed: self.elapsed.saturating_add(next.elapsed),
            before: self.before,
            returned_bytes: self.returned_bytes.or(next.returned_bytes),
            ..next.clone()
        };
        joined.calls.add(&self.calls);
        for (&flow, &bytes) in &self.flows {
            *joined.flows.entry(flow).or_default() += bytes;
        }
        joined
    }

    /// All processes' accounts together.
    pub fn account(&self) -> Account {
        let mut sum = ProcessOutcome::total(&self.processes);
        sum.add(&self.others);
        sum
    }

    /// Bytes that are remote and may be moved by now, where so many percent were to be local: see [`Account::late_bytes`].
    pub fn late_bytes(&self, target_ratio: u8) -> u64 {
        self.after.map_or(0, |after| self.account().late_bytes(&after, target_ratio))
    }

    /// Whether remote pages are left that were asked for and could, at another time, have been moved.
    pub fn is_partial(&self) -> bool {
        self.account().is_partial()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Identity, Reason, Share};

    const FLOW: (NodeId, NodeId) = (NodeId(1), NodeId(0));

    fn leg(moved_bytes: u64, left: (Reason, u64), local_bytes: u64) -> Outcome {
        let mut account = Account::default();
        account.found(moved_bytes + left.1);
        account.moved(moved_bytes);
        account.left(left.0, left.1);
        let identity = Identity { pid: 7, start_time: 1 };
        let process = ProcessOutcome { identity, comm: "a".to_owned(), account, error: None };
        let mut calls = CallStats::default();
        calls.record(1, Duration::from_millis(1));
        let run = numaloc_core::Outcome {
            processes: vec![process],
            flows: [(FLOW, moved_bytes)].into(),
            process_flows: Vec::new(),
            calls,
            elapsed: Duration::from_secs(2),
            cancelled: left.0 == Reason::Cancelled,
            sample: Vec::new(),
        };
        let movable = Share { local_bytes, remote_bytes: 100 - local_bytes };
        let at = |movable| Locality { movable, overall: movable };
        let after = Some(at(Share { local_bytes: 100, remote_bytes: 0 }));
        Outcome {
            returned_bytes: (local_bytes == 0).then_some(7),
            ..Outcome::new(run, at(movable), after)
        }
    }

    #[test]
    fn what_is_remote_in_the_end_is_late() {
        let after = |local_bytes, remote_bytes| {
            let movable = Share { local_bytes, remote_bytes };
            Some(Locality { movable, overall: movable })
        };
        // Libraries that a client of a server mapped too, until it ended.
        let shared = Outcome { after: after(800, 200), ..leg(600, (Reason::Shared, 200), 0) };
        assert_eq!((shared.late_bytes(100), shared.late_bytes(80)), (200, 0));
        let hardly = Outcome { after: after(1000, 10), ..leg(600, (Reason::Shared, 200), 0) };
        assert_eq!(hardly.late_bytes(100), 0);
        let enough = Outcome { after: after(800, 200), ..leg(600, (Reason::RatioReached, 200), 0) };
        assert_eq!(enough.late_bytes(100), 0, "no more was asked for");
        let busy = Outcome { after: after(800, 200), ..leg(600, (Reason::Busy, 150), 0) };
        assert_eq!(busy.late_bytes(100), 50, "the rest is in the account");
    }

    #[test]
    fn legs_are_joined() {
        let (first, next) = (leg(60, (Reason::Cancelled, 40), 0), leg(39, (Reason::Shared, 1), 60));
        let joined = first.continued_by(&next);
        let account = joined.account();
        assert!(account.closes() && first.is_partial() && !joined.is_partial());
        assert_eq!((account.found_bytes(), account.moved_bytes()), (100, 99));
        assert_eq!(joined.processes.len(), 1);
        assert_eq!(joined.flows, [(FLOW, 99)].into());
        assert_eq!((joined.calls.calls, joined.elapsed), (2, Duration::from_secs(4)));
        assert_eq!((joined.before, joined.after), (first.before, next.after));
        assert_eq!(joined.returned_bytes, Some(7));
    }
}
