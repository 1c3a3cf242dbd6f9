//! The result of a migration, as clients see it.

use super::{JobState, MemberState, Partner, member::state_and_reason};
use numaloc_core::amount::shown_size;
use numaloc_core::{
    Account, CallStats, Locality, MapRule, NodeId, OffloadUse, Plan, ProcessOutcome, Reason,
};
use std::{collections::BTreeMap, time::Duration};

/// The message of a job whose look afterwards failed. The error follows.
const UNKNOWN: &str = "the scan after the run failed, so the remaining remote memory is unknown";

/// The result of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The outcome of each process's pages, in the order of the plan.
    pub processes: Vec<ProcessOutcome>,
    /// The sum of the accounts of processes that `processes` does not have. In a list of jobs `processes` is empty, so this
    /// has all.
    pub others: Account,
    /// Bytes that a second look has found on their target, by (source, target).
    pub flows: BTreeMap<(NodeId, NodeId), u64>,
    /// Page cache that went from targets to other nodes to make room, in bytes.
    pub cache_flows: BTreeMap<(NodeId, NodeId), u64>,
    /// Number, duration and volume of the system calls.
    pub calls: CallStats,
    /// Wall time of all legs of the job together.
    pub elapsed: Duration,
    /// Locality of the target before.
    pub before: Locality,
    /// Locality of the target in a new look afterwards; `None` if there was nothing to look at, or the look failed.
    pub after: Option<Locality>,
    /// The part of the bytes moved by the last run of the same schedule that was remote again before this run,
    /// estimated from a sample. `None` without a sample.
    pub returned_bytes: Option<u64>,
    /// Partners whose memory was moved to make room; none in a list of jobs.
    pub partners: Vec<Partner>,
    /// The use of offload; `None` in old records.
    pub offload: Option<OffloadUse>,
    /// The memory that each of the rules of the request names.
    pub named: Vec<NamedOutcome>,
    /// Why the look afterwards failed, so that it is not known what is remote now. Empty if it did not.
    pub look_error: String,
    /// Why the run has ended before its time, if a call has not returned. The message does not have it: the state of the job does.
    pub ended_with: Option<String>,
}

/// The result for the memory that one rule of a request names ([`Options::maps`](numaloc_core::Options)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedOutcome {
    /// The pattern of the rule.
    pub pattern: String,
    /// Resident bytes by node in a new look afterwards; empty if there was nothing to look at.
    pub nodes: BTreeMap<NodeId, u64>,
    /// Bytes that a second look has found on their target.
    pub moved_bytes: u64,
}

impl NamedOutcome {
    /// The results of a run of `plan`, of which `moved` has the bytes for each rule. `after` is a look at the target after the run.
    pub fn all(plan: &Plan, moved: &[u64], after: Option<&Plan>) -> Vec<Self> {
        let after = |number: usize| after.and_then(|after| after.named.get(number));
        let rules = plan.options.maps.iter().enumerate();
        let one = |(number, rule): (usize, &MapRule)| Self {
            pattern: rule.pattern.to_string(),
            nodes: after(number).map(|named| named.resident.clone()).unwrap_or_default(),
            moved_bytes: moved.get(number).copied().unwrap_or(0),
        };
        rules.map(one).collect()
    }

    /// The results of two legs of one job together, which have the same rules.
    fn all_continued_by(first: &[Self], next: &[Self]) -> Vec<Self> {
        if next.is_empty() {
            return first.to_vec();
        }
        let moved = |pattern: &str| {
            let same = first.iter().find(|first| first.pattern == pattern);
            same.map_or(0, |first| first.moved_bytes)
        };
        let one = |next: &Self| Self {
            moved_bytes: next.moved_bytes.saturating_add(moved(&next.pattern)),
            ..next.clone()
        };
        next.iter().map(one).collect()
    }
}

impl Outcome {
    /// The result of a run. `before` is the locality at planning, `after` that of the look afterwards.
    pub fn new(run: numaloc_core::Outcome, before: Locality, after: Option<Locality>) -> Self {
        let numaloc_core::Outcome {
            processes, flows, cache_flows, calls, elapsed, ended_with, ..
        } = run;
        let others = Account::default();
        let (returned_bytes, partners, offload) = (None, Vec::new(), None);
        Self {
            processes,
            others,
            flows,
            cache_flows,
            calls,
            elapsed,
            before,
            after,
            returned_bytes,
            partners,
            offload,
            named: Vec::new(),
            look_error: String::new(),
            ended_with,
        }
    }

