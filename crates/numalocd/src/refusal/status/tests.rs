use crate::{access::tests::Log, refusal::Refusal};
use numaloc_api::{DOMAIN, Problem, Violations, v1::ErrorReason, value::JobId};
use std::time::Duration;
use tonic::{Code, Status, body::Body};
use tonic_types::StatusExt;

/// One refusal of each variant. With a new variant `number` does not compile: add the variant here, too.
fn all(text: &str) -> Vec<(Refusal, Code, &'static str)> {
    let own = || text.to_owned();
    let mut violations = Violations::default();
    for number in 0..16 {
        violations
            .push(format!("spec.target.label_selector.match_labels[{number}]"), Problem::Missing);
    }
    let (name, message, caller) = (own(), own(), own());
    let all = vec![
        (Refusal::Invalid(violations), Code::InvalidArgument, "INVALID_FIELD"),
        (Refusal::PageToken, Code::InvalidArgument, "INVALID_FIELD"),
        (Refusal::NotFound { name: own() }, Code::NotFound, "RESOURCE_NOT_FOUND"),
        (Refusal::TooLarge { most: 7 }, Code::InvalidArgument, "REQUEST_TOO_LARGE"),
        (Refusal::Cursor { after: 3, oldest: 7, last: 9 }, Code::OutOfRange, "CURSOR_OUT_OF_RANGE"),
        (Refusal::ResumeToken, Code::OutOfRange, "CURSOR_OUT_OF_RANGE"),
        (Refusal::TargetNotFound { message: own() }, Code::NotFound, "TARGET_NOT_FOUND"),
        (Refusal::TargetEmpty { message: own() }, Code::FailedPrecondition, "TARGET_EMPTY"),
        (
            Refusal::NoTargetNode { message: own(), node: None },
            Code::FailedPrecondition,
            "NO_TARGET_NODE",
        ),
        (Refusal::HostCannot { message: own() }, Code::FailedPrecondition, "HOST_CANNOT"),
        (
            Refusal::WrongState { name, state: "SUCCEEDED", action: "paused" },
            Code::FailedPrecondition,
            "WRONG_STATE",
        ),
        (
            Refusal::NotEnded { name: own(), state: "RUNNING" },
            Code::FailedPrecondition,
            "WRONG_STATE",
        ),
        (
            Refusal::AlreadyExists { request_id: own(), name: own() },
            Code::AlreadyExists,
            "ALREADY_EXISTS",
        ),
        (Refusal::NameTaken { name: own() }, Code::AlreadyExists, "ALREADY_EXISTS"),
        (Refusal::Conflict { job: JobId::numbered(7) }, Code::Aborted, "CONFLICTING_JOB"),
        (Refusal::Etag { name: own(), present: own() }, Code::Aborted, "ETAG_MISMATCH"),
        (Refusal::NotPermitted { message: own() }, Code::PermissionDenied, "NOT_PERMITTED"),
        (
            Refusal::Ceiling { ceiling: "workers", most: own() },
            Code::PermissionDenied,
            "CEILING_EXCEEDED",
        ),
        (Refusal::DaemonLacksRights { message }, Code::FailedPrecondition, "DAEMON_LACKS_RIGHTS"),
        (
            Refusal::Quota { what: "watches", limit: 3, caller },
            Code::ResourceExhausted,
            "QUOTA_EXCEEDED",
        ),
        (
            Refusal::TooFast {
                what: "calls per second",
                limit: 9,
                caller: own(),
                retry_after: Duration::from_millis(5),
            },
            Code::ResourceExhausted,
            "QUOTA_EXCEEDED",
        ),
        (
            Refusal::Late { limit: Duration::from_secs(30) },
            Code::DeadlineExceeded,
            "CALL_TIMED_OUT",
        ),
        (Refusal::StoreFull { message: own() }, Code::ResourceExhausted, "STORE_FULL"),
        (Refusal::Unavailable { message: own() }, Code::Unavailable, "UNAVAILABLE"),
        (Refusal::Internal { message: own() }, Code::Internal, "INTERNAL"),
        (Refusal::HostUnavailable { message: own() }, Code::Unavailable, "HOST_UNAVAILABLE"),
    ];
    let mut seen: Vec<_> = all.iter().map(|(refusal, ..)| number(refusal)).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..26).collect::<Vec<_>>());
    all
}

/// The index of the variant, counted from 0.
fn number(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::Invalid(_) => 0,
        Refusal::PageToken => 1,
        Refusal::NotFound { .. } => 2,
        Refusal::TargetNotFound { .. } => 3,
        Refusal::TargetEmpty { .. } => 4,
        Refusal::NoTargetNode { .. } => 5,
        Refusal::WrongState { .. } => 6,
        Refusal::AlreadyExists { .. } => 7,
        Refusal::Conflict { .. } => 8,
        Refusal::Etag { .. } => 9,
        Refusal::NotPermitted { .. } => 10,
        Refusal::DaemonLacksRights { .. } => 11,
        Refusal::Quota { .. } => 12,
        Refusal::TooFast { .. } => 13,
        Refusal::StoreFull { .. } => 14,
        Refusal::Unavailable { .. } => 15,
        Refusal::Internal { .. } => 16,
        Refusal::HostCannot { .. } => 17,
        Refusal::HostUnavailable { .. } => 18,
        Refusal::Ceiling { .. } => 19,
        Refusal::Cursor { .. } => 20,
        Refusal::Late { .. } => 21,
        Refusal::NameTaken { .. } => 22,
        Refusal::ResumeToken => 23,
        Refusal::TooLarge { .. } => 24,
        Refusal::NotEnded { .. } => 25,
    }
}

