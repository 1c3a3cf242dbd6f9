//! Members of a target that come and go, and pids that later processes get.

use super::{workloads::workload, *};
use numaloc_api::value::{
    CreateSchedule, EventFilter, MemberResult, MemberState, ScheduleSpec, ScheduleState,
    ScheduleUpdate, UpdateSchedule, WorkloadId,
};
use numaloc_host::Target as HostTarget;

const MINUTE: Duration = Duration::from_secs(60);

fn containers(ids: &[&str]) -> Target {
    let containers = ids.iter().map(|id| format!("c-{id}")).collect();
    Target { containers, ..Target::default() }
}

fn of(target: Target) -> MigrationSpec {
    MigrationSpec { target, ..MigrationSpec::default() }
}

fn missing(id: &str) -> MemberResult {
    let reason = format!("cgroup /pods/{id} has no processes");
    MemberResult::left_out(containers(&[id]), MemberState::Missing, reason)
}

#[tokio::test(start_paused = true)]
async fn a_schedule_goes_on_without_the_members_that_are_gone() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    for id in ["a", "b", "c"] {
        rig.register(operator(), workload(id)).await.expect("it is taken");
    }
    let ttl_after_gone = Some(Duration::ZERO);
    let migration = of(containers(&["a", "b", "c", "d"]));
    let spec = ScheduleSpec { migration, interval: MINUTE, ttl_after_gone, ..Default::default() };
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    let id = rig.handle.create_schedule(operator(), request, Pins::new()).await;
    let id = id.expect("it is taken").id.clone();
    let probe = rig.probes.recv().await.expect("a probe");
    assert_eq!(probe.aim.members.len(), 4);
    let unknown = &probe.aim.members[3].name;
    assert_eq!(*unknown, containers(&["d"]), "nobody has registered it");
    let why = "no running container c-d".to_owned();
    let unknown = MemberResult::left_out(unknown.clone(), MemberState::Missing, why);
    let all = vec![unknown, missing("b"), missing("c")];
    let seen = FoundTarget { members: all.clone(), ..found(&[1], "0") };
    let (schedule, etag) = (probe.schedule.clone(), probe.etag.clone());
    let answer = ProbeAnswer { schedule, etag, found: Ok(seen.clone()) };
    rig.probed.send(answer).expect("the dispatcher is there");
    let order = rig.order().await;
    let job = rig.handle.get_job(order.job.clone()).await.expect("it is known");
    assert_eq!(job.members, all);
    // One member is back when the job is planned.
    let seen = FoundTarget { members: all[..2].to_vec(), ..seen };
    let planned = Planned { found: seen, ..planned(&[1], "0") };
    rig.report(EngineReport::Planned(order.job.clone(), Ok(planned)));
    order.go.await.expect("it is ordered to move");
    let ended = Ended { members: all[..2].to_vec(), ..outcome(4096, None) };
    rig.report(EngineReport::Ended(order.job.clone(), Ok(ended)));
    let job = rig.reaches(&order.job, JobState::Succeeded).await;
    assert_eq!(job.members, all[..2]);
    assert_eq!(job.state_message, "not there: container c-d, container c-b");
    let (events, _) = rig.handle.events_after(EventFilter::default(), 0, 9).await.expect("a list");
    assert_eq!(events[0].members, all[..2]);
    // Lists and the book leave the members out; the store has them.
    assert_eq!(rig.only_listed().await.members, []);
    let whole = rig.handle.get_job(order.job.clone()).await.expect("it is known");
    assert_eq!(whole.members, all[..2]);
    let known = rig.handle.get_schedule(id).await.expect("it is still there");
    assert_eq!(known.state, ScheduleState::Waiting);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_a_target_that_is_wholly_gone_is_gone() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.register(operator(), workload("a")).await.expect("it is taken");
    let spec = ScheduleSpec { migration: of(containers(&["a", "b"])), ..Default::default() };
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    let made = rig.handle.create_schedule(operator(), request, Pins::new()).await;
    let id = made.expect("it is taken").id.clone();
    let a = WorkloadId::new("a").expect("an id");
    rig.unregister(operator(), a).await.expect("it is known");
    tokio::time::sleep(2 * MINUTE).await;
    let known = rig.handle.get_schedule(id).await.expect("it is there");
    // The schedule was probed once before and got no answer, so it stays as it is.
    assert_eq!(known.state, ScheduleState::Waiting);
    let gone = rig.handle.select(containers(&["a", "b"])).await.expect("the host may have it");
    assert_eq!(gone.aim.members.len(), 2);
    rig.stop().await;
}

fn process(pid: i32, start_time: u64) -> HostTarget {
    HostTarget::Process { identity: Identity { pid, start_time }, boot_id: "b".to_owned() }
}

#[tokio::test(start_paused = true)]
async fn a_pid_means_the_process_that_had_it() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let at = |start_time| TargetProcess { pid: 7, start_time, boot_id: "b".to_owned() };
    // 8 is the id of a thread of process 7, and no process had 9.
    let target = Target { processes: [at(3)].into(), ..target(&[7, 8, 9]) };
    let pins: Pins = [(7, at(1)), (8, at(2))].into();
    let request = CreateJob { spec: of(target.clone()), ..request(&[7]) };
    let made = rig.handle.create_job(admin(), request, pins.clone(), found(&[7], "0")).await;
    let job = made.expect("it is taken").0.id.clone();
    let expected = [process(7, 1), process(7, 2), process(7, 3)];
    let aim = rig.order().await.run.aim;
    let targets: Vec<_> = aim.members.iter().map(|member| &member.target).collect();
    assert_eq!(targets, expected.each_ref());
    let missing: Vec<_> = aim.missing.iter().map(|missing| missing.member.to_string()).collect();
    assert_eq!(missing, ["process 9"]);
    // Also after a restart: the record has the processes, not only the pids.
    rig.kill().await;
    let mut rig = Rig::at(&dir);
    assert_eq!(rig.order().await.run.aim, aim);
    assert_eq!(rig.handle.get_job(job).await.expect("it is known").pins, pins);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_target_of_a_schedule_is_pinned_anew_and_an_old_one_stays() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let spec = ScheduleSpec { migration: of(target(&[1])), interval: MINUTE, ..Default::default() };
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    let made = rig.handle.create_schedule(operator(), request, pins(&[1])).await;
    let id = made.expect("it is taken").id.clone();
    let update =
        |update| UpdateSchedule { id: id.clone(), etag: None, update, validate_only: false };
    let later = ScheduleUpdate { jitter: Some(MINUTE), ..ScheduleUpdate::default() };
    let kept = rig.handle.update_schedule(operator(), update(later), Pins::new()).await;
    assert_eq!(kept.expect("it is changed").pins, pins(&[1]));
    let other = ScheduleUpdate { target: Some(target(&[2])), ..ScheduleUpdate::default() };
    let changed = rig.handle.update_schedule(operator(), update(other), pins(&[2])).await;
    assert_eq!(changed.expect("it is changed").pins, pins(&[2]));
    while let Some(probe) = rig.probes.recv().await {
        match &probe.aim.members[0].target {
            HostTarget::Process { identity, .. } if identity.pid == 2 => break,
            HostTarget::Process { identity, .. } => assert_eq!(identity.pid, 1),
            other => panic!("{other:?}"),
        }
    }
    rig.stop().await;
}
