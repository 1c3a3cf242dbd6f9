//! Requests that join a job, and their repeats.

use super::*;

fn join(pids: &[i32], request_id: &str) -> CreateJob {
    let (on_conflict, request_id) = (OnConflict::Join, Some(request_id.to_owned()));
    CreateJob { on_conflict, request_id, ..request(pids) }
}

async fn create(rig: &Rig, request: CreateJob) -> Result<(Arc<Job>, bool), Refusal> {
    rig.handle.create_job(operator(), request, pins(&[2]), found(&[2], "0")).await
}

/// The job that a repeat returns, which is looked for before the target is.
async fn repeated(rig: &Rig, request: CreateJob) -> Result<Option<JobId>, Refusal> {
    let known = rig.handle.find_request(operator(), request).await?;
    Ok(known.map(|job| job.id.clone()))
}

#[tokio::test(start_paused = true)]
async fn a_repeat_gives_back_the_joined_job_after_its_end_and_a_restart() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _) = rig.moving(&[1, 2], "0").await;
    let (joined, existing) = create(&rig, join(&[2], "r")).await.expect("it is joined");
    assert_eq!((&joined.id, existing, joined.joined.len()), (&id, true, 1));
    assert!(joined.progress.is_some(), "with its progress");
    // A repeat changes nothing.
    assert_eq!(repeated(&rig, join(&[2], "r")).await, Ok(Some(id.clone())));
    // The job of the record that the run continues with is the same.
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
    rig.reaches(&id, JobState::Succeeded).await;
    for _ in 0..2 {
        assert_eq!(repeated(&rig, join(&[2], "r")).await, Ok(Some(id.clone())));
        let (again, existing) = create(&rig, join(&[2], "r")).await.expect("it is known");
        assert_eq!((&again.id, existing), (&id, true), "no second migration");
        // Another request with this id, and another client with this request.
        let refused = repeated(&rig, join(&[3], "r")).await;
        assert_refused!(refused, Refusal::AlreadyExists { name, .. } if name == id.to_string());
        let others = rig.handle.find_request(admin(), join(&[2], "r")).await;
        assert_eq!(others.expect("no answer is no error"), None);
        rig.stop().await;
        rig = Rig::at(&dir);
    }
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_only_checked_and_what_has_no_id_leaves_no_trace() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _) = rig.moving(&[1, 2], "0").await;
    let checked = CreateJob { validate_only: true, ..join(&[2], "r") };
    let unnamed = CreateJob { request_id: None, ..join(&[2], "r") };
    for request in [checked, unnamed] {
        let (joined, existing) = create(&rig, request).await.expect("it is joined");
        assert_eq!((&joined.id, existing, joined.joined.len()), (&id, true, 0));
    }
    assert_eq!(repeated(&rig, join(&[2], "r")).await, Ok(None));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_those_that_join_the_last_are_known() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _) = rig.moving(&[1, 2], "0").await;
    for number in 0..=Job::JOINED {
        create(&rig, join(&[2], &format!("r-{number}"))).await.expect("it is joined");
    }
    assert_eq!(rig.handle.get_job(id.clone()).await.unwrap().joined.len(), Job::JOINED);
    assert_eq!(repeated(&rig, join(&[2], "r-0")).await, Ok(None));
    assert_eq!(repeated(&rig, join(&[2], "r-1")).await, Ok(Some(id)));
    rig.stop().await;
}
