//! What the daemon keeps, as it is stored and as clients see it.

use super::samples;
use crate::{
    Damaged, Stored,
    encoded::{ListedJob, ListedJobs, WatchedJob},
    event_number, v1,
    value::{
        Event, EventType, Job, JobState, MemberState, Outcome, QosClass, Schedule, ScheduleState,
        Workload,
    },
};
use proptest::prelude::*;
use prost::Message;
use std::fmt::Debug;

fn survives<T: Stored + PartialEq + Debug>(record: &T) -> Result<(), TestCaseError> {
    prop_assert_eq!(&T::decode(&record.encode()).unwrap(), record);
    Ok(())
}

proptest! {
    #[test]
    fn jobs_survive(job in samples::job()) {
        survives(&job)?;
    }

    #[test]
    fn schedules_survive(schedule in samples::schedule()) {
        survives(&schedule)?;
    }

    #[test]
    fn workloads_survive(workload in samples::workload()) {
        survives(&workload)?;
    }

    #[test]
    fn events_survive(event in samples::event()) {
        survives(&event)?;
        prop_assert_eq!(event_number(&v1::Event::from(&event).name), Some(event.number));
    }

    /// What lists show is the job without its details, and its account stays whole.
    #[test]
    fn lists_show_jobs_without_details(job in samples::job()) {
        let listed = job.listed();
        let mut whole = v1::Job::from(&job);
        whole.plan = None;
        whole.members.clear();
        whole.outcome.iter_mut().for_each(|outcome| outcome.processes.clear());
        prop_assert_eq!(&listed, &whole);
        let read = Job::try_from(listed).unwrap();
        let account = |job: &Job| job.outcome.as_ref().map(|outcome| outcome.account());
        prop_assert_eq!(account(&read), account(&job));
    }

    /// Clients cannot tell whether a page was encoded job by job.
    #[test]
    fn listed_jobs_are_encoded_as_their_list_is(
        jobs in prop::collection::vec(samples::job(), 0..4),
        token in prop::option::of("[a-z]{1,8}"),
    ) {
        let listed = ListedJobs::new(jobs.iter().map(ListedJob::from).collect(), token.clone());
        let next_page_token = token.unwrap_or_default();
        let jobs = jobs.iter().map(Job::listed).collect();
        let list = v1::ListJobsResponse { jobs, next_page_token };
        prop_assert_eq!(listed.encode_to_vec(), list.encode_to_vec());
    }

    /// The same of what has become of a job: it is there, it is not, or nothing is said of one.
    #[test]
    fn watched_jobs_are_encoded_as_answers_are(job in samples::job(), token in "[a-z]{0,8}") {
        use v1::RecordChange::{CaughtUp, Present, Removed};
        let named = v1::Job { name: job.id.to_string(), ..v1::Job::default() };
        for (change, encoded, job) in [
            (Present, Some(ListedJob::from(&job)), Some(job.listed())),
            (Removed, Some(ListedJob::from(&job.id)), Some(named)),
            (CaughtUp, None, None),
        ] {
            let watched = WatchedJob::new(change, encoded, token.clone());
            let (change, resume_token) = (change.into(), token.clone());
            let answer = v1::WatchJobsResponse { change, job, resume_token };
            prop_assert_eq!(watched.encode_to_vec(), answer.encode_to_vec());
        }
    }

    #[test]
    fn random_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        read_all(&bytes);
    }

    /// Bytes of a record with some changed.
    #[test]
    fn mangled_records_are_refused_or_read(
        job in samples::job(),
        event in samples::event(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for mut bytes in [job.encode(), event.encode()] {
            for (index, byte) in &flips {
                let index = index.index(bytes.len());
                bytes[index] = *byte;
            }
            read_all(&bytes);
        }
    }

    /// Messages with amounts at their bounds: what was read can be worked with.
    #[test]
    fn extreme_outcomes_are_refused_or_read(
        total in extreme_account(),
        parts in prop::collection::vec(extreme_account(), 0..4),
    ) {
        let process = |account| v1::ProcessOutcome { account: Some(account), ..Default::default() };
        let processes = parts.into_iter().map(process).collect();
        let outcome = v1::Outcome { account: Some(total.clone()), processes, ..Default::default() };
        if let Ok(outcome) = Outcome::try_from(outcome) {
            prop_assert_eq!(v1::Account::from(&outcome.account()).moved_bytes, total.moved_bytes);
            outcome.account().closes();
            outcome.account().shortfall_bytes();
        }
    }
}