    /// The result of two legs of one job together. This is the outcome of a leg that was ended early; `next` is that of the
    /// leg that went on from a new look at the target.
    pub fn continued_by(&self, next: &Self) -> Self {
        let mut joined = Self {
            processes: ProcessOutcome::continued_by(&self.processes, &next.processes),
            others: self.others.continued_by(&next.others),
            elapsed: self.elapsed.saturating_add(next.elapsed),
            before: self.before,
            returned_bytes: self.returned_bytes.or(next.returned_bytes),
            partners: Partner::all_continued_by(&self.partners, &next.partners),
            named: NamedOutcome::all_continued_by(&self.named, &next.named),
            offload: match (&self.offload, &next.offload) {
                (Some(first), Some(next)) => Some(first.continued_by(next)),
                (first, next) => next.as_ref().or(first.as_ref()).cloned(),
            },
            ..next.clone()
        };
        joined.calls.add(&self.calls);
        for (flows, first) in
            [(&mut joined.flows, &self.flows), (&mut joined.cache_flows, &self.cache_flows)]
        {
            first.iter().for_each(|(&flow, bytes)| *flows.entry(flow).or_default() += bytes);
        }
        joined
    }

    /// The accounts of all processes together.
    pub fn account(&self) -> Account {
        let mut sum = ProcessOutcome::total(&self.processes);
        sum.add(&self.others);
        sum
    }

    /// The outcome without single processes and partners, whose accounts are summed up.
    #[must_use]
    pub fn summed_up(&self) -> Self {
        let (processes, others, partners) = (Vec::new(), self.account(), Vec::new());
        Self { processes, others, partners, ..self.clone() }
    }

    /// Bytes that are remote and may be moved by now, when `target_ratio` percent were to be local: see
    /// [`Account::late_bytes`].
    pub fn late_bytes(&self, target_ratio: u8) -> u64 {
        self.after.map_or(0, |after| self.account().late_bytes(&after, target_ratio))
    }

    /// The last state of a job with this outcome, and why, when `target_ratio` percent were to be local. A run that was finished
    /// before it noticed that it was to stop has left nothing for this reason: it was not cancelled.
    pub fn end(&self, target_ratio: u8) -> (JobState, String) {
        let account = self.account();
        if account.left_for(Reason::Cancelled) > 0 {
            let with = self.ended_with.iter().map(|why| format!(": {why}"));
            return (JobState::Cancelled, format!("cancelled{}", with.collect::<String>()));
        }
        if let Some(why) = &self.ended_with {
            return (JobState::Failed, why.clone());
        }
        let unknown = match self.look_error.is_empty() {
            true => String::new(),
            false => format!("{UNKNOWN}: {}", self.look_error),
        };
        match state_and_reason(&account, self.late_bytes(target_ratio)) {
            (MemberState::Failed, why) => (JobState::Failed, why),
            (MemberState::Partial, why) if unknown.is_empty() => (JobState::Partial, why),
            (MemberState::Partial, why) => (JobState::Partial, format!("{why}; {unknown}")),
            _ if !unknown.is_empty() => (JobState::Partial, unknown),
            _ => (JobState::Succeeded, String::new()),
        }
    }

    /// Whether pages are still remote that were to be moved and might be moved at another time.
    pub fn is_partial(&self) -> bool {
        self.account().is_partial()
    }
}

