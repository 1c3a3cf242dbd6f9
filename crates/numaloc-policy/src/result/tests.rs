//! Results of members as the daemon gives them.

use super::*;
use numaloc_api::value::Target;
use numaloc_core::{Account, Identity, Locality, NodeId};

/// Local and remote memory, in pages.
pub(crate) fn share(local: u64, remote: u64) -> Share {
    Share { local_bytes: local * 4096, remote_bytes: remote * 4096, ..Share::default() }
}

fn locality(share: Share) -> Locality {
    // Memory that may not be moved does not count here.
    let overall = Share { remote_bytes: share.remote_bytes + (1 << 30), ..share };
    Locality { movable: share, overall }
}

/// A member of which some pages moved from node 1 to node 0, and others stayed.
fn member(moved: u64, left: &[(Reason, u64)]) -> MemberResult {
    let mut account = Account::default();
    account.found(4096 * (moved + left.iter().map(|(_, pages)| pages).sum::<u64>()));
    account.moved(4096 * moved);
    left.iter().for_each(|&(reason, pages)| account.left(reason, 4096 * pages));
    let pages = moved + left.iter().map(|(_, pages)| pages).sum::<u64>();
    let flows = [((NodeId(1), NodeId(0)), 4096 * moved)];
    MemberResult {
        member: Target::container("c"),
        processes: 1,
        home: [NodeId(0)].into_iter().collect(),
        remote: [(NodeId(1), 4096 * pages), (NodeId(2), 0)].into(),
        before: Some(locality(share(50, pages))),
        after: Some(locality(share(50 + moved, pages - moved))),
        account,
        flows: flows.into_iter().filter(|_| moved > 0).collect(),
        ..MemberResult::default()
    }
}

fn process(pid: i32, error: &str) -> FailedProcess {
    let identity = Identity { pid, start_time: 7 };
    FailedProcess { identity, comm: "redis".to_owned(), error: error.to_owned() }
}

fn nodes(list: &str) -> NodeSet {
    list.parse().expect("a list of nodes")
}

fn moved(failed: Vec<(i32, String)>) -> Verdict {
    Verdict::Completed { from: nodes("1"), to: nodes("0"), failed }
}

#[test]
fn each_state_of_a_member_has_its_verdict() {
    let gone = [(Reason::ProcessGone, 3)];
    let esrch = || vec![process(111_111, "No such process (os error 3)")];
    let failed_pid = vec![(111_111, "No such process".to_owned())];
    let settled = |member: MemberResult| member.settled(100);
    let why = "left: 12.0 KiB busy in the kernel".to_owned();
    for (what, member, expected) in [
        ("all moved", settled(member(7, &[])), moved(Vec::new())),
        ("some moved", settled(member(7, &[(Reason::Busy, 3)])), moved(Vec::new())),
        ("none moved", settled(member(0, &[(Reason::Busy, 3)])), Verdict::Failed(why)),
        (
            "its processes ended",
            settled(MemberResult { failed: esrch(), ..member(0, &gone) }),
            moved(failed_pid.clone()),
        ),
        (
            "one of its processes ended",
            settled(MemberResult { failed: esrch(), ..member(7, &gone) }),
            moved(failed_pid),
        ),
        (
            "its processes ended, and nobody knows which",
            settled(member(0, &gone)),
            Verdict::Failed("the processes ended before any of their memory was moved".to_owned()),
        ),
        ("all was local", settled(member(0, &[])), Verdict::Reached),
        ("enough was local", settled(member(0, &[(Reason::RatioReached, 3)])), Verdict::Reached),
        (
            "the rest has to stay",
            settled(MemberResult {
                after: Some(locality(share(50, 0))),
                ..member(0, &[(Reason::Bound, 3)])
            }),
            Verdict::Skipped(
                "what is remote stays: 12.0 KiB bound by the application's own memory policy"
                    .to_owned(),
            ),
        ),
        (
            "the rest did not have to stay any more when the run was over",
            settled(member(0, &[(Reason::Shared, 3)])),
            Verdict::Skipped(format!("left: 12.0 KiB {}", numaloc_core::LATE)),
        ),
        (
            "it may run everywhere",
            settled(MemberResult { reason: "no target node: pin it".to_owned(), ..member(0, &[]) }),
            Verdict::NoTarget,
        ),
        (
            "it has no memory of its own",
            settled(MemberResult {
                reason: "no local node has memory".to_owned(),
                ..member(0, &[])
            }),
            Verdict::NoTarget,
        ),
        (
            "it was cancelled before",
            MemberResult {
                state: MemberState::Skipped,
                reason: "cancelled\n".to_owned(),
                ..member(0, &[])
            },
            Verdict::Skipped("cancelled\\u{a}".to_owned()),
        ),
        (
            "it is gone",
            MemberResult::left_out(Target::default(), MemberState::Missing, "gone".to_owned()),
            Verdict::Skipped("gone".to_owned()),
        ),
        (
            "it is another's",
            MemberResult::left_out(Target::default(), MemberState::Refused, "no".to_owned()),
            Verdict::Failed("no".to_owned()),
        ),
    ] {
        assert_eq!(ContainerResult::of_member("redis", &member).verdict, expected, "{what}");
    }
}

