//! Names of the daemon's resources, as people write them.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use numaloc_api::value::{JobId, JobState, ScheduleId, WorkloadId};
use prost_types::Timestamp;
use std::time::SystemTime;

/// Reads the name of a job: `42` or `jobs/42`.
pub fn parse_job(text: &str) -> Result<JobId, String> {
    let id = JobId::named(text);
    id.ok_or_else(|| format!("'{text}' is not a valid job: expected for example 42 or jobs/42"))
}

/// Reads the name of a schedule: `7` or `schedules/7`.
pub fn parse_schedule(text: &str) -> Result<ScheduleId, String> {
    let id = ScheduleId::named(text);
    id.ok_or_else(|| {
        format!("'{text}' is not a valid schedule: expected for example 7 or schedules/7")
    })
}

/// Reads the name of a workload: `redis` or `workloads/redis`.
pub fn parse_workload(text: &str) -> Result<WorkloadId, String> {
    let id = WorkloadId::named(text);
    id.ok_or_else(|| {
        format!("'{text}' is not a valid name for a workload: letters, digits, '.', '_', '-'")
    })
}

/// A parser for the states of a job.
pub fn job_state() -> impl TypedValueParser<Value = JobState> {
    let lower = |state: JobState| state.name().to_ascii_lowercase();
    let find = move |text: String| {
        JobState::ALL.into_iter().find(|&state| lower(state) == text).ok_or("no such state")
    };
    PossibleValuesParser::new(JobState::ALL.map(lower)).try_map(find)
}

/// Reads the number of an event: `12` or `events/12`.
pub fn parse_event(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix("events/").unwrap_or(text).parse();
    number
        .map_err(|_| format!("'{text}' is not a valid event: expected for example 12 or events/12"))
}

/// Reads a time, or how long ago it was.
pub fn parse_since(text: &str) -> Result<SystemTime, String> {
    let now = SystemTime::now();
    let ago = || now.checked_sub(crate::units::parse_duration(text).ok()?);
    let day = format!("{text}T00:00:00Z");
    let time = || {
        let time = text.parse::<Timestamp>().or_else(|_| day.parse());
        SystemTime::try_from(time.ok()?).ok()
    };
    time().filter(|time| *time >= SystemTime::UNIX_EPOCH).or_else(ago).ok_or_else(|| {
        format!("'{text}' is not a valid time: expected for example 2026-11-20 (UTC), 2026-11-20T08:00:00Z, or a duration before now, for example 10m")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn resources_are_named_with_and_without_their_kind() {
        for text in ["42", "jobs/42"] {
            assert_eq!(parse_job(text).unwrap().to_string(), "jobs/42");
        }
        for text in ["", "jobs/", "schedules/42", "4 2", "jobs/jobs/1"] {
            assert!(parse_job(text).is_err(), "{text:?} was taken");
        }
        assert_eq!(parse_event("events/12"), Ok(12));
        assert!(parse_event("x").is_err());
        assert!(parse_since("10m").unwrap() < SystemTime::now());
        let after = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(parse_since("2026-11-20T08:00:00Z"), Ok(after(1_795_161_600)));
        assert_eq!(parse_since("1970-01-02"), Ok(after(86_400)));
        assert!(parse_since("2d").unwrap() < SystemTime::now());
        assert_eq!(parse_since("1970-01-01 01:00:00+01:00"), Ok(after(0)));
        for text in ["yesterday", "1969-12-31T23:59:59Z", "2026-02-29T00:00:00Z"] {
            assert!(parse_since(text).is_err(), "{text} was taken");
        }
    }
}
