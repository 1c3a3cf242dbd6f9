//! The queued jobs that are admitted next.

use super::*;
use crate::{
    config::Queue,
    dispatch::queue::{
        Active, JobStage, SLICE, TakenByJobs, Waiting, has_place, next, overstayed, preempted,
        take_turns,
    },
};
use numaloc_api::value::QosClass;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const WIDE: Queue =
    Queue { moves: 100, plans: 100, moves_per_node: 1, rate_bytes_per_second: None };
const BEGUN: JobStage = JobStage::Moving(Duration::ZERO);
const LATE: JobStage = JobStage::Moving(SLICE);

fn waiting(number: u64, qos_class: QosClass, found: Option<&FoundTarget>) -> Waiting<'_> {
    let (owner, tenant) = ("a", "");
    Waiting { number, line: number, qos_class, owner, tenant, turn: 0, tenant_turn: 0, found }
}

fn active(number: u64, qos_class: QosClass, stage: JobStage, found: &FoundTarget) -> Active<'_> {
    Active { number, qos_class, owner: "a", tenant: "", stage, found: Some(found) }
}

#[test]
fn classes_come_in_order_and_then_age() {
    let (be, ls, lsr) = (QosClass::Be, QosClass::Ls, QosClass::Lsr);
    let all = [(1, be), (2, ls), (3, lsr), (4, ls)];
    let all: Vec<_> = all.map(|(number, class)| waiting(number, class, None)).into();
    assert_eq!(next(all.clone(), &[], &WIDE), [3, 2, 4, 1]);
    // A job that was put behind those already there.
    let behind = |job: Waiting<'static>| match job.number {
        2 => Waiting { line: 5, ..job },
        _ => job,
    };
    assert_eq!(next(all.into_iter().map(behind).collect(), &[], &WIDE), [3, 4, 2, 1]);
}

#[test]
fn jobs_of_files_that_may_be_the_same_wait_for_each_other() {
    let found = |file: &str| FoundTarget { files: [file.to_owned()].into(), ..found(&[], "1") };
    let blocks = |taken: &str, file: &str| {
        TakenByJobs::by([&found(taken)]).blocks(&found(file), &Queue { moves_per_node: 9, ..WIDE })
    };
    for (one, other) in [
        ("/srv/models/a", "/srv/models/a"),
        ("/srv/models", "/srv/models/a"),
        ("/srv/*.gguf", "/srv/models/a"),
        ("/srv/models/*", "/srv/models/a?"),
    ] {
        for (taken, file) in [(one, other), (other, one)] {
            let why = blocks(taken, file);
            assert_eq!(why, Some(format!("another job is at work on file {file}")), "{taken}");
        }
    }
    for (one, other) in [("/srv/a", "/srv/ab"), ("/srv/a/*", "/srv/b"), ("/srv", "/home/srv")] {
        assert_eq!((blocks(one, other), blocks(other, one)), (None, None), "{one} {other}");
    }
}

#[test]
fn owners_take_turns() {
    let at = |number, turn| Waiting { turn, ..waiting(number, QosClass::Ls, None) };
    // One owner has asked for jobs 1 to 3, another for 4 and 5. In the second case a job of the first owner is under
    // way.
    let all = vec![at(1, 0), at(2, 1), at(3, 2), at(4, 0), at(5, 1)];
    assert_eq!(next(all, &[], &WIDE), [1, 4, 2, 5, 3]);
    let all = vec![at(1, 1), at(2, 2), at(3, 3), at(4, 0), at(5, 1)];
    assert_eq!(next(all, &[], &WIDE), [4, 1, 5, 2, 3]);
}

