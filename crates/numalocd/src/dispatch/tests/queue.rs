//! Whose turn it is.

use super::*;
use crate::{
    config::Queue,
    dispatch::queue::{Active, Waiting, next, preempted},
};
use numaloc_api::value::QosClass;
use proptest::prelude::*;
use std::collections::BTreeSet;

const WIDE: Queue = Queue { moves: 100, moves_per_node: 1, rate_bytes_per_second: None };

#[test]
fn classes_come_in_order_and_then_age() {
    let at = |number, qos_class| Waiting { number, qos_class, turn: 0, found: None };
    let waiting =
        vec![at(1, QosClass::Be), at(2, QosClass::Ls), at(3, QosClass::Lsr), at(4, QosClass::Ls)];
    assert_eq!(next(waiting, [], &WIDE), [3, 2, 4, 1]);
}

#[test]
fn owners_take_turns() {
    let at = |number, turn| Waiting { number, qos_class: QosClass::Ls, turn, found: None };
    // One owner has asked for 1 to 3, another for 4 and 5; then with a job of the first one under way.
    let all = vec![at(1, 0), at(2, 1), at(3, 2), at(4, 0), at(5, 1)];
    assert_eq!(next(all, [], &WIDE), [1, 4, 2, 5, 3]);
    let all = vec![at(1, 1), at(2, 2), at(3, 3), at(4, 0), at(5, 1)];
    assert_eq!(next(all, [], &WIDE), [4, 1, 5, 2, 3]);
}

#[test]
fn best_effort_goes_back_for_what_waits_for_it_and_for_nothing_else() {
    let limits = |moves| Queue { moves, ..Queue::default() };
    let (zero, one, other) = (found(&[1], "0"), found(&[2], "1"), found(&[3], "0"));
    let active = |number, qos_class, found| Active { number, qos_class, found };
    let waits = |qos_class, found| [Waiting { number: 9, qos_class, turn: 0, found }];
    let (be, ls, lsr) = (QosClass::Be, QosClass::Ls, QosClass::Lsr);
    let both = [active(1, be, &zero), active(2, be, &one)];
    // A node, a place (the youngest goes), nothing.
    assert_eq!(preempted(&waits(lsr, Some(&other)), &both, &limits(9)), [1]);
    assert_eq!(preempted(&waits(lsr, Some(&other)), &both, &limits(2)), [1]);
    assert_eq!(preempted(&waits(ls, None), &both, &limits(2)), [2]);
    assert_eq!(preempted(&waits(ls, None), &both, &limits(3)), [0; 0]);
    assert_eq!(preempted(&waits(be, Some(&other)), &both, &limits(2)), [0; 0]);
    assert_eq!(preempted(&[], &both, &limits(1)), [0; 0]);
    // What another class has is waited for: nobody else has to go for that.
    let mixed = [active(1, ls, &zero), active(2, be, &one)];
    assert_eq!(preempted(&waits(lsr, Some(&other)), &mixed, &limits(2)), [0; 0]);
}

#[test]
fn an_earlier_job_is_not_passed_over_for_ever() {
    let (busy, both, one, free) =
        (found(&[1], "0"), found(&[2], "0-1"), found(&[3], "1"), found(&[4], "2"));
    let waiting = [(2, &both), (3, &one), (4, &free)].map(|(number, found)| Waiting {
        number,
        qos_class: QosClass::Ls,
        turn: 0,
        found: Some(found),
    });
    // 3 would keep 2 from node 1; 4 is in nobody's way.
    assert_eq!(next(waiting.to_vec(), [&busy], &WIDE), [4]);
    assert_eq!(next(waiting.to_vec(), [], &WIDE), [2, 4]);
}

