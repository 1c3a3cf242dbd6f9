//! The daemon's records, as they are stored and as clients see them.

use super::arbitrary;
use crate::{
    Damaged, Stored,
    encoded::{Encoded, FollowedJob, ListedJob, MadeJob, OneRecord, RecordPage, WatchedJob},
    event_number, v1,
    value::{
        CreateJob, CreateSchedule, Event, EventType, Job, JobState, MemberState, Outcome, QosClass,
        RegisterWorkload, Schedule, ScheduleState, Workload,
    },
};
use proptest::prelude::*;
use prost::Message;
use std::{fmt::Debug, time::Duration};

fn survives<T: Stored + PartialEq + Debug>(record: &T) -> Result<(), TestCaseError> {
    let stored = record.encode();
    prop_assert_eq!(&T::decode(&stored).unwrap(), record);
    crate::fuzz::read_all(&stored);
    Ok(())
}

proptest! {
    #[test]
    fn jobs_survive(job in arbitrary::job()) {
        survives(&job)?;
    }

    #[test]
    fn schedules_survive(schedule in arbitrary::schedule()) {
        survives(&schedule)?;
    }

    #[test]
    fn workloads_survive(workload in arbitrary::workload()) {
        survives(&workload)?;
    }

    #[test]
    fn events_survive(event in arbitrary::event()) {
        survives(&event)?;
        prop_assert_eq!(event_number(&v1::Event::from(&event).name), Some(event.number));
    }

    /// A list shows the job without its details, and its account stays complete.
    #[test]
    fn lists_show_jobs_without_details(job in arbitrary::job()) {
        let listed = job.listed();
        let mut whole = v1::Job::from(&job);
        whole.plan = None;
        whole.members.clear();
        whole.more_members = 0;
        whole.outcome.iter_mut().for_each(|outcome| {
            outcome.processes.clear();
            outcome.partners.clear();
        });
        prop_assert_eq!(&listed, &whole);
        let read = Job::try_from(listed).unwrap();
        let account = |job: &Job| job.outcome.as_ref().map(|outcome| outcome.account());
        prop_assert_eq!(account(&read), account(&job));
    }

    /// Clients cannot see whether a page was encoded job by job.
    #[test]
    fn listed_jobs_are_encoded_as_their_list_is(
        jobs in prop::collection::vec(arbitrary::job(), 0..4),
        token in prop::option::of("[a-z]{1,8}"),
    ) {
        let listed = RecordPage::new(jobs.iter().map(ListedJob::from).collect(), token.clone());
        let next_page_token = token.unwrap_or_default();
        let jobs = jobs.iter().map(Job::listed).collect();
        let list = v1::ListJobsResponse { jobs, next_page_token };
        prop_assert_eq!(listed.encode_to_vec(), list.encode_to_vec());
    }

    /// The same of the result of a job: it is there, it is not, or nothing is stated about one.
    #[test]
    fn watched_jobs_are_encoded_as_answers_are(job in arbitrary::job(), token in "[a-z]{0,8}") {
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

    /// The same of a whole job, as the store has it.
    #[test]
    fn whole_jobs_are_encoded_as_answers_are(job in arbitrary::job(), flags in any::<[bool; 2]>()) {
        let whole = Encoded::from(&job);
        prop_assert_eq!(whole.decode(), Ok(job.clone()));
        let message = || Some(v1::Job::from(&job));
        let got = v1::GetJobResponse { job: message() };
        prop_assert_eq!(OneRecord::from(whole.clone()).encode_to_vec(), got.encode_to_vec());
        let made = v1::CreateJobResponse { job: message(), existing: flags[0], differs: flags[1] };
        prop_assert_eq!(MadeJob::from(made.clone()).encode_to_vec(), made.encode_to_vec());
        let earlier = v1::CreateJobResponse { job: message(), existing: true, differs: false };
        let encoded = MadeJob::earlier(whole.clone());
        prop_assert_eq!(encoded.encode_to_vec(), earlier.encode_to_vec());
        let seen = v1::WatchJobResponse { job: message(), is_progress: false };
        prop_assert_eq!(FollowedJob::whole(whole).encode_to_vec(), seen.encode_to_vec());
        if let Some(progress) = &job.progress {
            let advanced = Some(job.advanced(progress.clone()));
            let seen = v1::WatchJobResponse { job: advanced, is_progress: true };
            let encoded = FollowedJob::advanced(&job, progress.clone());
            prop_assert_eq!(encoded.encode_to_vec(), seen.encode_to_vec());
        }
    }

    /// The same of events.
    #[test]
    fn events_are_encoded_as_answers_are(
        events in prop::collection::vec(arbitrary::event(), 0..4),
        token in prop::option::of("[a-z]{1,8}"),
    ) {
        for event in &events {
            let answer = v1::WatchEventsResponse { event: Some(event.into()) };
            let encoded = OneRecord::from(Encoded::<Event>::from(event));
            prop_assert_eq!(encoded.encode_to_vec(), answer.encode_to_vec());
        }
        let listed = RecordPage::new(events.iter().map(Encoded::<Event>::from).collect(), token.clone());
        let next_page_token = token.unwrap_or_default();
        let events = events.iter().map(Into::into).collect();
        let list = v1::ListEventsResponse { events, next_page_token };
        prop_assert_eq!(listed.encode_to_vec(), list.encode_to_vec());
    }

    #[test]
    fn random_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        read_all(&bytes);
    }

    /// The bytes of a record, with some of them changed.
    #[test]
    fn mangled_records_are_refused_or_read(
        job in arbitrary::job(),
        event in arbitrary::event(),
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

    /// Messages with amounts at their bounds. A value that is accepted can be used without overflow.
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
            nearer_bytes: 0,
        },
    )
}

