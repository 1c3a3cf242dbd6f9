use super::*;
use crate::{dispatch::JobNow, service::watch::job::JobAnswer};
use numaloc_api::{
    encoded::FollowedJob,
    samples, v1,
    value::{Job, JobId, JobProgress, JobState, MigrationSpec},
};
use prost::Message;
use std::time::SystemTime;

/// A job whose state gives the number of its record.
fn job(state: JobState, moved_bytes: u64) -> JobNow {
    let measured = SystemTime::UNIX_EPOCH;
    let progress = JobProgress {
        planned_bytes: 1000,
        moved_bytes,
        settled_bytes: moved_bytes,
        held_back: String::new(),
        measured,
    };
    let id = JobId::numbered(1);
    let job = Job::new(id, MigrationSpec::default(), "uid:0".to_owned(), measured);
    let job = Arc::new(Job { state, ..job });
    JobNow { serial: state as u64, progress: Some(progress), ..JobNow::new(job) }
}

fn moved(answer: &JobAnswer) -> u64 {
    answer.now.progress.as_ref().unwrap().moved_bytes
}

#[tokio::test(start_paused = true)]
async fn a_job_that_has_ended_is_told_once() {
    let around = Around::new();
    let (_, ended) = watch::channel(job(JobState::Partial, 1));
    let mut answers = around.stream(JobWatch::new(ended));
    assert_eq!(answers.next().await.unwrap().unwrap().now.job.state, JobState::Partial);
    assert!(answers.next().await.is_none());
    assert_eq!(around.accounts.held(Resource::Watches), 0);
}

#[tokio::test(start_paused = true)]
async fn a_state_is_told_at_once_and_progress_ten_times_a_second() {
    let (around, sender) = (Around::new(), watch::Sender::new(job(JobState::Queued, 0)));
    let mut answers = around.stream(JobWatch::new(sender.subscribe()));
    assert_eq!(wait(&mut answers).await.1, Duration::ZERO);
    for state in [JobState::Planning, JobState::Running] {
        sender.send_replace(job(state, 0));
        let (told, after) = wait(&mut answers).await;
        assert_eq!((told.now.job.state, after), (state, Duration::ZERO));
    }
    // A second in which something changes each millisecond.
    let work = tokio::spawn(async move {
        for bytes in 1..=1000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            sender.send_replace(job(JobState::Running, bytes));
        }
        sender.send_replace(job(JobState::Succeeded, 1000));
    });
    let told: Vec<_> = answers.map(Result::unwrap).collect().await;
    work.await.unwrap();
    assert!((9..=11).contains(&told.len()), "{} answers", told.len());
    assert_eq!(told.last().unwrap().now.job.state, JobState::Succeeded);
    assert!(told.is_sorted_by_key(moved));
}

#[tokio::test(start_paused = true)]
async fn progress_ends_its_wait_with_a_new_state() {
    let (around, sender) = (Around::new(), watch::Sender::new(job(JobState::Running, 0)));
    let mut answers = around.stream(JobWatch::new(sender.subscribe()));
    wait(&mut answers).await;
    sender.send_replace(job(JobState::Running, 1));
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(30)).await;
        sender.send_replace(job(JobState::Paused, 2));
        std::future::pending::<()>().await;
    });
    let (told, after) = wait(&mut answers).await;
    assert_eq!((told.now.job.state, after), (JobState::Paused, Duration::from_millis(30)));
    assert!(is_silent(&mut answers).await);
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_misses_progress_and_not_the_end() {
    let (around, sender) = (Around::new(), watch::Sender::new(job(JobState::Running, 0)));
    let mut answers = around.stream(JobWatch::new(sender.subscribe()));
    assert_eq!(moved(&wait(&mut answers).await.0), 0);
    for bytes in 1..1000 {
        sender.send_replace(job(JobState::Running, bytes));
    }
    assert_eq!(moved(&wait(&mut answers).await.0), 999);
    sender.send_replace(job(JobState::Running, 1000));
    sender.send_replace(job(JobState::Succeeded, 1000));
    drop(sender);
    let (last, after) = wait(&mut answers).await;
    assert_eq!((last.now.job.state, after), (JobState::Succeeded, Duration::ZERO));
    assert!(answers.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_job_without_dispatcher_is_unavailable() {
    let (around, sender) = (Around::new(), watch::Sender::new(job(JobState::Running, 0)));
    let mut answers = around.stream(JobWatch::new(sender.subscribe()));
    wait(&mut answers).await;
    sender.send_replace(job(JobState::Running, 7));
    drop(sender);
    // The last change comes before the end.
    assert_eq!(moved(&wait(&mut answers).await.0), 7);
    assert_eq!(end(&mut answers).await, Code::Unavailable);
    assert_eq!(around.accounts.held(Resource::Watches), 0);
}

/// A job on 4,000 processes: its record has a megabyte, which is not sent ten times a second.
#[tokio::test(start_paused = true)]
async fn progress_is_small_and_each_state_is_whole() {
    let around = Around::new();
    let member = samples::job().members[0].clone();
    let record = Job { members: vec![member; 4000], state: JobState::Running, ..samples::job() };
    let (sender, receiver) = watch::channel(JobNow::new(Arc::new(record.clone())));
    let mut answers = around.stream(JobWatch::new(receiver));
    let next = async |answers: &mut _| {
        let answer = FollowedJob::from(wait(answers).await.0);
        v1::WatchJobResponse::decode(&*answer.encode_to_vec()).unwrap()
    };
    let first = next(&mut answers).await;
    assert!(!first.is_progress && first.job.as_ref().unwrap().members.len() == 4000);
    let progress = |moved_bytes| JobProgress { moved_bytes, ..record.progress.clone().unwrap() };
    let mut bytes = 0;
    for moved_bytes in 1..=10 {
        sender.send_modify(|now| now.progress = Some(progress(moved_bytes)));
        let answer = next(&mut answers).await;
        let job = answer.job.as_ref().unwrap();
        assert!(answer.is_progress && job.members.is_empty() && job.spec.is_none());
        assert_eq!(
            (job.name.as_str(), job.state()),
            (first.job.as_ref().unwrap().name.as_str(), v1::JobState::Running)
        );
        let moved = job.progress.as_ref().unwrap().moved_bytes;
        assert_eq!(moved, i64::try_from(moved_bytes).unwrap());
        bytes += answer.encoded_len();
    }
    let whole = first.encoded_len();
    assert!(whole > 1 << 20, "{whole}");
    assert!(bytes < 10 * 512, "{bytes} bytes for ten answers, and {whole} for a whole one");
    let ended = Job { state: JobState::Succeeded, ..record };
    sender.send_modify(|now| now.replace(Arc::new(ended)));
    let last = next(&mut answers).await;
    assert!(!last.is_progress && last.job.unwrap().members.len() == 4000);
}
