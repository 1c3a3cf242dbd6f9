//! Jobs that clients delete, and what their schedules and events keep of them.

use super::*;
use numaloc_api::value::{DeleteJob, EventFilter, RunSchedule};

fn of(id: &JobId) -> DeleteJob {
    DeleteJob { id: id.clone(), allow_missing: false, validate_only: false }
}

fn named(pid: i32) -> CreateJob {
    let request_id = Some("r".to_owned());
    CreateJob { id: JobId::new("nightly"), request_id, ..request(&[pid]) }
}

/// A job of `operator` under a chosen id and with a request_id. Whether it is new.
async fn make(rig: &Rig, pid: i32) -> Result<(JobId, bool), Refusal> {
    let made = rig.handle.create_job(operator(), named(pid), pins(&[pid]), found(&[pid], "0"));
    made.await.map(|(job, existing)| (job.id.clone(), !existing))
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_frees_its_id_and_its_request() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _) = make(&rig, 1).await.expect("it is taken");
    let order = rig.order().await;
    let open = rig.handle.delete_job(operator(), of(&id)).await;
    assert_refused!(open, Refusal::NotEnded { name, state } if name == "jobs/nightly" && state == "PLANNING");
    rig.planned(&order, &[1], "0");
    told(order).await;
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
    rig.reaches(&id, JobState::Succeeded).await;
    // Until it is deleted, the request is known and its id is taken.
    assert_eq!(make(&rig, 1).await, Ok((id.clone(), false)));
    assert_refused!(make(&rig, 2).await, Refusal::AlreadyExists { .. });
    let only = DeleteJob { validate_only: true, ..of(&id) };
    rig.handle.delete_job(operator(), only).await.expect("it could be deleted");
    rig.handle.get_job(id.clone()).await.expect("it was only asked");
    rig.handle.delete_job(operator(), of(&id)).await.expect("it has ended");
    assert_refused!(rig.handle.get_job(id.clone()).await, Refusal::NotFound { .. });
    assert_refused!(rig.handle.delete_job(operator(), of(&id)).await, Refusal::NotFound { .. });
    let again = DeleteJob { allow_missing: true, ..of(&id) };
    assert_eq!(rig.handle.delete_job(operator(), again).await, Ok(()));
    // Events of the deleted job are still reported.
    let filter = EventFilter { job: Some(id.clone()), ..EventFilter::default() };
    let (events, _) = rig.handle.events_after(filter, 0, 10).await.expect("events");
    assert_eq!(events.len(), 1);
    // It stays deleted, and its number is not given again.
    rig.kill().await;
    let rig = Rig::at(&dir);
    assert_refused!(rig.handle.get_job(id.clone()).await, Refusal::NotFound { .. });
    let (made, is_new) = make(&rig, 2).await.expect("id and request_id are free");
    assert!(is_new && made == id && made.number() == Some(2), "{made:?}");
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn others_may_not_delete_a_job() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _) = make(&rig, 1).await.expect("it is taken");
    rig.handle.cancel_job(operator(), id.clone()).await.expect("it has not ended");
    let order = rig.order().await;
    rig.report(EngineReport::Planned(
        order.job,
        Err(Refusal::TargetEmpty { message: "gone".into() }),
    ));
    rig.reaches(&id, JobState::Cancelled).await;
    let stranger = caller("uid:1001", Role::Operator);
    let refused = rig.handle.delete_job(stranger, of(&id)).await;
    assert_refused!(refused, Refusal::NotPermitted { message } if message.contains("belongs to uid:1000"));
    assert_eq!(rig.handle.delete_job(admin(), of(&id)).await, Ok(()));
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn the_runs_of_a_schedule_belong_to_its_owner() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let schedule = super::schedules::schedule(&rig, super::schedules::spec(Duration::ZERO)).await;
    let run = rig.run(outcome(4096, None)).await;
    rig.reaches(&run, JobState::Succeeded).await;
    assert_eq!(rig.handle.delete_job(operator(), of(&run)).await, Ok(()));
    // The schedule runs as before.
    let asked = RunSchedule { id: schedule.clone(), request_id: None };
    let handle = rig.handle.clone();
    let asked = tokio::spawn(async move { handle.run_schedule(operator(), asked).await });
    let next = rig.run(outcome(4096, None)).await;
    let (job, existing) = asked.await.expect("no panic").expect("it runs");
    assert!(job.id == next && !existing && next != run);
    rig.kill().await;
}

/// A deletion that cannot be stored has not happened, nor has what would have taken its place.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_cannot_be_stored_leaves_the_job() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _) = make(&rig, 1).await.expect("it is taken");
    let order = rig.order().await;
    rig.planned(&order, &[1], "0");
    told(order).await;
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
    rig.reaches(&id, JobState::Succeeded).await;
    let before = rig.handle.get_job(id.clone()).await.expect("it is known");
    let listed = rig.only_listed().await;
    (rig.fail)(DiskFault { after: 0, takes_effect: false, errno: nix::libc::ENOSPC });
    let (deleted, made) = tokio::join!(rig.handle.delete_job(operator(), of(&id)), make(&rig, 2));
    assert_refused!(deleted, Refusal::StoreFull { .. });
    assert_refused!(made, Refusal::StoreFull { .. });
    assert_eq!(rig.handle.get_job(id.clone()).await.expect("it is still there"), before);
    assert_eq!(rig.only_listed().await, listed);
    assert_eq!(make(&rig, 1).await, Ok((id.clone(), false)), "its request is still known");
    assert_eq!(rig.handle.delete_job(operator(), of(&id)).await, Ok(()));
    rig.kill().await;
}