#[test]
fn the_share_is_that_of_memory_that_may_move() {
    let share_of = |member: &MemberResult| ContainerResult::of_member("redis", member).share;
    let unseen = |member| MemberResult { after: None, ..member };
    assert_eq!(share_of(&member(50, &[]).settled(100)), Some(share(100, 0)));
    let idle = unseen(member(0, &[(Reason::RatioReached, 50)])).settled(50);
    assert_eq!(share_of(&idle), Some(share(50, 50)), "nothing has changed");
    let unread = unseen(member(50, &[])).settled(100);
    assert_eq!(share_of(&unread), None, "what was before is not so any more");
}

#[test]
fn containers_are_in_the_pods_order() {
    let named = |id: &str, member| MemberResult { member: Target::container(id), ..member };
    let members = [
        named("b", member(1, &[]).settled(100)),
        named("a", member(0, &[]).settled(100)),
        named("x", member(0, &[]).settled(100)),
    ];
    let order = [("one", "a"), ("two", "b"), ("three", "c")];
    let order = order.map(|(name, id)| (name.to_owned(), id.to_owned()));
    let results = ContainerResult::of_members(&order, &members);
    let names: Vec<_> = results.iter().map(|result| result.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!([&results[0].verdict, &results[1].verdict], [&Verdict::Reached, &moved(Vec::new())]);
}

mod records {
    use super::*;
    use numaloc_api::value::{JobId, MigrationSpec};
    use std::time::SystemTime;

    fn event(kind: EventType, members: Vec<MemberResult>) -> Event {
        let message = "the host cannot be read".to_owned();
        Event {
            job: Some(JobId::numbered(1)),
            creator: "uid:0".to_owned(),
            target: Target::container("c"),
            from: nodes("1"),
            to: nodes("0"),
            members,
            ..Event::new(1, kind, SystemTime::UNIX_EPOCH, message)
        }
    }

    fn job(state: JobState, members: Vec<MemberResult>) -> Job {
        let (id, spec) = (JobId::numbered(1), MigrationSpec::default());
        let job = Job::new(id, spec, "uid:0".to_owned(), SystemTime::UNIX_EPOCH);
        Job { state, state_message: "the host cannot be read".to_owned(), members, ..job }
    }

    #[test]
    fn the_member_decides_if_there_is_one() {
        let one = vec![member(1, &[]).settled(100)];
        let of_event = ContainerResult::of_event("redis", &event(EventType::Failed, one.clone()));
        let of_job = ContainerResult::of_job("redis", &job(JobState::Partial, one));
        assert_eq!(of_event.as_ref().map(|result| &result.verdict), Some(&moved(Vec::new())));
        assert_eq!(of_event, of_job);
    }

    #[test]
    fn else_the_end_of_the_job_does() {
        let why = || "the host cannot be read".to_owned();
        for (kind, state, expected) in [
            (EventType::Completed, JobState::Running, Some(moved(Vec::new()))),
            (EventType::Skipped, JobState::Skipped, Some(Verdict::Skipped(why()))),
            (EventType::Failed, JobState::Failed, Some(Verdict::Failed(why()))),
            (EventType::Failed, JobState::Interrupted, Some(Verdict::Failed(why()))),
            (EventType::Started, JobState::Running, None),
            (EventType::TargetGone, JobState::Suspended, None),
        ] {
            // A member that waits has no result.
            for members in [Vec::new(), vec![MemberResult::default()]] {
                let verdict = |result: Option<ContainerResult>| result.map(|result| result.verdict);
                let of_event = ContainerResult::of_event("redis", &event(kind, members.clone()));
                assert_eq!(verdict(of_event), expected, "{kind:?}");
                let of_job = ContainerResult::of_job("redis", &job(state, members));
                let expected = expected.clone().filter(|_| state.is_end());
                assert_eq!(verdict(of_job), expected, "{state:?}");
            }
        }
    }
}
