//! Watches of all jobs and schedules, of a real dispatcher.

use super::*;
use crate::{
    config::Config,
    dispatch::{
        Hold, RecordChange,
        tests::{Rig, admin, assert_refused, dir, found, operator, outcome, pins, request, target},
    },
    order::EngineReport,
};
use numaloc_api::{
    encoded::ListedJob,
    v1,
    value::{
        CreateSchedule, DeleteJob, DeleteSchedule, Job, JobFilter, JobId, JobState, MigrationSpec,
        Pins, Schedule, ScheduleFilter, ScheduleId, ScheduleSpec, ScheduleUpdate, UpdateSchedule,
        WatchOf, Workload,
    },
};
use prost::Message;
use std::{fmt::Display, sync::atomic::Ordering::Relaxed};
use tempfile::TempDir;
use tokio::time::{sleep, timeout_at};

type Told<T, K> = BoxStream<(RecordChange<T, K>, String)>;

trait ShownRecord {
    fn shown(&self) -> String;
}

impl ShownRecord for ListedJob {
    fn shown(&self) -> String {
        let job = read(self);
        format!("{} {}", job.name, job.state().as_str_name().trim_start_matches("JOB_STATE_"))
    }
}

impl ShownRecord for Arc<Schedule> {
    fn shown(&self) -> String {
        format!("{} {}", self.id, self.state.name())
    }
}

fn read(job: &ListedJob) -> v1::Job {
    v1::Job::decode(job.as_ref()).expect("a message")
}

/// A dispatcher that lets no move begin: its jobs stay queued.
async fn drained(dir: &TempDir, config: Config) -> Rig {
    let rig = Rig::with(dir, config);
    rig.handle.set_hold(admin(), Hold::Drain, true).await.expect("it is stored");
    rig
}

/// All jobs that a filter lets through and their changes, or what has become of them after a token.
async fn jobs(
    around: &Around,
    rig: &Rig,
    filter: JobFilter,
    token: Option<&str>,
) -> Told<ListedJob, JobId> {
    let asked = WatchOf { filter, resume_token: token.map(str::to_owned) };
    let watch = records::<Job>(rig.handle.clone(), asked).await;
    around.stream(watch.expect("the token is known"))
}

async fn schedules(
    around: &Around,
    rig: &Rig,
    filter: ScheduleFilter,
) -> Told<Arc<Schedule>, ScheduleId> {
    let watch = records::<Schedule>(rig.handle.clone(), WatchOf { filter, resume_token: None });
    around.stream(watch.await.expect("there is no token"))
}

/// The next changes in short, and the token of the last.
async fn told<T: ShownRecord, K: Display>(
    answers: &mut Told<T, K>,
    count: usize,
) -> (Vec<String>, String) {
    let (mut told, mut last) = (Vec::new(), String::new());
    for _ in 0..count {
        let (change, token) = answers.next().await.expect("no end").expect("no error");
        told.push(match change {
            RecordChange::Present(record) => format!("+{}", record.shown()),
            RecordChange::Removed(id) => format!("-{id}"),
            RecordChange::CaughtUp => "all".to_owned(),
        });
        last = token;
    }
    (told, last)
}

/// The next answer, which is about an existing job.
async fn next_job(answers: &mut Told<ListedJob, JobId>) -> v1::Job {
    match answers.next().await.expect("no end").expect("no error").0 {
        RecordChange::Present(job) => read(&job),
        other => panic!("{other:?}"),
    }
}

async fn assert_quiet<T, K>(answers: &mut Told<T, K>) {
    let more = timeout(Duration::from_secs(60), answers.next()).await;
    assert!(more.is_err(), "nothing has changed");
}

async fn cancel(rig: &Rig, id: &JobId) {
    rig.handle.cancel_job(admin(), id.clone()).await.expect("it has not ended");
}