#[test]
fn tenants_of_an_owner_take_turns_among_themselves() {
    let ls = QosClass::Ls;
    let at = |number, owner, tenant| Waiting { owner, tenant, ..waiting(number, ls, None) };
    let order = |mut all: Vec<Waiting<'static>>, active: &[Active<'static>]| {
        take_turns(&mut all, active);
        next(all, active, &WIDE)
    };
    // Pod p has asked for 1 to 3, pod q for 4; another owner, who names no tenant, for 5 and 6.
    let all = vec![
        at(1, "a", "p"),
        at(2, "a", "p"),
        at(3, "a", "p"),
        at(4, "a", "q"),
        at(5, "b", ""),
        at(6, "b", ""),
    ];
    assert_eq!(order(all.clone(), &[]), [1, 5, 4, 6, 2, 3]);
    // A job of p is under way: it is the turn of the other owner, and then of q.
    let node = Box::leak(Box::new(found(&[9], "9")));
    let busy = [Active { tenant: "p", ..active(9, ls, BEGUN, node) }];
    assert_eq!(order(all.clone(), &busy), [5, 4, 6, 1, 2, 3]);
    // Among all others' jobs, more tenants get an owner no more turns.
    let many =
        vec![at(1, "a", "p"), at(2, "a", "q"), at(3, "a", "r"), at(5, "b", ""), at(6, "b", "")];
    assert_eq!(order(many, &[]), [1, 5, 2, 6, 3]);
    // A job that was put behind others goes behind another tenant's first one, not behind the second one.
    let behind = [Waiting { line: 7, ..all[0] }, all[3], at(5, "a", "q")];
    assert_eq!(order(behind.to_vec(), &[]), [4, 1, 5]);
}

#[test]
fn best_effort_goes_back_for_what_waits_for_it_and_for_nothing_else() {
    let limits = |moves| Queue { moves, ..Queue::default() };
    let (zero, one, other) = (found(&[1], "0"), found(&[2], "1"), found(&[3], "0"));
    let active = |number, qos_class, found| active(number, qos_class, BEGUN, found);
    let waits = |qos_class, found| [waiting(9, qos_class, found)];
    let (be, ls, lsr) = (QosClass::Be, QosClass::Ls, QosClass::Lsr);
    let both = [active(1, be, &zero), active(2, be, &one)];
    // Waited for are: a node, a place to move (the youngest goes), nothing.
    assert_eq!(preempted(&waits(lsr, Some(&other)), &both, &limits(9)), [1]);
    assert_eq!(preempted(&waits(lsr, Some(&other)), &both, &limits(2)), [1]);
    assert_eq!(preempted(&waits(ls, None), &both, &limits(2)), [2]);
    assert_eq!(preempted(&waits(ls, None), &both, &limits(3)), [0; 0]);
    assert_eq!(preempted(&waits(be, Some(&other)), &both, &limits(2)), [0; 0]);
    assert_eq!(preempted(&[], &both, &limits(1)), [0; 0]);
    // If a job of another class has what is waited for, no best-effort job has to go.
    let mixed = [active(1, ls, &zero), active(2, be, &one)];
    assert_eq!(preempted(&waits(lsr, Some(&other)), &mixed, &limits(2)), [0; 0]);
}

#[test]
fn best_effort_leaves_places_to_what_is_planned_and_plans_to_what_waits() {
    let limits = Queue { moves: 2, ..Queue::default() };
    let found: Vec<FoundTarget> = (1..=4).map(|pid| found(&[pid], &pid.to_string())).collect();
    let (be, ls) = (QosClass::Be, QosClass::Ls);
    // Both places are taken, and a job of another class is planned: it needs one of them.
    let moving = [active(1, be, BEGUN, &found[0]), active(2, be, BEGUN, &found[1])];
    let with = |stage| [&moving[..], &[active(3, ls, stage, &found[2])]].concat();
    assert_eq!(preempted(&[], &with(JobStage::Planning), &limits), [2]);
    assert_eq!(preempted(&[], &with(JobStage::Ready), &limits), [2]);
    // Both places to plan are taken, so a free place to move does not help.
    let planned =
        [1, 2].map(|number| active(number, be, JobStage::Planning, &found[number as usize]));
    assert_eq!(preempted(&[waiting(3, ls, None)], &planned, &limits), [2]);
    // A job that only waits for a place to move is in no other job's way.
    let ready =
        [active(1, be, JobStage::Ready, &found[0]), active(2, be, JobStage::Ready, &found[1])];
    assert_eq!(preempted(&[waiting(3, ls, None)], &ready, &limits), [0; 0]);
}