fn status(refusal: Refusal) -> Status {
    refusal.into()
}

/// After a restart of the daemon all watches have to begin again, but not at the same moment.
#[test]
fn watches_that_begin_anew_are_spread() {
    let waits: std::collections::BTreeSet<Duration> = (0..100)
        .filter_map(|_| status(Refusal::ResumeToken).get_details_retry_info()?.retry_delay)
        .collect();
    assert!(waits.len() > 50, "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(5)), "{waits:?}");
    assert!(waits.last() > Some(&Duration::from_secs(1)), "{waits:?}");
}

#[test]
fn each_refusal_has_its_code_and_its_reason() {
    for (refusal, code, reason) in all("jobs/7") {
        let (words, invalid) = (refusal.to_string(), matches!(refusal, Refusal::Invalid(_)));
        let status = status(refusal);
        assert_eq!(status.code(), code, "{words}");
        if !invalid {
            assert_eq!(status.message(), words);
        }
        let info = status.get_details_error_info().expect("an ErrorInfo");
        assert_eq!((info.reason.as_str(), info.domain.as_str()), (reason, DOMAIN), "{words}");
        let known = ErrorReason::from_str_name(&format!("ERROR_REASON_{reason}"));
        assert!(known.is_some(), "{reason} is in the API");
    }
}

#[test]
fn every_reason_of_the_api_is_used() {
    let used: Vec<_> = all("x").into_iter().map(|(.., reason)| reason).collect();
    let reasons = (1..).map_while(|number| ErrorReason::try_from(number).ok());
    let names: Vec<_> = reasons.map(|reason| reason.as_str_name()).collect();
    assert_eq!(names.len(), 21);
    for name in names {
        assert!(used.iter().any(|used| format!("ERROR_REASON_{used}") == name), "{name}");
    }
}

/// The metadata of a status.
fn metadata(refusal: Refusal) -> Vec<(String, String)> {
    let info = status(refusal).get_details_error_info().expect("an ErrorInfo");
    let mut metadata: Vec<_> = info.metadata.into_iter().collect();
    metadata.sort();
    metadata
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

#[test]
fn metadata_say_what_it_is_about() {
    let name = || "jobs/7".to_owned();
    assert_eq!(metadata(Refusal::NotFound { name: name() }), pairs(&[("resource", "jobs/7")]));
    assert_eq!(
        metadata(Refusal::Etag { name: name(), present: "e".to_owned() }),
        pairs(&[("etag", "e"), ("resource", "jobs/7")])
    );
    let conflict = Refusal::Conflict { job: JobId::numbered(7) };
    assert_eq!(metadata(conflict), pairs(&[("resource", "jobs/7")]));
    let state = Refusal::WrongState { name: name(), state: "FAILED", action: "paused" };
    let expected = pairs(&[("action", "paused"), ("resource", "jobs/7"), ("state", "FAILED")]);
    assert_eq!(metadata(state), expected);
    let taken = Refusal::AlreadyExists { request_id: "r".to_owned(), name: name() };
    assert_eq!(metadata(taken), pairs(&[("request_id", "r"), ("resource", "jobs/7")]));
}

#[test]
fn details_help_where_they_can() {
    let details = status(Refusal::PageToken).get_error_details();
    let fields = &details.bad_request().expect("a BadRequest").field_violations;
    assert_eq!(fields[0].field, "page_token");

    let mut violations = Violations::default();
    violations.push("name", Problem::Missing);
    violations.push("page_size", Problem::Missing);
    let details = status(violations.into()).get_error_details();
    assert_eq!(details.bad_request().expect("a BadRequest").field_violations.len(), 2);

    let caller = || "uid:7".to_owned();
    let quota = Refusal::Quota { what: "open jobs", limit: 3, caller: caller() };
    let details = status(quota).get_error_details();
    let violation = &details.quota_failure().expect("a QuotaFailure").violations[0];
    assert_eq!(
        (violation.subject.as_str(), violation.description.as_str()),
        ("uid:7", "3 open jobs")
    );
    assert!(details.retry_info().is_none(), "waiting alone does not help");

    let retry_after = Duration::from_millis(5);
    let details = status(Refusal::TooFast {
        what: "calls per second",
        limit: 9,
        caller: caller(),
        retry_after,
    })
    .get_error_details();
    assert!(details.quota_failure().is_some());
    assert_eq!(details.retry_info().and_then(|info| info.retry_delay), Some(retry_after));

    let message = || "stopping".to_owned();
    for gone in [
        Refusal::Unavailable { message: message() },
        Refusal::HostUnavailable { message: message() },
    ] {
        assert!(status(gone).get_error_details().retry_info().is_some());
    }
}

#[test]
fn what_is_internal_is_logged_with_what_failed() {
    let (log, _guard) = Log::start();
    status(Refusal::Internal { message: "cannot read /proc/7/maps: it is odd".to_owned() });
    status(Refusal::TargetEmpty { message: "nobody there".to_owned() });
    let text = log.text();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains("ERROR") && text.contains("cannot read /proc/7/maps: it is odd"),
        "{text}"
    );
}

#[test]
fn a_status_stays_well_below_what_clients_take() {
    for text in ["x".repeat(1 << 20), "\u{10348}".repeat(1 << 18), "\n".repeat(1 << 20)] {
        for (refusal, ..) in all(&text) {
            let number = number(&refusal);
            let response = status(refusal).into_http::<Body>();
            let size: usize = response
                .headers()
                .iter()
                .map(|(name, value)| name.as_str().len() + value.len())
                .sum();
            assert!(size < 6 * 1024, "variant {number}: {size} bytes");
        }
    }
}
