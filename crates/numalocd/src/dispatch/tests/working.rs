//! Jobs that live views show on processes.

use super::*;
use numaloc_api::WorkingJob;

const UP: Duration = Duration::from_secs(3600);

async fn working(rig: &Rig, up: Duration) -> Vec<WorkingJob> {
    rig.handle.live_work(up).await.expect("an answer").jobs
}

/// The names, states and moved bytes of jobs, and the pids of their processes.
fn shown(jobs: &[WorkingJob]) -> Vec<(String, JobState, u64, Vec<i32>)> {
    let pids = |job: &WorkingJob| job.processes.iter().map(|process| process.pid).collect();
    jobs.iter()
        .map(|job| (job.id.clone().unwrap().to_string(), job.state, job.moved_bytes, pids(job)))
        .collect()
}

/// A request whose target names no process and no cgroup.
fn by(target: Target) -> CreateJob {
    let spec = MigrationSpec { target, ..MigrationSpec::default() };
    CreateJob { spec, ..CreateJob::default() }
}

#[tokio::test(start_paused = true)]
async fn a_job_is_on_the_processes_that_its_target_stands_for() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let names = |name: &str| [name.to_owned()].into();
    for target in [
        Target { containers: names("db"), ..Target::default() },
        Target { pods: names("6f1e-41"), ..Target::default() },
        Target { virtual_machines: names("vm1"), ..Target::default() },
        Target { container_labels: names("app=db"), ..Target::default() },
        Target { cgroups: names("/kubepods.slice/*"), ..Target::default() },
        Target { units: names("db.service"), ..Target::default() },
    ] {
        let found = found(&[7, 8], "0");
        let made = rig.handle.create_job(admin(), by(target.clone()), pins(&[]), found).await;
        let id = made.unwrap_or_else(|refusal| panic!("{target:?}: {refusal}")).0.id.clone();
        let order = rig.order().await;
        let before = working(&rig, UP).await;
        let open: Vec<_> = before.iter().filter(|job| !job.state.is_end()).cloned().collect();
        assert_eq!(shown(&open), [(id.to_string(), JobState::Planning, 0, vec![7, 8])]);
        // The plan knows more.
        rig.planned(&order, &[7, 8, 9], "0");
        let control = told(order).await;
        rig.reaches(&id, JobState::Running).await;
        control.moved_bytes.store(4096, Relaxed);
        let moving = working(&rig, UP).await;
        assert_eq!(shown(&moving[..1]), [(id.to_string(), JobState::Running, 4096, vec![7, 8, 9])]);
        assert_eq!(moving[0].progress.as_ref().map(|progress| progress.moved_bytes), Some(4096));
        rig.report(EngineReport::Ended(id.clone(), Ok(outcome(8192, None))));
        rig.reaches(&id, JobState::Succeeded).await;
        let after = working(&rig, UP).await;
        let ended = after.last().expect("it is remembered");
        let expected = (id.to_string(), JobState::Succeeded, 8192, vec![7, 8, 9]);
        assert_eq!(shown(std::slice::from_ref(ended)), [expected]);
    }
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn those_that_move_come_first_and_what_ended_is_shown_for_a_while() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let waiting = rig.create(&[1], "0").await;
    let order = rig.order().await;
    let (moving, _) = rig.moving(&[2], "1").await;
    let seen = working(&rig, UP).await;
    let names: Vec<_> = seen.into_iter().filter_map(|job| job.id).collect();
    assert_eq!(names, [moving.clone(), waiting.clone()]);
    rig.report(EngineReport::Ended(moving.clone(), Ok(outcome(4096, None))));
    rig.reaches(&moving, JobState::Succeeded).await;
    // It has moved nothing.
    rig.handle.cancel_job(admin(), waiting.clone()).await.expect("it is cancelled");
    drop(order);
    tokio::time::advance(Duration::from_secs(10)).await;
    let ended = |jobs: Vec<WorkingJob>| jobs.into_iter().filter(|job| job.state.is_end()).count();
    assert_eq!(ended(working(&rig, Duration::from_secs(20)).await), 1);
    assert_eq!(ended(working(&rig, Duration::from_secs(5)).await), 0, "before the look began");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_ended_jobs_few_are_remembered() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let many: Vec<i32> = (1..=30_000).collect();
    for _ in 0..4 {
        let (id, _) = rig.moving(&many, "0").await;
        rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
        rig.reaches(&id, JobState::Succeeded).await;
    }
    let remembered = working(&rig, UP).await;
    assert_eq!(remembered.len(), 2, "65,536 processes at most");
    assert_eq!(remembered[1].id, Some(JobId::numbered(4)));
    rig.stop().await;
}
