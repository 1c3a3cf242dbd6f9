//! Findings on a host of which each step may fail, and each subject get worse.

use super::*;
use crate::doc::UndoEnd;
use numaloc_core::{
    Identity, NodeId, NodeSet,
    advise::{AdviceStep, FindingKind},
};
use std::collections::{BTreeMap, BTreeSet};

/// A host whose files are what the steps write.
#[derive(Clone, Debug, Default, PartialEq)]
struct Fake {
    files: BTreeMap<String, String>,
    /// Changes since the finding began, with the values that they replaced.
    changed: Vec<(String, Option<String>)>,
    /// The number of the step that fails.
    fails_at: Option<usize>,
    steps: usize,
    /// Processes that lose local memory once their finding has been carried out, and processes that end.
    worse: BTreeSet<i32>,
    ends: BTreeSet<i32>,
    seen: BTreeSet<i32>,
    /// Changes refused because their target is not the intended one.
    refused: BTreeSet<String>,
}

impl Hands for Fake {
    fn sight(&mut self, who: Option<&Who>) -> Result<Option<Sight>, Failure> {
        let Some(Who::Process(Identity { pid, .. })) = who else {
            return Ok(Some(Sight::default()));
        };
        let again = !self.seen.insert(*pid);
        if again && self.ends.contains(pid) {
            return Ok(None);
        }
        let local = if again && self.worse.contains(pid) { 10 } else { 40 };
        let resident = [(NodeId(0), local), (NodeId(1), 100 - local)].into();
        Ok(Some(Sight { resident, ..Sight::default() }))
    }

    fn check(&mut self, action: &Action) -> Result<(), Failure> {
        let Action::Write { path, .. } = action else { panic!("{action:?}") };
        match self.refused.contains(path) {
            true => Err(Failure::Usage("it is another one".into())),
            false => Ok(()),
        }
    }

    fn step(&mut self, _: Option<&Who>, action: &Action, _: &Sight) -> Result<Code, Failure> {
        let Action::Write { path, value } = action else { panic!("{action:?}") };
        self.steps += 1;
        if self.fails_at == Some(self.steps) {
            return Err(Failure::Usage("no rights".into()));
        }
        let before = self.files.insert(path.clone(), value.clone());
        self.changed.push((path.clone(), before));
        Ok(Code::Done)
    }

    fn take_back(&mut self) -> Vec<UndoneChange> {
        let back = std::mem::take(&mut self.changed).into_iter().rev().map(|(path, before)| {
            match before {
                Some(before) => drop(self.files.insert(path.clone(), before)),
                None => drop(self.files.remove(&path)),
            }
            UndoneChange { change: path, end: UndoEnd::Undone, reason: String::new() }
        });
        back.collect()
    }

    fn begin(&mut self) {
        self.changed.clear();
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

/// A finding about a process, with two files to write.
fn finding(pid: i32) -> Finding {
    let nodes: NodeSet = "0".parse().expect("a list");
    let cgroup = |name: &str| AdviceStep::CgroupMems {
        directory: format!("/{pid}/{name}"),
        nodes: nodes.clone(),
    };
    Finding {
        kind: FindingKind::PinnedRemote,
        who: Some(Who::Process(Identity { pid, start_time: 1 })),
        name: "x".into(),
        resident_bytes: 100,
        used_cpus: 1.0,
        from_nodes: nodes.clone(),
        home: nodes.clone(),
        cpus: None,
        mems: None,
        flows: BTreeMap::new(),
        hugetlb_bytes: None,
        bytes: 60,
        storage_bytes: 0,
        seconds: 1.0,
        weight: 1.0,
        benefit: None,
        helpers: Vec::new(),
        steps: vec![cgroup("a"), cgroup("b")],
    }
}

fn carried(host: &mut Fake) -> Vec<FindingEnd> {
    let findings = [finding(1), finding(2), finding(3)];
    carry_out(host, &findings, |_, _| ()).into_iter().map(|result| result.end).collect()
}

#[test]
fn whichever_step_fails_its_finding_is_taken_back_and_the_rest_is_left() {
    use FindingEnd::{Done, Failed, NotDone};
    for fails_at in 1..=6 {
        let mut host = Fake { fails_at: Some(fails_at), ..Fake::default() };
        let (whole, at) = ((fails_at - 1) / 2, fails_at.div_ceil(2));
        let expected: Vec<FindingEnd> = (1..=3)
            .map(|number| {
                if number < at {
                    Done
                } else if number == at {
                    Failed
                } else {
                    NotDone
                }
            })
            .collect();
        assert_eq!(carried(&mut host), expected, "{fails_at}");
        assert_eq!(host.files.len(), 2 * whole, "{fails_at}: no half finding stays");
    }
}

#[test]
fn what_is_another_one_is_left_and_findings_about_others_follow() {
    use FindingEnd::{Done, Failed, NotDone};
    let refused = ["/2/b/cpuset.mems".to_owned()].into();
    let mut host = Fake { refused, ..Fake::default() };
    let findings = [finding(1), finding(2), finding(2), finding(3)];
    let results = carry_out(&mut host, &findings, |_, _| ());
    let ends: Vec<FindingEnd> = results.iter().map(|result| result.end).collect();
    assert_eq!(ends, [Done, Failed, NotDone, Done]);
    assert_eq!(results[1].reason, "it is another one");
    assert!(results[1].undone.is_empty(), "its first step was not done either");
    assert!(host.files.keys().all(|path| !path.starts_with("/2/")), "{:?}", host.files);
    assert_eq!(host.files.len(), 4);
    // One that fails afterwards still ends the rest.
    let mut host = Fake { fails_at: Some(3), ..host };
    host.steps = 0;
    let results = carry_out(&mut host, &findings, |_, _| ());
    let ends: Vec<FindingEnd> = results.iter().map(|result| result.end).collect();
    assert_eq!(ends, [Done, Failed, NotDone, Failed]);
}

#[test]
fn who_gets_worse_or_ends_stops_it_with_both_figures() {
    let mut host = Fake { worse: [2].into(), ..Fake::default() };
    let results = carry_out(&mut host, &[finding(1), finding(2), finding(3)], |_, _| ());
    let ends: Vec<FindingEnd> = results.iter().map(|result| result.end).collect();
    assert_eq!(ends, [FindingEnd::Done, FindingEnd::Worse, FindingEnd::NotDone]);
    assert_eq!(results[1].reason, "its local share fell from 40% to 10%");
    assert_eq!(results[1].local, [Some(40.0), Some(10.0)]);
    let undone: Vec<&str> = results[1].undone.iter().map(|undone| &undone.change[..]).collect();
    assert_eq!(undone, ["/2/b/cpuset.mems", "/2/a/cpuset.mems"], "the last one first");
    assert_eq!(host.files.keys().collect::<Vec<_>>(), ["/1/a/cpuset.mems", "/1/b/cpuset.mems"]);
    let mut host = Fake { ends: [1].into(), ..Fake::default() };
    use FindingEnd::{NotDone, Worse};
    assert_eq!(carried(&mut host), [Worse, NotDone, NotDone]);
    assert_eq!(host.files.len(), 0);
}

#[test]
fn who_has_ended_before_its_turn_stops_nobody() {
    let mut host = Fake { ends: [1].into(), seen: [1].into(), ..Fake::default() };
    use FindingEnd::{Done, Gone};
    assert_eq!(carried(&mut host), [Gone, Done, Done]);
    assert_eq!(host.files.len(), 4);
}
