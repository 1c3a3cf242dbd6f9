//! Existing members of targets, and their results.

use super::*;
use crate::fixture::{self, MIB, process, topology};
use numaloc_core::{Account, Extent, NodeId, NodeResidency, ProcessOutcome, Reason};

/// Memory with these numbers of MiB on node 0 and node 1. `process` is the index of its process.
fn extent(process: usize, mib: [u64; 2]) -> Extent {
    let on = |mib| NodeResidency { owned_bytes: mib * MIB, ..NodeResidency::default() };
    fixture::extent(process, mib.map(on))
}

fn plan(members: &Members, extents: Vec<Extent>) -> Plan {
    let processes: Vec<Process> = members.processes().cloned().collect();
    fixture::plan(&processes, extents, &Options::default())
}

fn refused() -> Error {
    Error::NotPermitted { message: "not yours".to_owned() }
}

/// Process 7 runs on node 0 and process 8 on all CPUs. Process 9 is another user's.
fn members() -> Members {
    let pinned = [process(7, "0-3"), process(8, "0-7"), process(9, "0-3")];
    let mut members = Members::of(pinned.into());
    members.missing.push(Missing {
        member: Target::cgroup("/x"),
        reason: "gone".to_owned(),
        processes: 0,
    });
    assert!(members.leave_out(9, &refused()) && !members.leave_out(10, &refused()));
    members
}

fn names(results: &[MemberResult]) -> Vec<(String, MemberState)> {
    results.iter().map(|result| (result.member.to_string(), result.state)).collect()
}

fn named(states: [MemberState; 4]) -> Vec<(String, MemberState)> {
    let members = ["cgroup /x", "process 7", "process 8", "process 9"].map(str::to_owned);
    members.into_iter().zip(states).collect()
}

#[test]
fn one_that_takes_no_part_holds_up_no_other() {
    use MemberState::{Missing, Refused, Waiting};
    let mut members = members();
    let pids: Vec<i32> = members.processes().map(|process| process.identity.pid).collect();
    assert_eq!(pids, [7, 8]);
    members.check().expect("two take part");
    let found = members.found(&topology(), &Options::default());
    assert_eq!(names(&found), named([Missing, Waiting, Waiting, Refused]));
    assert_eq!(found[1].home, "0".parse().expect("a list"));
    assert!(found[2].reason.starts_with("no target node: "), "{found:?}");
    assert_eq!(found[3].reason, "not yours");
    let told: Vec<_> = members.missing().iter().map(|missing| missing.member.to_string()).collect();
    assert_eq!(told, ["cgroup /x", "process 9"]);
    // If no member takes part, the error is that of the one that is there.
    let gone = Error::NotFound { message: "gone".to_owned() };
    assert!(members.leave_out(7, &gone) && members.leave_out(8, &gone));
    let first = members.check().expect_err("none takes part");
    assert_eq!(first.to_string(), refused().to_string());
}

#[test]
fn each_member_has_its_own_result() {
    use MemberState::{Missing, Refused, Skipped, Succeeded, Waiting};
    let members = members();
    let before = plan(&members, vec![extent(0, [1, 3]), extent(1, [1, 1])]);
    let planned = members.planned(&before, false);
    assert_eq!(names(&planned), named([Missing, Waiting, Waiting, Refused]));
    assert_eq!(planned[1].remote, [(NodeId(1), 3 * MIB)].into());
    assert_eq!(planned[1].before.expect("a look").movable.percent(), 25.0);
    assert_eq!((&planned[1].home, planned[1].processes), (&"0".parse().unwrap(), 1));

    let mut account = Account::default();
    account.found(3 * MIB);
    account.moved(2 * MIB);
    account.left(Reason::Shared, MIB);
    let flow = (NodeId(1), NodeId(0));
    let outcome = |pid, account, error: Option<&str>| ProcessOutcome {
        identity: Identity { pid, start_time: 1 },
        comm: "a".to_owned(),
        account,
        error: error.map(str::to_owned),
    };
    let processes =
        vec![outcome(7, account, Some("refused")), outcome(8, Account::default(), None)];
    let process_flows = vec![[(flow, 2 * MIB)].into(), [].into()];
    let outcome = Outcome { processes, process_flows, ..Outcome::default() };
    let after = plan(&members, vec![extent(0, [4, 0]), extent(1, [1, 1])]);
    let ended = members.ended(&before, &outcome, Some(&after));
    assert_eq!(names(&ended), named([Missing, Succeeded, Skipped, Refused]));
    assert_eq!((&ended[1].flows, ended[1].reason.as_str()), (&outcome.process_flows[0], ""));
    assert_eq!(ended[1].after.expect("a look").movable.remote_bytes, 0);
    assert_eq!(ended[1].failed[0].error, "refused");
    assert!(ended[2].reason.starts_with("no target node: "), "{ended:?}");
    assert_eq!(ended[2].home, "0-1".parse().unwrap());
    // A process that has ended meanwhile was looked at only before the run.
    let gone = members.ended(&before, &outcome, None);
    assert!(gone[1].after.is_none() && gone[1].before.is_some());
}

#[test]
fn where_nothing_is_moved_that_is_the_result() {
    use MemberState::{Missing, Refused, Skipped};
    let members = members();
    let plan = plan(&members, vec![extent(0, [4, 0]), extent(1, [1, 1])]);
    let results = members.planned(&plan, true);
    assert_eq!(names(&results), named([Missing, Skipped, Skipped, Refused]));
    assert_eq!(results[1].reason, "all memory is local");
    assert_eq!(results[1].after, results[1].before);
}