#[test]
fn planning_keeps_nobody_of_its_class_from_a_place() {
    let limits = Queue { moves: 1, plans: 2, ..Queue::default() };
    let found: Vec<FoundTarget> = (0..4).map(|pid| found(&[pid + 1], &pid.to_string())).collect();
    let (be, ls, lsr) = (QosClass::Be, QosClass::Ls, QosClass::Lsr);
    let planned = [active(1, ls, JobStage::Planning, &found[0])];
    let others = vec![waiting(2, ls, Some(&found[1])), waiting(3, ls, Some(&found[2]))];
    assert_eq!(next(others.clone(), &planned, &limits), [2], "a long look holds all up");
    assert!(has_place(ls, &planned, &limits));
    // A best-effort job leaves the place to a job of a better class that is planned, also if it is ready itself.
    assert!(!has_place(be, &planned, &limits));
    assert!(has_place(lsr, &planned, &limits));
    assert_eq!(next(vec![waiting(2, be, None)], &planned, &limits), [0; 0]);
    // No job is planned only to wait for a place.
    for stage in [BEGUN, JobStage::Ready] {
        let taken = [active(1, ls, stage, &found[0])];
        assert_eq!(next(others.clone(), &taken, &limits), [0; 0], "{stage:?}");
        assert_eq!(has_place(ls, &taken, &limits), stage == JobStage::Ready);
    }
    // Nor is a job planned that was put behind others, while one of these is planned. The jobs after it wait, too.
    let behind = Waiting { line: 4, ..others[0] };
    let rest = vec![behind, Waiting { line: 5, ..others[1] }];
    assert_eq!(next(rest.clone(), &planned, &limits), [0; 0]);
    assert_eq!(next(rest, &[], &limits), [2]);
    // But a job of a better class comes before a ready one.
    let ready = [active(1, ls, JobStage::Ready, &found[0])];
    assert_eq!(next(vec![waiting(2, lsr, None)], &ready, &limits), [2]);
}

#[test]
fn who_has_moved_for_long_makes_room_for_others_of_its_class() {
    let limits = Queue { moves: 2, ..Queue::default() };
    let found: Vec<FoundTarget> = (0..4).map(|pid| found(&[pid + 1], &pid.to_string())).collect();
    let (ls, lsr) = (QosClass::Ls, QosClass::Lsr);
    let of = |owner, job| Active { owner, ..job };
    let waits = |owner, turn, class, found| [Waiting { owner, turn, ..waiting(9, class, found) }];
    let both = [active(1, ls, LATE, &found[0]), active(2, ls, LATE, &found[1])];
    let free = Some(&found[2]);
    assert_eq!(overstayed(&waits("b", 0, ls, free), &both, &limits), Some(1));
    assert_eq!(overstayed(&waits("b", 0, ls, None), &both, &limits), Some(1));
    // A waiting job of a better class comes first, whichever client owns it.
    assert_eq!(overstayed(&waits("b", 0, lsr, free), &both, &limits), Some(1));
    assert_eq!(overstayed(&waits("a", 2, lsr, free), &both, &limits), Some(1));
    // These continue waiting: the next job of the same owner, a job of a lower class, and a job whose owner has the
    // same number under way.
    assert_eq!(overstayed(&waits("a", 2, ls, free), &both, &limits), None);
    assert_eq!(overstayed(&waits("b", 0, QosClass::Be, free), &both, &limits), None);
    let shared = [of("b", both[0]), both[1]];
    assert_eq!(overstayed(&waits("b", 1, ls, free), &shared, &limits), None);
    assert_eq!(overstayed(&waits("c", 0, ls, free), &shared, &limits), Some(1));
    // A job of another tenant of the same owner comes next, unless that tenant has the same number of jobs under way.
    let of_tenant = |tenant, job| Active { tenant, ..job };
    let pods = [of_tenant("p", both[0]), of_tenant("p", both[1])];
    let wait =
        |tenant, tenant_turn| [Waiting { tenant, turn: 2, tenant_turn, ..waiting(9, ls, free) }];
    assert_eq!(overstayed(&wait("q", 0), &pods, &limits), Some(1));
    assert_eq!(overstayed(&wait("p", 2), &pods, &limits), None);
    let shared = [pods[0], of_tenant("q", both[1])];
    assert_eq!(overstayed(&wait("q", 1), &shared, &limits), None);
    // The job that has the node waited for makes room; else the one that has moved longer; and none before its slice is
    // over.
    let wide = Queue { moves: 9, ..limits };
    assert_eq!(overstayed(&waits("b", 0, ls, Some(&found[1])), &both, &wide), Some(2));
    let longer = JobStage::Moving(SLICE * 2);
    let both = [both[0], active(2, ls, longer, &found[1])];
    assert_eq!(overstayed(&waits("b", 0, ls, free), &both, &limits), Some(2));
    let both = [active(1, ls, BEGUN, &found[0]), active(2, ls, BEGUN, &found[1])];
    assert_eq!(overstayed(&waits("b", 0, ls, free), &both, &limits), None);
    // A job that can start anyway needs no place of another; a ready one does.
    let late = [active(1, ls, LATE, &found[0])];
    assert_eq!(overstayed(&waits("b", 0, ls, free), &late, &limits), None);
    let ready = of("b", active(2, ls, JobStage::Ready, &found[1]));
    let narrow = Queue { moves: 1, ..limits };
    assert_eq!(overstayed(&[], &[late[0], ready], &narrow), Some(1));
}

