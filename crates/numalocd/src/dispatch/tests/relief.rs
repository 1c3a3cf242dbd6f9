//! Schedules that relieve a node: the answers to their probes have its state.

use super::{
    schedules::{MINUTE, get, spec},
    *,
};
use numaloc_api::value::{
    CreateSchedule, Schedule, ScheduleSpec, ScheduleState, ScheduleUpdate, UpdateSchedule,
};
use numaloc_core::{NodeTraffic, NodeUse, Relief, ReliefBound};
use std::collections::BTreeMap;
use tokio::time::Instant;

const MIB: u64 = 1 << 20;

/// Relieves a node once a minute below 100 MiB until 200 MiB are free.
fn relieving(node: u32, to: Option<&str>) -> ScheduleSpec {
    let mut spec = spec(MINUTE);
    let options = &mut spec.migration.policy.options;
    options.to = to.map(|list| list.parse().expect("a list"));
    let bound = ReliefBound::Free { below_bytes: 100 * MIB, until_bytes: 200 * MIB };
    options.relief =
        Some(Relief { return_after: 5 * MINUTE, ..Relief::within(NodeId(node), bound) });
    spec
}

async fn create(rig: &Rig, spec: ScheduleSpec) -> Result<Arc<Schedule>, Refusal> {
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    rig.handle.create_schedule(admin(), request, pins(&[1])).await
}

/// What a probe finds with this much free memory on the node.
fn free(mib: u64) -> Result<FoundTarget, Refusal> {
    let found = if mib < 100 { found(&[1], "0") } else { FoundTarget::default() };
    let node = NodeUse { free_bytes: mib * MIB, ..NodeUse::default() };
    Ok(FoundTarget { relieved_node: Some(node), ..found })
}

impl Rig {
    /// Plays a job that moves this much.
    async fn relief_run(&mut self, moved: Ended) -> Options {
        let JobOrder { job, go, run } = self.order().await;
        self.report(EngineReport::Planned(job.clone(), Ok(planned(&[1], "0"))));
        go.await.expect("it is ordered to move");
        self.report(EngineReport::Ended(job.clone(), Ok(moved)));
        self.reaches(&job, JobState::Succeeded).await;
        run.options
    }
}