proptest! {
    #[test]
    fn what_starts_is_in_nobodys_way(
        jobs in prop::collection::vec((prop::collection::vec(1..8_i32, 1..3), 0..4_u32, 0..3_usize), 0..12),
        active in prop::collection::vec((8..12_i32, 0..4_u32), 0..2),
        moves in 0..5_usize,
        moves_per_node in 1..3_usize,
    ) {
        let limits = Queue { moves, moves_per_node, ..Queue::default() };
        let active: Vec<Found> =
            active.iter().map(|(pid, node)| found(&[*pid], &node.to_string())).collect();
        let found: Vec<Found> =
            jobs.iter().map(|(pids, node, _)| found(pids, &node.to_string())).collect();
        let classes = [QosClass::Lsr, QosClass::Ls, QosClass::Be];
        let waiting: Vec<Waiting<'_>> = found.iter().zip(&jobs).zip(0..).map(|((found, job), number)| {
            Waiting { number, qos_class: classes[job.2], turn: 0, found: Some(found) }
        }).collect();
        let started = next(waiting.clone(), &active, &limits);
        prop_assert!(started.is_empty() || started.len() + active.len() <= moves);
        let at_work: Vec<&Found> =
            active.iter().chain(started.iter().map(|&number| &found[number as usize])).collect();
        for (index, one) in at_work.iter().enumerate() {
            for other in &at_work[index + 1..] {
                let both = active.contains(one) && active.contains(other);
                prop_assert!(both || one.processes.is_disjoint(&other.processes));
            }
        }
        for node in 0..4 {
            let on = |found: &&&Found| found.nodes.contains(NodeId(node));
            let before = active.iter().collect::<Vec<_>>().iter().filter(|found| on(found)).count();
            prop_assert!(at_work.iter().filter(on).count() <= moves_per_node.max(before));
        }
        // The first in order that can start does.
        if moves > active.len() && !waiting.is_empty() {
            let first = waiting.iter().min_by_key(|job| (job.qos_class, job.number)).unwrap();
            let alone = next(vec![first.clone()], &active, &limits);
            prop_assert!(alone.iter().all(|number| started.contains(number)));
        }
    }
}

proptest! {
    #[test]
    fn everyone_gets_a_turn_and_nobody_is_passed_over(
        jobs in prop::collection::vec((1..40_i32, prop::collection::vec(0..4_u32, 1..3), 0..3_usize), 1..60),
        ends in prop::collection::vec(any::<prop::sample::Index>(), 60),
        moves in 1..5_usize,
    ) {
        let limits = Queue { moves, moves_per_node: 1, rate_bytes_per_second: None };
        let classes = [QosClass::Lsr, QosClass::Ls, QosClass::Be];
        let found: Vec<Found> = jobs.iter().map(|(pid, nodes, _)| {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            found(&[*pid], &nodes.join(","))
        }).collect();
        let class = |number: u64| classes[jobs[number as usize].2];
        let waiting = |number: u64| Waiting { number, qos_class: class(number), turn: 0, found: Some(&found[number as usize]) };
        let mut queued: BTreeSet<u64> = (0..jobs.len() as u64).collect();
        let mut active: Vec<u64> = Vec::new();
        // Jobs end in any order, one after the other.
        for end in &ends[..jobs.len()] {
            let at_work: Vec<&Found> = active.iter().map(|&number| &found[number as usize]).collect();
            for number in next(queued.iter().map(|&number| waiting(number)).collect(), at_work, &limits) {
                queued.remove(&number);
                active.push(number);
                for &other in queued.iter().filter(|&&other| (class(other), other) < (class(number), number)) {
                    let (one, other) = (&found[number as usize], &found[other as usize]);
                    prop_assert!(!one.nodes.intersects(&other.nodes) && one.processes.is_disjoint(&other.processes));
                }
            }
            prop_assert!(!active.is_empty(), "{queued:?} wait and nothing moves");
            active.swap_remove(end.index(active.len()));
        }
        prop_assert!(queued.is_empty() && active.is_empty());
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
    let queue = Queue { moves: 8, moves_per_node: 2, ..Queue::default() };
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
    // It has grown a process that the other job is at work on.
    rig.planned(&second, &[1, 2], "1");
    let waits = rig.reaches(&b, JobState::Queued).await;
    assert!(waits.state_message.contains("process 1"), "{}", waits.state_message);
    assert!(second.go.await.is_err());
    rig.assert_no_order().await;
    rig.report(Report::Ended(a, Ok(outcome(4096, None))));
    assert_eq!(rig.order().await.job, b);
    rig.kill().await;
}
