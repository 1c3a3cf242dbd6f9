//! Workloads that made room for a migration.

use super::Target;
use numaloc_core::{Account, Flows, Identity, ProcessOutcome};
use std::collections::{BTreeMap, BTreeSet};

/// The memory of a workload or process that was moved to make room for others on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partner {
    /// Its name, as a target with one member.
    pub member: Target,
    /// Number of its processes that took part.
    pub processes: usize,
    /// Its bytes on the node where room was made. Moved bytes have left the node.
    pub account: Account,
    /// Bytes moved, by (source, target).
    pub flows: Flows,
    /// The first error of one of its processes.
    pub error: Option<String>,
}

impl Partner {
    /// The sum for a partner of all runs that moved its memory; `None`: there was none.
    pub fn of(member: Target, runs: &[&numaloc_core::Outcome]) -> Option<Self> {
        if runs.is_empty() {
            return None;
        }
        let mut partner = Self { member, ..Self::default() };
        let all = || runs.iter().flat_map(|run| &run.processes);
        partner.processes = all().map(|process| process.identity).collect::<BTreeSet<_>>().len();
        partner.account = runs.iter().fold(Account::default(), |mut sum, run| {
            sum.add(&ProcessOutcome::total(&run.processes));
            sum
        });
        runs.iter().for_each(|run| add(&mut partner.flows, &run.flows));
        partner.error = all().find_map(|process| process.error.clone());
        Some(partner)
    }

    /// The partners of runs that their plans were made for, by the processes that each has.
    pub fn of_runs(
        partners: impl IntoIterator<Item = (Target, BTreeSet<Identity>)>,
        runs: &[numaloc_core::Outcome],
    ) -> Vec<Self> {
        let partners = partners.into_iter().filter_map(|(member, processes)| {
            let is_one = |run: &&numaloc_core::Outcome| {
                run.processes.iter().any(|process| processes.contains(&process.identity))
            };
            Self::of(member, &runs.iter().filter(is_one).collect::<Vec<_>>())
        });
        partners.collect()
    }

    /// Joins the partners of two legs of one job. The second leg has looked at all memory again; partners of which it moved nothing
    /// stay as they were.
    pub fn all_continued_by(before: &[Self], next: &[Self]) -> Vec<Self> {
        let mut rest: BTreeMap<&Target, &Self> =
            next.iter().map(|partner| (&partner.member, partner)).collect();
        let mut joined: Vec<Self> = Vec::with_capacity(before.len().max(next.len()));
        for first in before {
            let mut partner = first.clone();
            if let Some(again) = rest.remove(&first.member) {
                partner.account = first.account.continued_by(&again.account);
                partner.processes = first.processes.max(again.processes);
                add(&mut partner.flows, &again.flows);
                partner.error = first.error.clone().or_else(|| again.error.clone());
            }
            joined.push(partner);
        }
        joined.extend(rest.into_values().cloned());
        joined
    }
}

fn add(sum: &mut Flows, flows: &Flows) {
    for (&flow, &bytes) in flows {
        *sum.entry(flow).or_default() += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{NodeId, Outcome, Reason};

    fn run(pid: i32, moved_bytes: u64, stays_bytes: u64) -> Outcome {
        let mut account = Account::default();
        account.found(moved_bytes + stays_bytes);
        account.moved(moved_bytes);
        account.left(Reason::NotNeeded, stays_bytes);
        let identity = Identity { pid, start_time: 1 };
        let error = (stays_bytes == 1).then(|| "why".to_owned());
        Outcome {
            processes: vec![ProcessOutcome { identity, comm: "a".to_owned(), account, error }],
            flows: [((NodeId(0), NodeId(1)), moved_bytes)].into(),
            ..Outcome::default()
        }
    }

    fn processes(pids: &[i32]) -> BTreeSet<Identity> {
        pids.iter().map(|&pid| Identity { pid, start_time: 1 }).collect()
    }

    #[test]
    fn each_partner_has_its_own_runs() {
        let names = ["/a", "/b", "/c"].map(Target::cgroup);
        let all = [processes(&[1, 2]), processes(&[3]), processes(&[4])];
        let runs = [run(2, 8, 4), run(3, 5, 0), run(1, 4, 1)];
        let found = Partner::of_runs(names.iter().cloned().zip(all), &runs);
        let [a, b] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&a.member, a.processes, a.account.moved_bytes()), (&names[0], 2, 12));
        assert_eq!(a.account.left_for(Reason::NotNeeded), 5);
        assert!(a.account.closes() && b.account.closes());
        assert_eq!(a.flows, [((NodeId(0), NodeId(1)), 12)].into());
        assert_eq!((a.error.as_deref(), &b.error), (Some("why"), &None));
        assert_eq!((&b.member, b.account.moved_bytes()), (&names[1], 5));
    }

    #[test]
    fn legs_are_joined_partner_by_partner() {
        let of = |path, run: Outcome| Partner::of(Target::cgroup(path), &[&run]).expect("a run");
        let first = [of("/a", run(1, 8, 4)), of("/b", run(2, 1, 0))];
        let next = [of("/c", run(3, 2, 0)), of("/a", run(1, 3, 1))];
        let joined = Partner::all_continued_by(&first, &next);
        let [a, b, c] = &joined[..] else { panic!("{joined:?}") };
        assert_eq!((a.account.found_bytes(), a.account.moved_bytes()), (12, 11));
        assert!(a.account.closes());
        assert_eq!(a.flows.values().sum::<u64>(), 11);
        assert_eq!((b, c), (&first[1], &next[0]));
    }
}