#[test]
fn an_earlier_job_is_not_passed_over_for_ever() {
    let (busy, both, one, free) =
        (found(&[1], "0"), found(&[2], "0-1"), found(&[3], "1"), found(&[4], "2"));
    let all = [(2, &both), (3, &one), (4, &free)];
    let all = all.map(|(number, found)| waiting(number, QosClass::Ls, Some(found)));
    // Job 3 would keep job 2 from node 1; job 4 is in no other job's way.
    let busy = [active(1, QosClass::Ls, BEGUN, &busy)];
    assert_eq!(next(all.to_vec(), &busy, &WIDE), [4]);
    assert_eq!(next(all.to_vec(), &[], &WIDE), [2, 4]);
}

proptest! {
    #[test]
    fn what_starts_is_in_nobodys_way(
        jobs in prop::collection::vec((prop::collection::vec(1..8_i32, 1..3), 0..4_u32, 0..3_usize), 0..12),
        under_way in prop::collection::vec((8..12_i32, 0..4_u32, 0..3_usize), 0..3),
        moves in 0..5_usize,
        plans in 1..4_usize,
        moves_per_node in 1..3_usize,
    ) {
        let limits = Queue { moves, plans, moves_per_node, ..Queue::default() };
        let stages = [JobStage::Planning, JobStage::Ready, BEGUN];
        let at_work: Vec<FoundTarget> =
            under_way.iter().map(|(pid, node, _)| found(&[*pid], &node.to_string())).collect();
        let at_work: Vec<Active<'_>> = at_work.iter().zip(&under_way).zip(100..).map(|((found, job), number)| {
            active(number, QosClass::Ls, stages[job.2], found)
        }).collect();
        let found: Vec<FoundTarget> =
            jobs.iter().map(|(pids, node, _)| found(pids, &node.to_string())).collect();
        let classes = [QosClass::Lsr, QosClass::Ls, QosClass::Be];
        let all: Vec<Waiting<'_>> = found.iter().zip(&jobs).zip(0..).map(|((found, job), number)| {
            waiting(number, classes[job.2], Some(found))
        }).collect();
        let started = next(all.clone(), &at_work, &limits);
        let planned = at_work.iter().filter(|job| job.stage == JobStage::Planning).count();
        prop_assert!(started.is_empty() || started.len() + planned <= plans);
        let moving = at_work.iter().filter(|job| job.stage == BEGUN).count();
        prop_assert!(started.is_empty() || moving < moves);
        let before: Vec<&FoundTarget> = at_work.iter().filter_map(|job| job.found).collect();
        let after: Vec<&FoundTarget> =
            before.iter().copied().chain(started.iter().map(|&number| &found[number as usize])).collect();
        for (index, one) in after.iter().enumerate() {
            for other in &after[(index + 1).max(before.len())..] {
                prop_assert!(one.processes.is_disjoint(&other.processes));
            }
        }
        for node in 0..4 {
            let on = |found: &&&FoundTarget| found.nodes.contains(NodeId(node));
            let most = moves_per_node.max(before.iter().filter(on).count());
            prop_assert!(after.iter().filter(on).count() <= most);
        }
        // The first job in order starts, if it can.
        if let Some(first) = all.iter().min_by_key(|job| (job.qos_class, job.number)) {
            let alone = next(vec![*first], &at_work, &limits);
            prop_assert!(alone.iter().all(|number| started.contains(number)));
        }
    }
}