/// The end of a job whose plan moves nothing, and the reason; `None` if it moves something. It is skipped, unless
/// memory stays that was to be moved: a job that falls short is partial, also if it falls short of everything.
pub fn nothing_to_move(plan: &Plan) -> Option<(JobState, String)> {
    if plan.planned_bytes() > 0 {
        return None;
    }
    let skipped = |why: String| Some((JobState::Skipped, why));
    if let Some(skip) = plan.processes.iter().find_map(|process| process.skip)
        && plan.is_skipped()
    {
        return skipped(skip.message().to_owned());
    }
    let stays = plan.skipped_bytes();
    if let Some(relief) = &plan.options.relief
        && stays.contains_key(&Reason::NotNeeded)
    {
        return skipped(match relief.returning_bytes {
            None => relief.within_bound(),
            Some(_) => format!("node {} has no room for memory that left it", relief.node),
        });
    }
    if stays.is_empty() && plan.options.relief.is_some() {
        return skipped("no memory of the target is on the node".to_owned());
    }
    if stays.is_empty() {
        return skipped("all memory is local".to_owned());
    }
    let reasons: Vec<String> = match stays.contains_key(&Reason::RatioReached) {
        true => vec![format!("{}% is local already", plan.options.target_ratio)],
        false => {
            stays.iter().map(|(reason, bytes)| format!("{} {reason}", shown_size(*bytes))).collect()
        }
    };
    let is_short = |&reason: &Reason| reason.is_shortfall() && reason != Reason::ProcessGone;
    let state = match stays.keys().any(is_short) {
        true => JobState::Partial,
        false => JobState::Skipped,
    };
    Some((state, format!("what is remote stays: {}", reasons.join(", "))))
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
            named_bytes: Vec::new(),
            cache_flows: [((NodeId(0), NodeId(2)), moved_bytes)].into(),
            calls,
            elapsed: Duration::from_secs(2),
            cancelled: left.0 == Reason::Cancelled,
            ended_with: (left.0 == Reason::NotReturned).then(|| "it hangs".to_owned()),
            sample: Vec::new(),
        };
        let movable = Share { local_bytes, remote_bytes: 100 - local_bytes, ..Share::default() };
        let at = |movable| Locality { movable, overall: movable };
        let after = Some(at(Share { local_bytes: 100, remote_bytes: 0, ..Share::default() }));
        Outcome {
            returned_bytes: (local_bytes == 0).then_some(7),
            ..Outcome::new(run, at(movable), after)
        }
    }

    #[test]
    fn a_failed_look_afterwards_is_not_a_success() {
        let look_error = "cannot read /proc/7/maps: Input/output error".to_owned();
        let unseen =
            |left| Outcome { after: None, look_error: look_error.clone(), ..leg(600, left, 0) };
        let expected = format!("{UNKNOWN}: {look_error}");
        let done = unseen((Reason::Shared, 0));
        assert_eq!(done.end(100), (JobState::Partial, expected.clone()));
        let (state, why) = unseen((Reason::Busy, 150)).end(100);
        assert!(state == JobState::Partial && why.starts_with("left: 150 B"), "{why}");
        assert!(why.ends_with(&expected), "{why}");
        let ended = Outcome { look_error: String::new(), ..done };
        assert_eq!(ended.end(100).0, JobState::Succeeded, "no process was left to look at");
    }

    #[test]
    fn what_is_remote_in_the_end_is_late() {
        let after = |local_bytes, remote_bytes| {
            let movable = Share { local_bytes, remote_bytes, ..Share::default() };
            Some(Locality { movable, overall: movable })
        };
        // A client of a server mapped the same libraries until it ended.
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
    fn a_run_ends_in_the_same_state_wherever_it_ran() {
        let end = |moved_bytes, left| leg(moved_bytes, left, 100).end(100);
        let succeeded = (JobState::Succeeded, String::new());
        assert_eq!(end(7, (Reason::Shared, 3)), succeeded);
        let (state, why) = end(0, (Reason::ProcessGone, 3));
        assert_eq!(state, JobState::Failed);
        assert!(why.contains("ended before any of their memory was moved"), "{why}");
        assert_eq!(end(7, (Reason::ProcessGone, 3)), succeeded);
        let late = (JobState::Partial, "left: 3 B out of time".to_owned());
        assert_eq!(end(7, (Reason::OutOfTime, 3)), late);
        assert_eq!(end(7, (Reason::Cancelled, 3)), (JobState::Cancelled, "cancelled".to_owned()));
        let failed = (JobState::Failed, "it hangs".to_owned());
        assert_eq!(end(7, (Reason::NotReturned, 3)), failed);
        let cancelled = Outcome {
            ended_with: Some("it hangs".to_owned()),
            ..leg(7, (Reason::Cancelled, 3), 100)
        };
        let expected = (JobState::Cancelled, "cancelled: it hangs".to_owned());
        assert_eq!(cancelled.end(100), expected);
        // It was finished before it noticed that it was to stop.
        assert_eq!(end(7, (Reason::Cancelled, 0)), succeeded);
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
        assert_eq!(joined.cache_flows, [((NodeId(0), NodeId(2)), 99)].into());
        assert_eq!((joined.calls.calls, joined.elapsed), (2, Duration::from_secs(4)));
        assert_eq!((joined.before, joined.after), (first.before, next.after));
        assert_eq!(joined.returned_bytes, Some(7));
    }
}