#[tokio::test(start_paused = true)]
async fn memory_leaves_if_little_is_free_and_comes_back_later() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = create(&rig, relieving(1, None)).await.expect("it is taken").id.clone();
    let probe = rig.probe().await;
    rig.answer(&probe, free(100));
    rig.assert_no_order().await;
    let waiting = get(&rig, &id).await;
    assert_eq!(
        (waiting.state, waiting.state_message.as_str()),
        (ScheduleState::Waiting, "node 1 has at least 100.0 MiB free")
    );
    assert_eq!(waiting.last_job, None, "a look makes no job");

    let probe = rig.probe().await;
    rig.answer(&probe, free(99));
    let options = rig.relief_run(outcome(128 * MIB, Some((Reason::NotNeeded, MIB)))).await;
    assert_eq!(options.relief.and_then(|relief| relief.returning_bytes), None);
    let away = get(&rig, &id).await;
    assert_eq!(away.relieved, [(NodeId(0), 128 * MIB)].into());
    assert!(away.relieved_at.is_some());
    // What is away outlives the daemon, and a change that says nothing of it.
    rig.stop().await;
    let mut rig = Rig::at(&dir);
    let update = ScheduleUpdate { jitter: Some(MINUTE / 60), ..ScheduleUpdate::default() };
    let update = UpdateSchedule { id: id.clone(), etag: None, update, validate_only: false };
    rig.handle.update_schedule(admin(), update, pins(&[1])).await.expect("it is changed");

    // The wall clock, by which it is known when memory has left, is that of the machine.
    let least = 5 * MINUTE - MINUTE / 4;
    let left = Instant::now();
    let options = loop {
        let probe = rig.probe().await;
        rig.answer(&probe, free(300));
        if left.elapsed() >= least {
            break rig.relief_run(outcome(0, None)).await;
        }
        rig.assert_no_order().await;
    };
    let relief = options.relief.expect("a relief");
    assert_eq!((relief.node, relief.returning_bytes), (NodeId(1), Some(100 * MIB)));
    assert_eq!((options.from, options.to), ("0".parse().ok(), None));
    let empty = get(&rig, &id).await;
    assert_eq!((&empty.relieved, empty.relieved_at), (&BTreeMap::new(), None));
    // Nothing came back: it has been freed.
    let probe = rig.probe().await;
    rig.answer(&probe, free(300));
    rig.assert_no_order().await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn memory_leaves_a_node_that_is_used_too_much_and_pressure_is_no_reason() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    // A run that moves nothing is not repeated for a minute.
    let mut spec = ScheduleSpec { interval: MINUTE / 4, ..relieving(1, None) };
    let bound =
        ReliefBound::Traffic { above_bytes_per_second: 80 * MIB, until_bytes_per_second: 60 * MIB };
    spec.migration.policy.options.relief = Some(Relief::within(NodeId(1), bound));
    let id = create(&rig, spec).await.expect("it is taken").id.clone();
    let used = |rate: Option<u64>| {
        let traffic = |rate| NodeTraffic { bytes_per_second: rate * MIB, is_whole: true };
        let node = NodeUse { traffic: rate.map(traffic), ..NodeUse::default() };
        Ok(FoundTarget { relieved_node: Some(node), ..FoundTarget::default() })
    };
    let waits = [
        (Some(80), "memory of node 1 is used at 80.0 MiB/s at most"),
        (None, "nothing counts how much node 1 is used"),
    ];
    for (rate, message) in waits {
        let probe = rig.probe().await;
        rig.answer(&probe, used(rate));
        rig.assert_no_order().await;
        assert_eq!(get(&rig, &id).await.state_message, message);
    }
    assert_eq!(rig.handle.awaits_pressure().await, Ok(false));
    let probe = rig.probe().await;
    rig.answer(&probe, used(Some(81)));
    rig.relief_run(outcome(0, Some((Reason::Bound, MIB)))).await;
    let probe = rig.probe().await;
    rig.answer(&probe, used(Some(81)));
    rig.assert_no_order().await;
    assert_eq!(
        get(&rig, &id).await.state_message,
        "memory of node 1 is used too much, and the last run could move none"
    );
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pressure_has_it_look_at_once_and_what_moves_nothing_waits() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    assert_eq!(rig.handle.awaits_pressure().await, Ok(false));
    create(&rig, relieving(1, None)).await.expect("it is taken");
    let probe = rig.probe().await;
    rig.answer(&probe, free(100));
    rig.assert_no_order().await;
    assert_eq!(rig.handle.awaits_pressure().await, Ok(true));
    let begin = Instant::now();
    rig.handle.on_pressure().await.expect("it is there");
    let probe = rig.probe().await;
    assert!(begin.elapsed() < MINUTE / 2, "{:?}", begin.elapsed());
    rig.answer(&probe, free(1));
    rig.relief_run(outcome(0, Some((Reason::Bound, MIB)))).await;
    rig.handle.on_pressure().await.expect("it is there");
    let probe = rig.probe().await;
    rig.answer(&probe, free(1));
    rig.assert_no_order().await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_node_is_relieved_into_one_that_is_relieved_itself() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    create(&rig, relieving(1, Some("0,2"))).await.expect("it is taken");
    let into = create(&rig, relieving(3, Some("1"))).await;
    assert_refused!(into, Refusal::HostCannot { message } if message.contains("relieves that node itself"));
    let target = create(&rig, relieving(2, Some("3"))).await;
    assert_refused!(target, Refusal::HostCannot { message } if message.contains("memory goes there by"));
    let job = CreateJob { spec: relieving(3, Some("1")).migration, ..CreateJob::default() };
    let job = rig.handle.create_job(admin(), job, pins(&[2]), found(&[2], "1")).await;
    assert_refused!(job, Refusal::HostCannot { .. });
    // Without named nodes it spares them.
    let probe = rig.probe().await;
    rig.answer(&probe, free(100));
    create(&rig, relieving(3, None)).await.expect("it is taken");
    let probe = rig.probe().await;
    assert_eq!(probe.options.relief.map(|relief| relief.spared), "1".parse().ok());
    rig.stop().await;
}
