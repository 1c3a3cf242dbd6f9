//! The status as the contract has it, and which results are news.

use super::*;
use crate::{ContainerResult, EventReason, Verdict, result::tests::share};
use proptest::prelude::*;
use std::time::Duration;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn result(local: u64, remote: u64, repeats: bool) -> PodResult {
    let share = Some(share(local, remote));
    let container = ContainerResult { name: "redis".to_owned(), verdict: Verdict::Reached, share };
    PodResult { containers: vec![container], repeats }
}

#[test]
fn the_phase_follows_the_interval() {
    let time = at(1_780_000_000) + Duration::from_millis(999);
    let once = PodStatus::after(&result(98, 2, false), time);
    insta::assert_snapshot!(once.to_json(), @r#"{"phase":"Completed","lastResult":{"completedTime":"2026-05-28T20:26:40Z","result":"MemoryLocalitySkipped","completedTimeLocalityRatio":98,"completedTimeRemotePages":2}}"#);
    let repeating = PodStatus::after(&result(98, 2, true), time);
    assert_eq!(repeating.phase, Phase::InProgress);
    insta::assert_snapshot!(PodStatus::begun(None).to_json(), @r#"{"phase":"InProgress"}"#);
    assert_eq!(PodStatus::begun(once.last.clone()), repeating);
    assert_eq!(PodStatus::closed(None), None, "what had no status gets none");
    let closed = PodStatus { phase: Phase::Closed, last: once.last.clone() };
    assert_eq!(PodStatus::closed(Some(once)), Some(closed));
}

#[test]
fn what_is_unreadable_has_the_ratio_minus_one() {
    let status = PodStatus::after(&PodResult { containers: Vec::new(), repeats: false }, at(0));
    insta::assert_snapshot!(status.to_json(), @r#"{"phase":"Completed","lastResult":{"completedTime":"1970-01-01T00:00:00Z","result":"MemoryLocalitySkipped","completedTimeLocalityRatio":-1,"completedTimeRemotePages":0}}"#);
}

#[test]
fn what_others_wrote_is_read() {
    let last = |time: &str, result: &str, pages: &str| {
        let last = format!(
            r#"{{"completedTime":"{time}","result":"{result}","completedTimeLocalityRatio":-1,"completedTimeRemotePages":{pages}}}"#
        );
        PodStatus::read(&format!(r#"{{"phase":"InProgress","more":1,"lastResult":{last}}}"#))
    };
    let found = last("2026-05-28T22:26:40+02:00", "MemoryLocalityFailed", "-1");
    let expected = LastResult {
        completed: at(1_780_000_000),
        reason: "MemoryLocalityFailed".to_owned(),
        ratio: -1,
        remote_pages: 0,
    };
    assert_eq!(found, Ok(PodStatus { phase: Phase::InProgress, last: Some(expected) }));
    let closed = PodStatus::read(r#"{"phase":"Closed","lastResult":null}"#);
    assert_eq!(closed, Ok(PodStatus { phase: Phase::Closed, last: None }));
    assert_eq!(last("yesterday", "MemoryLocalityFailed", "0"), Err(BadStatus::Time));
    assert_eq!(last("1969-12-31T23:59:59Z", "MemoryLocalityFailed", "0"), Err(BadStatus::Time));
    let other = last("2026-05-28T20:26:40Z", "MemoryLocalitySuccess", "0").expect("a status");
    assert_eq!(other.last.map(|last| last.reason).as_deref(), Some("MemoryLocalitySuccess"));
    let json = PodStatus::read("{\n\"phase\":\"Open\"}");
    assert!(matches!(json, Err(BadStatus::Json { line: 2, .. })), "{json:?}");
    let long = " ".repeat(STATUS_MAX + 1);
    assert_eq!(PodStatus::read(&long), Err(BadStatus::TooLong { bytes: STATUS_MAX + 1 }));
}

/// koordlet's fields are `omitempty`: the commonest status has no remote page.
#[test]
fn a_status_of_koordlet_without_what_is_0_is_read() {
    let text = r#"{"lastResult":{"completedTime":"2026-05-28T20:26:40Z","result":"MemoryLocalityCompleted"}}"#;
    let status = PodStatus::read(text).expect("a status");
    assert_eq!(status.phase, Phase::InProgress);
    let last = status.last.clone().expect("a result");
    assert_eq!((last.ratio, last.remote_pages), (0, 0));
    let closed = PodStatus::closed(Some(status)).expect("it had one").to_json();
    assert!(closed.starts_with(r#"{"phase":"Closed","lastResult":"#), "{closed}");
}

#[test]
fn a_repeating_policy_tells_changes_only() {
    let last = |reason: EventReason, ratio| LastResult {
        completed: at(0),
        reason: reason.name().to_owned(),
        ratio,
        remote_pages: 0,
    };
    let told = last(EventReason::Skipped, 90);
    for (now, is_news) in [
        (last(EventReason::Skipped, 90), false),
        (last(EventReason::Skipped, 100), false),
        (last(EventReason::Skipped, 80), false),
        (last(EventReason::Skipped, 79), true),
        (last(EventReason::Completed, 90), true),
        (last(EventReason::Skipped, -1), false),
    ] {
        assert_eq!(now.is_news(Some(&told), true), is_news, "{now:?}");
        assert!(now.is_news(None, true), "the first one");
        assert!(now.is_news(Some(&told), false), "there will be no other");
    }
    let unread = last(EventReason::Skipped, -1);
    assert!(!told.is_news(Some(&unread), true), "no ratio has moved");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = PodStatus::read(&text);
    }

    #[test]
    fn any_time_is_read_or_refused(time in "[0-9TZ:. +-]{0,40}", ratio in any::<i64>(), pages in any::<i64>()) {
        let text = format!(
            r#"{{"phase":"Completed","lastResult":{{"completedTime":"{time}","result":"MemoryLocalityFailed","completedTimeLocalityRatio":{ratio},"completedTimeRemotePages":{pages}}}}}"#
        );
        let _ = PodStatus::read(&text);
    }

    #[test]
    fn what_is_written_is_what_is_read(
        seconds in 0..253_402_300_800_u64,
        local in 0..1_u64 << 40,
        remote in 0..1_u64 << 40,
        repeats in any::<bool>(),
    ) {
        let status = PodStatus::after(&result(local, remote, repeats), at(seconds));
        prop_assert_eq!(PodStatus::read(&status.to_json()), Ok(status));
    }
}