/// Reads bytes as each kind of record. A record that is accepted can be written and read again.
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
fn errors_name_the_field() {
    let text = |bytes: &[u8]| Job::decode(bytes).unwrap_err().to_string();
    assert!(text(b"\xff").starts_with("not a job in protobuf: "), "{}", text(b"\xff"));
    let empty =
        "not a job: name is required; spec is required; state is required; create_time is required";
    assert_eq!(text(b""), empty);
    let newer = v1::Job { state: 12, ..v1::Job::default() };
    assert!(text(&newer.encode_to_vec()).contains("state has the unknown value 12"));
    assert!(matches!(Event::decode(b""), Err(Damaged::Fields { record: "event", .. })));
}

fn long(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

/// Labels that are more and longer than requests may have them.
fn many_labels() -> std::collections::BTreeMap<String, String> {
    (0..100).map(|number| (format!("{number}{}", "k".repeat(400)), "\n".repeat(300))).collect()
}

/// A migration that is over every bound of requests.
fn boundless() -> v1::MigrationSpec {
    let long_name = || vec!["x".repeat(300)];
    let requirement = v1::LabelSelectorRequirement {
        key: "k".repeat(400),
        operator: v1::LabelSelectorOperator::In.into(),
        values: (0..100).map(|number| format!("{number:03}{}", "v".repeat(300))).collect(),
    };
    let target = v1::Target {
        pids: (1..=5000).collect(),
        cgroups: (0..1100).map(|number| format!("/{number:04}{}", "c".repeat(5000))).collect(),
        units: long_name(),
        containers: long_name(),
        pods: vec!["a\npod".to_owned()],
        virtual_machines: long_name(),
        container_labels: long_name(),
        workload_creators: long_name(),
        labels: Some(v1::LabelSelector {
            match_labels: many_labels(),
            match_expressions: vec![requirement],
            namespace: "a namespace".to_owned(),
        }),
        processes: Vec::new(),
        files: Vec::new(),
    };
    let policy = v1::Policy { max_stall: long(120), ..v1::Policy::default() };
    let limits = v1::Limits {
        batch_bytes: Some(2 << 30),
        workers: Some(1000),
        timeout: long(2 * 366 * 24 * 3600),
        rate_bytes_per_second: Some(1),
        hourly_budget_bytes: Some(1),
    };
    v1::MigrationSpec { target: Some(target), policy: Some(policy), limits: Some(limits) }
}

/// A bound that is tightened later must not make a store unreadable.
#[test]
fn bounds_of_requests_are_none_of_records() {
    let (spec, years, name) = (boundless(), 2 * 366 * 24 * 3600, "n".repeat(200));
    let request_id = "a request".to_owned();
    let request = v1::CreateJobRequest { spec: Some(spec.clone()), ..Default::default() };
    CreateJob::try_from(request).expect_err("a request may not have this");
    let now = || Some(prost_types::Timestamp::default());
    let job = v1::Job {
        name: format!("jobs/{name}"),
        number: 3,
        spec: Some(spec.clone()),
        state: v1::JobState::Queued.into(),
        schedule: format!("schedules/{name}"),
        labels: many_labels(),
        request_id: request_id.clone(),
        create_time: now(),
        ..v1::Job::default()
    };
    let job = Job::decode(&job.encode_to_vec()).expect("a record");
    assert_eq!((job.id.id(), job.id.number()), (name.as_str(), Some(3)));
    assert_eq!(v1::MigrationSpec::from(&job.spec).target, spec.target);
    assert_eq!(
        (job.spec.limits.workers, job.spec.limits.rate_bytes_per_second),
        (Some(1000), Some(1))
    );
    assert_eq!((job.labels.clone(), job.request_id.clone()), (many_labels(), Some(request_id)));
    assert_eq!(Job::decode(&job.encode()), Ok(job));

    let schedule = v1::Schedule {
        name: format!("schedules/{name}"),
        number: 7,
        spec: Some(spec.clone()),
        interval: long(years),
        jitter: long(2 * years),
        ttl_after_gone: long(years),
        labels: many_labels(),
        state: v1::ScheduleState::Waiting.into(),
        create_time: now(),
        update_time: now(),
        ..v1::Schedule::default()
    };
    let asked =
        v1::CreateScheduleRequest { schedule: Some(schedule.clone()), ..Default::default() };
    CreateSchedule::try_from(asked).expect_err("a request may not have this");
    let schedule = Schedule::decode(&schedule.encode_to_vec()).expect("a record");
    assert_eq!(schedule.spec.jitter, Duration::from_secs(4 * 366 * 24 * 3600));
    assert_eq!(Schedule::decode(&schedule.encode()), Ok(schedule));

    let workload = v1::Workload {
        name: format!("workloads/{name}"),
        cgroup: format!("/{}", "c".repeat(5000)),
        container_id: "a container".to_owned(),
        labels: many_labels(),
        ttl: long(years),
        create_time: now(),
        ..v1::Workload::default()
    };
    let asked =
        v1::RegisterWorkloadRequest { workload: Some(workload.clone()), ..Default::default() };
    RegisterWorkload::try_from(asked).expect_err("a request may not have this");
    let workload = Workload::decode(&workload.encode_to_vec()).expect("a record");
    assert_eq!(workload.spec.container_id.as_deref(), Some("a container"));
    assert_eq!(Workload::decode(&workload.encode()), Ok(workload));

    let event = v1::Event {
        name: "events/9".to_owned(),
        r#type: v1::EventType::Completed.into(),
        create_time: now(),
        job: format!("jobs/{name}"),
        target: spec.target,
        ..v1::Event::default()
    };
    let event = Event::decode(&event.encode_to_vec()).expect("a record");
    assert_eq!(Event::decode(&event.encode()), Ok(event));
}

#[test]
fn what_cannot_be_understood_is_refused_of_records_too() {
    let job = |spec| v1::Job {
        name: "jobs/1".to_owned(),
        spec: Some(spec),
        state: v1::JobState::Queued.into(),
        create_time: Some(prost_types::Timestamp::default()),
        ..v1::Job::default()
    };
    let refused =
        |spec| Job::decode(&job(spec).encode_to_vec()).expect_err("no record").to_string();
    let cgroup = |path: &str| v1::Target { cgroups: vec![path.to_owned()], ..Default::default() };
    let limits = |limits| v1::MigrationSpec { limits: Some(limits), ..super::spec(super::one()) };
    Job::decode(&job(super::spec(super::one())).encode_to_vec()).expect("a record");
    for (spec, field) in [
        (super::spec(v1::Target::default()), "spec.target"),
        (super::spec(cgroup("/a/../b")), "spec.target.cgroups[0]"),
        (limits(v1::Limits { workers: Some(0), ..Default::default() }), "spec.limits.workers"),
        (
            limits(v1::Limits { batch_bytes: Some(-1), ..Default::default() }),
            "spec.limits.batch_bytes",
        ),
        (
            limits(v1::Limits { timeout: long(i64::MAX), ..Default::default() }),
            "spec.limits.timeout",
        ),
    ] {
        let text = refused(spec);
        assert!(text.contains(&format!("not a job: {field} ")), "{field}: {text}");
    }
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
    assert!(numbers.into_iter().eq(1..=12), "{numbers:?}");
    let numbers = MemberState::ALL.map(|state| v1::MemberState::from(state) as i32);
    assert!(numbers.into_iter().eq(1..=7), "{numbers:?}");
    assert_eq!(
        [QosClass::Lsr, QosClass::Ls, QosClass::Be].map(QosClass::name),
        ["LSR", "LS", "BE"]
    );
}
