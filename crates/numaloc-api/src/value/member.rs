//! Results of the members of a target.

use super::{FailedProcess, FoundAt, Target};
use numaloc_core::amount::shown_size;
use numaloc_core::{Account, Flows, LATE, Locality, NodeId, NodeSet};
use std::collections::BTreeMap;

/// The states of a member of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberState {
    /// It has no result yet.
    #[default]
    Waiting,
    /// All of its memory that was to be moved is local.
    Succeeded,
    /// Some of its memory that was to be moved is still remote.
    Partial,
    /// There was nothing to do (no target node, all memory was local, the ratio was reached, or all remote memory has to
    /// stay), or the job was cancelled before it reached this member.
    Skipped,
    /// Its processes ended before any of their memory was moved, or the job failed before it reached this member.
    Failed,
    /// No process, cgroup, unit or workload was found under its name.
    Missing,
    /// The owner of the job may not have its memory moved, or it could not be looked at.
    Refused,
}

impl MemberState {
    /// Every state, in the order of declaration.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Succeeded,
        Self::Partial,
        Self::Skipped,
        Self::Failed,
        Self::Missing,
        Self::Refused,
    ];

    /// Whether the member took no part in the migration.
    pub fn is_left_out(self) -> bool {
        matches!(self, Self::Missing | Self::Refused)
    }
}

/// A member of a target and its result. A process that several members name counts in each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberResult {
    /// The member, as a target with one member.
    pub member: Target,
    /// The state in which the migration ended for it, or [`MemberState::Waiting`].
    pub state: MemberState,
    /// Why it is in this state, as text for people; empty if there is nothing to add.
    pub reason: String,
    /// Number of its processes when they were looked up.
    pub processes: usize,
    /// Nodes where its memory belongs.
    pub home: NodeSet,
    /// Bytes that were not at home before, by the node they were on.
    pub remote: BTreeMap<NodeId, u64>,
    /// Locality of its memory before; `None` if it was not looked at.
    pub before: Option<Locality>,
    /// Locality of its memory in a new look afterwards; `None` if there was nothing to look at.
    pub after: Option<Locality>,
    /// Its remote bytes by what happened to them.
    pub account: Account,
    /// Bytes that a second look has found on their target, by (source, target).
    pub flows: Flows,
    /// The first of its processes that failed, at most [`Self::FAILED`].
    pub failed: Vec<FailedProcess>,
    /// Number of further processes of it that may not be read. They are in none of the other fields.
    pub unreadable: usize,
    /// Where it was found, if it had to be looked up. In a box, because a job may have thousands of members without it.
    pub found: Option<Box<FoundAt>>,
}

impl MemberResult {
    /// Most failed processes that are named.
    pub const FAILED: usize = 8;

    /// The result of a member that takes no part.
    pub fn left_out(member: Target, state: MemberState, reason: String) -> Self {
        Self { member, state, reason, ..Self::default() }
    }

    /// Sets state and reason by the account, when `target_ratio` percent were to be local. If there was nothing to do and a
    /// reason is set already, that reason stays. A member that takes no part is not changed.
    pub fn settled(mut self, target_ratio: u8) -> Self {
        if self.state.is_left_out() {
            return self;
        }
        let account = &self.account;
        let late_bytes = self.after.map_or(0, |after| account.late_bytes(&after, target_ratio));
        let (state, reason) = match state_and_reason(account, late_bytes) {
            (MemberState::Skipped, _) if !self.reason.is_empty() => {
                (MemberState::Skipped, self.reason)
            }
            known => known,
        };
        (self.state, self.reason) = match (self.unreadable, state) {
            (0, _) | (_, MemberState::Failed) => (state, reason),
            (unreadable, _) => (MemberState::Partial, with_unreadable(unreadable, reason)),
        };
        self
    }

    /// The result of two legs of one job together. This is the result of a leg that was ended early; `next` is that of the
    /// leg that went on from a new look.
    pub fn continued_by(&self, next: &Self, target_ratio: u8) -> Self {
        if next.state.is_left_out() {
            let (state, reason) = (next.state, next.reason.clone());
            return Self { state, reason, account: self.account.ended(), ..self.clone() };
        }
        let mut joined = Self {
            account: self.account.continued_by(&next.account),
            before: self.before.or(next.before),
            flows: self.flows.clone(),
            ..next.clone()
        };
        if self.before.is_some() {
            joined.remote.clone_from(&self.remote);
        }
        for (&flow, &bytes) in &next.flows {
            *joined.flows.entry(flow).or_default() += bytes;
        }
        joined.settled(target_ratio)
    }

    /// Joins the results of all members of two legs. Members that the next leg does not have stay as they were.
    pub fn all_continued_by(before: &[Self], next: Vec<Self>, target_ratio: u8) -> Vec<Self> {
        let mut known: BTreeMap<&Target, &Self> =
            before.iter().map(|result| (&result.member, result)).collect();
        let join = |next: Self| match known.remove(&next.member) {
            Some(before) => before.continued_by(&next, target_ratio),
            None => next,
        };
        let mut joined: Vec<Self> = next.into_iter().map(join).collect();
        joined.extend(known.into_values().cloned());
        joined
    }
}

/// A reason with the processes that may not be read. It may name them already: a result is settled again for each leg of a job.
fn with_unreadable(unreadable: usize, reason: String) -> String {
    let processes = if unreadable == 1 { "process" } else { "processes" };
    let first = format!("{unreadable} unreadable {processes}");
    match reason {
        reason if reason.starts_with(&first) => reason,
        reason if reason.is_empty() => first,
        reason => format!("{first}; {reason}"),
    }
}

