//! Schedules: bounds of fields, and field masks.

use super::{one, spec};
use crate::{
    v1,
    value::{CreateSchedule, DeleteSchedule, ScheduleSpec, ScheduleUpdate, UpdateSchedule},
};
use prost_types::{Duration as Span, FieldMask};
use std::time::Duration;

fn seconds(seconds: i64) -> Option<Span> {
    Some(Span { seconds, nanos: 0 })
}

fn update(schedule: v1::Schedule, paths: &[&str]) -> Result<ScheduleUpdate, String> {
    let schedule = Some(v1::Schedule { name: "schedules/1".to_owned(), ..schedule });
    let paths = paths.iter().map(|&path| path.to_owned()).collect();
    let update_mask = Some(FieldMask { paths });
    let request = v1::UpdateScheduleRequest { schedule, update_mask, validate_only: false };
    UpdateSchedule::try_from(request).map(|read| read.update).map_err(|bad| bad.to_string())
}

#[test]
fn a_mask_picks() {
    let new = || v1::Schedule {
        spec: Some(spec(one())),
        interval: seconds(60),
        paused: true,
        ..Default::default()
    };
    let interval = Some(Duration::from_secs(60));
    assert_eq!(update(new(), &["interval"]), Ok(ScheduleUpdate { interval, ..Default::default() }));
    let picked = update(new(), &["ttl_after_gone", "spec.policy"]).unwrap();
    assert_eq!(picked.ttl_after_gone, Some(None));
    assert!(picked.policy.is_some() && picked.target.is_none() && picked.paused.is_none());
    let valued = update(new(), &[]).unwrap();
    assert!(valued.target.is_some() && valued.policy.is_none() && valued.jitter.is_none());
    assert_eq!((valued.interval, valued.paused), (interval, Some(true)));
    let all = update(new(), &["*"]).unwrap();
    assert!(all.limits.is_some() && all.jitter == Some(Duration::ZERO));
    assert_eq!(update(v1::Schedule::default(), &["paused"]).unwrap().paused, Some(false));
}

#[test]
fn a_bad_mask_is_refused() {
    for path in ["name", "state", "", "spec.target.pids", "Interval"] {
        let text = update(v1::Schedule::default(), &["paused", path]).unwrap_err();
        assert_eq!(text, "update_mask.paths[1] names a field that cannot be changed");
    }
    let text = update(v1::Schedule::default(), &["spec"]).unwrap_err();
    assert_eq!(text, "schedule.spec.target is required");
    assert!(update(v1::Schedule::default(), &["paused"; 33]).is_err());
}

#[test]
fn spans() {
    let create = |interval, jitter, ttl_after_gone| {
        let spec = Some(spec(one()));
        let schedule =
            v1::Schedule { spec, interval, jitter, ttl_after_gone, ..Default::default() };
        let request = v1::CreateScheduleRequest { schedule: Some(schedule), ..Default::default() };
        CreateSchedule::try_from(request).map(|read| read.spec).map_err(|bad| bad.to_string())
    };
    assert_eq!(create(None, None, None).unwrap().interval, Duration::ZERO);
    assert_eq!(create(seconds(0), seconds(0), None).unwrap().interval, Duration::ZERO);
    for interval in [seconds(-1), Some(Span { seconds: 0, nanos: 1 }), seconds(i64::MAX)] {
        let text = create(interval, None, None).unwrap_err();
        assert_eq!(text, "schedule.interval must be from 1s to 31622400s");
    }
    let longer = "schedule.jitter must not be longer than interval";
    assert_eq!(create(seconds(60), seconds(61), None).unwrap_err(), longer);
    assert_eq!(create(None, seconds(1), None).unwrap_err(), longer);
    assert!(create(seconds(60), seconds(60), seconds(-1)).is_err());
}

#[test]
fn an_update_that_contradicts_what_is_stored_is_refused() {
    let stored = ScheduleSpec {
        interval: Duration::from_secs(60),
        jitter: Duration::from_secs(10),
        ..ScheduleSpec::default()
    };
    let shorter = ScheduleUpdate { interval: Some(Duration::from_secs(5)), ..Default::default() };
    assert!(shorter.apply(stored.clone()).is_err());
    let both = ScheduleUpdate {
        interval: Some(Duration::from_secs(5)),
        jitter: Some(Duration::ZERO),
        ..Default::default()
    };
    let new = both.apply(stored.clone()).unwrap();
    assert_eq!((new.interval, new.jitter), (Duration::from_secs(5), Duration::ZERO));
    assert_eq!(ScheduleUpdate::default().apply(stored.clone()), Ok(stored));
}

#[test]
fn etags() {
    let request = |etag: &str| v1::DeleteScheduleRequest {
        name: "schedules/1".to_owned(),
        etag: etag.to_owned(),
        ..Default::default()
    };
    assert_eq!(DeleteSchedule::try_from(request("")).unwrap().etag, None);
    assert_eq!(DeleteSchedule::try_from(request("7")).unwrap().etag.as_deref(), Some("7"));
    assert!(DeleteSchedule::try_from(request("a b")).is_err());
}