proptest! {
    #[test]
    fn everyone_gets_a_turn_and_nobody_is_passed_over(
        jobs in prop::collection::vec((1..40_i32, prop::collection::vec(0..4_u32, 1..3), 0..3_usize), 1..60),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 180),
        moves in 1..5_usize,
        plans in 1..4_usize,
    ) {
        let limits = Queue { moves, plans, moves_per_node: 1, rate_bytes_per_second: None };
        let classes = [QosClass::Lsr, QosClass::Ls, QosClass::Be];
        let found: Vec<FoundTarget> = jobs.iter().map(|(pid, nodes, _)| {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            found(&[*pid], &nodes.join(","))
        }).collect();
        let class = |number: u64| classes[jobs[number as usize].2];
        let wants = |number: u64| &found[number as usize];
        let mut queued: BTreeSet<u64> = (0..jobs.len() as u64).collect();
        let mut under_way: BTreeMap<u64, JobStage> = BTreeMap::new();
        let all = |under_way: &BTreeMap<u64, JobStage>| -> Vec<Active<'_>> {
            under_way.iter().map(|(&number, &stage)| active(number, class(number), stage, wants(number))).collect()
        };
        // Each job is planned, moves and ends, in random order. A ready job moves as soon as it may.
        for pick in &picks {
            let all_waiting = queued.iter().map(|&number| waiting(number, class(number), Some(wants(number))));
            for number in next(all_waiting.collect(), &all(&under_way), &limits) {
                queued.remove(&number);
                under_way.insert(number, JobStage::Planning);
                for &other in queued.iter().filter(|&&other| (class(other), other) < (class(number), number)) {
                    let (one, other) = (wants(number), wants(other));
                    prop_assert!(!one.nodes.intersects(&other.nodes) && one.processes.is_disjoint(&other.processes));
                }
            }
            let mut ready: Vec<u64> =
                under_way.iter().filter(|(_, stage)| **stage == JobStage::Ready).map(|(&number, _)| number).collect();
            ready.sort_by_key(|&number| (class(number), number));
            for number in ready {
                if has_place(class(number), &all(&under_way), &limits) {
                    under_way.insert(number, BEGUN);
                }
            }
            let moving = under_way.values().filter(|stage| **stage == BEGUN).count();
            prop_assert!(moving <= moves);
            if queued.is_empty() && under_way.is_empty() {
                break;
            }
            let at_work: Vec<u64> = under_way.iter().filter(|(_, stage)| **stage != JobStage::Ready).map(|(&number, _)| number).collect();
            prop_assert!(!at_work.is_empty(), "{queued:?} wait, {under_way:?} are under way, and nothing is done");
            let number = at_work[pick.index(at_work.len())];
            let stage = under_way.remove(&number);
            if stage == Some(JobStage::Planning) {
                under_way.insert(number, JobStage::Ready);
            }
        }
        prop_assert!(queued.is_empty() && under_way.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn limits_hold_and_can_be_changed() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let [_a, _b, c] =
        [rig.create(&[1], "0").await, rig.create(&[2], "0").await, rig.create(&[3], "1").await];
    let first = rig.order().await;
    // Node 0 is taken; node 1 is free; more than two at once are not allowed.
    let second = rig.order().await;
    assert_eq!(second.job, c);
    rig.create(&[4], "2").await;
    rig.assert_no_order().await;
    let queue = Queue { moves: 8, plans: 8, moves_per_node: 2, ..Queue::default() };
    rig.config.send_replace(Arc::new(Config { queue, ..Config::default() }));
    let orders = [rig.order().await, rig.order().await];
    assert_eq!(orders.iter().filter_map(|order| order.job.number()).collect::<Vec<_>>(), [2, 4]);
    drop((first, second));
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_finds_others_in_its_way_waits() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (a, b) = (rig.create(&[1], "0").await, rig.create(&[2], "1").await);
    let (first, second) = (rig.order().await, rig.order().await);
    rig.planned(&first, &[1], "0");
    first.go.await.unwrap();
    // The second target has got a process that the first job is working on.
    rig.planned(&second, &[1, 2], "1");
    let waits = rig.reaches(&b, JobState::Queued).await;
    assert!(waits.state_message.contains("process 1"), "{}", waits.state_message);
    assert!(second.go.await.is_err());
    rig.assert_no_order().await;
    rig.report(EngineReport::Ended(a, Ok(outcome(4096, None))));
    assert_eq!(rig.order().await.job, b);
    rig.kill().await;
}