/// State and reason that follow from an account and from `late_bytes`: see [`Account::late_bytes`].
pub fn state_and_reason(account: &Account, late_bytes: u64) -> (MemberState, String) {
    let gone = account.left_for(numaloc_core::Reason::ProcessGone);
    if gone > 0 && gone == account.found_bytes() {
        let why = "the processes ended before any of their memory was moved";
        (MemberState::Failed, why.to_owned())
    } else if account.is_partial() || late_bytes > 0 {
        let reasons = account.left_bytes().iter().filter(|(reason, _)| reason.is_shortfall());
        let late = Some(late_bytes).filter(|&bytes| bytes > 0);
        let reasons: Vec<String> = reasons
            .map(|(reason, bytes)| format!("{} {reason}", shown_size(*bytes)))
            .chain(late.map(|bytes| format!("{} {LATE}", shown_size(bytes))))
            .collect();
        (MemberState::Partial, format!("left: {}", reasons.join(", ")))
    } else if account.moved_bytes() > 0 {
        (MemberState::Succeeded, String::new())
    } else if account.left_bytes().is_empty() {
        (MemberState::Skipped, "all memory is local".to_owned())
    } else {
        let reasons = account.left_bytes().iter();
        let reasons: Vec<_> =
            reasons.map(|(reason, bytes)| format!("{} {reason}", shown_size(*bytes))).collect();
        (MemberState::Skipped, format!("what is remote stays: {}", reasons.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Reason, Share};

    fn result(moved_bytes: u64, left: &[(Reason, u64)]) -> MemberResult {
        let mut account = Account::default();
        account.found(moved_bytes + left.iter().map(|(_, bytes)| bytes).sum::<u64>());
        account.moved(moved_bytes);
        left.iter().for_each(|&(reason, bytes)| account.left(reason, bytes));
        let flows = [((NodeId(1), NodeId(0)), moved_bytes)].into();
        let before = Some(Locality::default());
        MemberResult { account, flows, before, ..MemberResult::default() }
    }

    #[test]
    fn each_end_has_its_state() {
        use MemberState::{Failed, Partial, Skipped, Succeeded};
        for (moved, left, state, reason) in [
            (7, &[][..], Succeeded, ""),
            (7, &[(Reason::Shared, 3)], Succeeded, ""),
            (7, &[(Reason::Busy, 3)], Partial, "left: 3 B busy in the kernel"),
            (0, &[], Skipped, "all memory is local"),
            (
                0,
                &[(Reason::Bound, 3)],
                Skipped,
                "what is remote stays: 3 B bound by the application's own memory policy",
            ),
            (
                0,
                &[(Reason::ProcessGone, 3)],
                Failed,
                "the processes ended before any of their memory was moved",
            ),
        ] {
            let ended = result(moved, left).settled(100);
            assert_eq!((ended.state, ended.reason.as_str()), (state, reason), "{moved} {left:?}");
        }
        let unpinned = MemberResult { reason: "no target node".to_owned(), ..result(0, &[]) };
        assert_eq!(unpinned.settled(100).reason, "no target node");
        let refused = MemberResult::left_out(Target::default(), MemberState::Refused, "r".into());
        assert_eq!(refused.clone().settled(100), refused);
    }

    #[test]
    fn a_member_with_processes_that_may_not_be_read_is_partial_at_best() {
        let settled = |unreadable, moved, left: &[(Reason, u64)]| {
            let ended = MemberResult { unreadable, ..result(moved, left) }.settled(100);
            // It is settled again for each leg of a job.
            assert_eq!(ended.clone().settled(100), ended);
            (ended.state, ended.reason)
        };
        let one = "1 unreadable process".to_owned();
        assert_eq!(settled(1, 7, &[]), (MemberState::Partial, one));
        let two = "2 unreadable processes; all memory is local".to_owned();
        assert_eq!(settled(2, 0, &[]), (MemberState::Partial, two));
        assert_eq!(settled(2, 0, &[(Reason::ProcessGone, 3)]).0, MemberState::Failed);
    }

    #[test]
    fn what_is_remote_afterwards_is_late() {
        let after = Locality {
            movable: Share { local_bytes: 90, remote_bytes: 10, ..Share::default() },
            ..before()
        };
        let late = MemberResult { after: Some(after), ..result(7, &[]) };
        assert_eq!(late.clone().settled(100).state, MemberState::Partial);
        assert_eq!(late.settled(90).state, MemberState::Succeeded);
    }

    fn before() -> Locality {
        Locality::default()
    }

    #[test]
    fn legs_are_joined_member_by_member() {
        let named = |path, result| MemberResult { member: Target::cgroup(path), ..result };
        let cancelled = named("/a", result(7, &[(Reason::Cancelled, 3)])).settled(100);
        let gone = named("/b", result(5, &[(Reason::Cancelled, 1)])).settled(100);
        let unknown = named("/c", result(1, &[])).settled(100);
        let first = [cancelled, gone, unknown.clone()];
        let missing = |path| {
            let member = Target::cgroup(path);
            MemberResult::left_out(member, MemberState::Missing, "gone".to_owned())
        };
        let next = vec![named("/a", result(3, &[])), missing("/b"), missing("/d")];
        let joined = MemberResult::all_continued_by(&first, next, 100);
        let [a, b, d, c] = &joined[..] else { panic!("{joined:?}") };
        assert_eq!((a.state, a.account.moved_bytes()), (MemberState::Succeeded, 10));
        assert_eq!(a.flows.values().sum::<u64>(), 10);
        assert!(a.account.closes() && b.account.closes());
        assert_eq!((b.state, b.account.moved_bytes()), (MemberState::Missing, 5));
        assert_eq!(b.account.left_for(Reason::ProcessGone), 1);
        assert_eq!((d, c), (&missing("/d"), &unknown));
    }
}