fn extreme_account() -> impl Strategy<Value = v1::Account> {
    let amount = || prop::sample::select(vec![0, 1, i64::MAX, i64::MAX / 2, -1, i64::MIN]);
    let left = (0..14_i32, amount()).prop_map(|(reason, bytes)| v1::LeftBytes { reason, bytes });
    let left = prop::collection::vec(left, 0..4);
    (amount(), amount(), amount(), amount(), left).prop_map(
        |(found_bytes, moved_bytes, moved_back_bytes, vanished_bytes, left)| v1::Account {
            found_bytes,
            moved_bytes,
            moved_back_bytes,
            vanished_bytes,
            left,
        },
    )
}

/// Reads bytes as each record; what is read can be written and read again.
fn read_all(bytes: &[u8]) {
    fn read<T: Stored + Debug>(bytes: &[u8]) {
        if let Ok(record) = T::decode(bytes) {
            T::decode(&record.encode()).unwrap();
        }
    }
    read::<Job>(bytes);
    read::<Schedule>(bytes);
    read::<Workload>(bytes);
    read::<Event>(bytes);
}

#[test]
fn what_is_wrong_is_said() {
    let text = |bytes: &[u8]| Job::decode(bytes).unwrap_err().to_string();
    assert!(text(b"\xff").starts_with("not a job in protobuf: "), "{}", text(b"\xff"));
    let empty =
        "not a job: name is required; spec is required; state is required; create_time is required";
    assert_eq!(text(b""), empty);
    let newer = v1::Job { state: 12, ..v1::Job::default() };
    assert!(text(&newer.encode_to_vec()).contains("state has the unknown value 12"));
    assert!(matches!(Event::decode(b""), Err(Damaged::Fields { record: "event", .. })));
}

#[test]
fn less_than_its_processes_is_refused() {
    let account = |moved_bytes| Some(v1::Account { moved_bytes, ..Default::default() });
    let process = v1::ProcessOutcome { account: account(2), ..Default::default() };
    let outcome = |moved| v1::Outcome {
        account: account(moved),
        processes: vec![process.clone()],
        ..Default::default()
    };
    assert_eq!(Outcome::try_from(outcome(3)).unwrap().others.moved_bytes(), 1);
    let text = Outcome::try_from(outcome(1)).unwrap_err().to_string();
    assert!(text.starts_with("account must be from the sum of its processes' to"), "{text}");
}

#[test]
fn names_are_those_of_the_api() {
    let states = JobState::ALL.map(JobState::name);
    assert_eq!((states[0], states[9]), ("QUEUED", "INTERRUPTED"));
    assert_eq!(ScheduleState::TargetGone.name(), "TARGET_GONE");
    assert_eq!(EventType::ALL.map(EventType::name)[..3], ["COMPLETED", "SKIPPED", "FAILED"]);
    let numbers = EventType::ALL.map(|kind| v1::EventType::from(kind) as i32);
    assert!(numbers.into_iter().eq(1..=10), "{numbers:?}");
    let numbers = MemberState::ALL.map(|state| v1::MemberState::from(state) as i32);
    assert!(numbers.into_iter().eq(1..=7), "{numbers:?}");
    assert_eq!(
        [QosClass::Lsr, QosClass::Ls, QosClass::Be].map(QosClass::name),
        ["LSR", "LS", "BE"]
    );
}