#[tokio::test(start_paused = true)]
async fn jobs_come_first_and_then_each_change_once_and_in_order() {
    let (dir, around) = (dir(), Around::new());
    let rig = drained(&dir, Config::default()).await;
    let (one, two) = (rig.create(&[1], "0").await, rig.create(&[2], "0").await);
    let mut answers = jobs(&around, &rig, JobFilter::default(), None).await;
    let list = ["+jobs/1 QUEUED", "+jobs/2 QUEUED", "all"];
    assert_eq!(told(&mut answers, 3).await.0, list);
    rig.create(&[3], "0").await;
    assert_eq!(told(&mut answers, 1).await.0, ["+jobs/3 QUEUED"]);
    for id in [&two, &one] {
        cancel(&rig, id).await;
    }
    assert_eq!(told(&mut answers, 2).await.0, ["+jobs/2 CANCELLED", "+jobs/1 CANCELLED"]);
    assert_quiet(&mut answers).await;
    rig.kill().await;
    assert_eq!(end(&mut answers).await, Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_is_told_as_removed() {
    let (dir, around) = (dir(), Around::new());
    let rig = drained(&dir, Config::default()).await;
    let one = rig.create(&[1], "0").await;
    cancel(&rig, &one).await;
    let mut answers = jobs(&around, &rig, JobFilter::default(), None).await;
    assert_eq!(told(&mut answers, 2).await.0, ["+jobs/1 CANCELLED", "all"]);
    let delete = DeleteJob { id: one, allow_missing: false, validate_only: false };
    rig.handle.delete_job(admin(), delete).await.expect("it has ended");
    assert_eq!(told(&mut answers, 1).await.0, ["-jobs/1"]);
    assert_quiet(&mut answers).await;
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_it_was() {
    let (dir, around) = (dir(), Around::new());
    let rig = drained(&dir, Config::default()).await;
    let one = rig.create(&[1], "0").await;
    rig.create(&[2], "0").await;
    let mut answers = jobs(&around, &rig, JobFilter::default(), None).await;
    let (first, token) = told(&mut answers, 1).await;
    assert_eq!(first, ["+jobs/1 QUEUED"]);
    drop(answers);
    rig.create(&[3], "0").await;
    cancel(&rig, &one).await;
    let mut answers = jobs(&around, &rig, JobFilter::default(), Some(&token)).await;
    let (rest, token) = told(&mut answers, 4).await;
    assert_eq!(rest, ["+jobs/2 QUEUED", "+jobs/3 QUEUED", "+jobs/1 CANCELLED", "all"]);
    let mut answers = jobs(&around, &rig, JobFilter::default(), Some(&token)).await;
    assert_eq!(told(&mut answers, 1).await.0, ["all"], "nothing is told twice");
    // A token is known only to the daemon that gave it, and only for the kind of record that it was given for.
    let resumed = rig.handle.begin_watch::<Schedule>(Some(token.clone())).await;
    assert_refused!(resumed, Refusal::ResumeToken);
    let resumed = rig.handle.begin_watch::<Workload>(Some(token.clone())).await;
    assert_refused!(resumed, Refusal::ResumeToken);
    rig.kill().await;
    let rig = Rig::at(&dir);
    let resumed = rig.handle.begin_watch::<Job>(Some(token)).await;
    let refusal = resumed.expect_err("the daemon has started again").to_string();
    assert!(refusal.ends_with("watch again without it"), "{refusal}");
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_is_told_the_newest_state_once() {
    let (dir, around) = (dir(), Around::new());
    let mut rig = Rig::at(&dir);
    let (id, control) = rig.moving(&[1], "0").await;
    let mut answers = jobs(&around, &rig, JobFilter::default(), None).await;
    assert_eq!(told(&mut answers, 2).await.0, ["+jobs/1 RUNNING", "all"]);
    for settled in 1..=100 {
        control.settled_bytes.store(settled, Relaxed);
        sleep(Duration::from_secs(2)).await;
    }
    let settled = next_job(&mut answers).await.progress.map(|progress| progress.settled_bytes);
    assert_eq!(settled, Some(100));
    assert_quiet(&mut answers).await;
    rig.report(EngineReport::Ended(id, Ok(outcome(4096, None))));
    assert_eq!(told(&mut answers, 1).await.0, ["+jobs/1 SUCCEEDED"]);
    assert_quiet(&mut answers).await;
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_at_most_once_a_second() {
    let (dir, around) = (dir(), Around::new());
    let mut rig = Rig::at(&dir);
    let (_, control) = rig.moving(&[1], "0").await;
    let mut answers = jobs(&around, &rig, JobFilter::default(), None).await;
    told(&mut answers, 2).await;
    let mut count = 0;
    for settled in 1..=100 {
        control.settled_bytes.store(settled, Relaxed);
        let until = Instant::now() + Duration::from_millis(100);
        while let Ok(answer) = timeout_at(until, answers.next()).await {
            answer.expect("no end").expect("no error");
            count += 1;
        }
    }
    assert!((8..=11).contains(&count), "{count} in 10 s");
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_filter_hides_others() {
    let (dir, around) = (dir(), Around::new());
    let mut rig = Rig::at(&dir);
    let (_, control) = rig.moving(&[1], "0").await;
    let queued = JobFilter { states: vec![JobState::Queued], ..JobFilter::default() };
    let of_operator = JobFilter { creator: Some(operator().name), ..JobFilter::default() };
    let mut answers = jobs(&around, &rig, queued, None).await;
    let mut own = jobs(&around, &rig, of_operator, None).await;
    assert_eq!(told(&mut answers, 1).await.0, ["all"]);
    assert_eq!(told(&mut own, 1).await.0, ["all"]);
    control.settled_bytes.store(1, Relaxed);
    assert_quiet(&mut answers).await;
    rig.handle.set_hold(admin(), Hold::Drain, true).await.expect("it is stored");
    let two = rig.create(&[2], "0").await;
    assert_eq!(told(&mut answers, 1).await.0, ["+jobs/2 QUEUED"]);
    cancel(&rig, &two).await;
    assert_eq!(told(&mut answers, 1).await.0, ["-jobs/2"], "it is none of them any more");
    // A job that can never have been among them is not reported at all.
    assert_quiet(&mut own).await;
    let made = rig.handle.create_job(operator(), request(&[3]), pins(&[3]), found(&[3], "0"));
    made.await.expect("it is taken");
    assert_eq!(told(&mut own, 1).await.0, ["+jobs/3 QUEUED"]);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_forgotten_is_told_as_removed() {
    let (dir, around) = (dir(), Around::new());
    let mut config = Config::default();
    config.retention.jobs = 1;
    let rig = drained(&dir, config).await;
    let (one, two) = (rig.create(&[1], "0").await, rig.create(&[2], "0").await);
    let mut answers = jobs(&around, &rig, JobFilter::default(), None).await;
    told(&mut answers, 3).await;
    for id in [&one, &two] {
        cancel(&rig, id).await;
    }
    told(&mut answers, 2).await;
    assert_eq!(told(&mut answers, 1).await.0, ["-jobs/1"]);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn queued_jobs_are_told_again_when_something_else_holds_them() {
    let (dir, around) = (dir(), Around::new());
    let rig = drained(&dir, Config::default()).await;
    rig.create(&[1], "0").await;
    let mut answers = jobs(&around, &rig, JobFilter::default(), None).await;
    let drained = next_job(&mut answers).await.state_message;
    assert!(drained.contains("drained"), "{drained}");
    told(&mut answers, 1).await;
    rig.handle.set_hold(admin(), Hold::Pause, true).await.expect("it is stored");
    let paused = next_job(&mut answers).await.state_message;
    assert!(paused.contains("paused"), "{paused}");
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn schedules_are_told_from_first_to_last() {
    let (dir, around) = (dir(), Around::new());
    let rig = Rig::at(&dir);
    let create = |label: &str| {
        let migration = MigrationSpec { target: target(&[1]), ..MigrationSpec::default() };
        let labels = [("team".to_owned(), label.to_owned())].into();
        let interval = Duration::from_secs(60);
        let spec = ScheduleSpec { migration, labels, interval, paused: true, ..Default::default() };
        let request = CreateSchedule { spec, ..CreateSchedule::default() };
        rig.handle.create_schedule(admin(), request, pins(&[1]))
    };
    let id = create("a").await.expect("it is taken").id.clone();
    let labels = [("team".to_owned(), "b".to_owned())].into();
    let of_b = ScheduleFilter { labels, ..ScheduleFilter::default() };
    let mut all = schedules(&around, &rig, ScheduleFilter::default()).await;
    let mut some = schedules(&around, &rig, of_b).await;
    assert_eq!(told(&mut all, 2).await.0, ["+schedules/1 PAUSED", "all"]);
    assert_eq!(told(&mut some, 1).await.0, ["all"]);
    create("b").await.expect("it is taken");
    assert_eq!(told(&mut all, 1).await.0, ["+schedules/2 PAUSED"]);
    assert_eq!(told(&mut some, 1).await.0, ["+schedules/2 PAUSED"]);
    let update = ScheduleUpdate { paused: Some(false), ..ScheduleUpdate::default() };
    let update = UpdateSchedule { id: id.clone(), etag: None, update, validate_only: false };
    rig.handle.update_schedule(admin(), update, Pins::new()).await.expect("it is changed");
    assert_eq!(told(&mut all, 1).await.0, ["+schedules/1 WAITING"]);
    let delete = DeleteSchedule::new(id);
    rig.handle.delete_schedule(admin(), delete).await.expect("it is removed");
    assert_eq!(told(&mut all, 1).await.0, ["-schedules/1"]);
    rig.kill().await;
}
