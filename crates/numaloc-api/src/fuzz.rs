//! Entry points of the fuzz targets: bytes that clients may send, and that a store may hold. A panic here is a defect.

use crate::{
    Stored, v1,
    value::{self, Event, Job, Schedule, Workload},
};
use prost::Message;
use std::collections::BTreeSet;

/// Decodes `bytes` as each kind of request and converts it. Returns the names of all requests.
///
/// # Panics
/// A conversion panics, or what it says is too long for the headers of an answer.
pub fn convert_all(bytes: &[u8]) -> BTreeSet<&'static str> {
    macro_rules! convert {
        ($($request:ident => $value:ident),+ $(,)?) => {{$(
            if let Ok(request) = v1::$request::decode(bytes) {
                if let Err(bad) = value::$value::try_from(request) {
                    let listed = bad.iter().count();
                    assert!((1..=16).contains(&listed), "{listed} violations");
                    let status = tonic::Status::from(bad);
                    let bytes = status.message().len() + status.details().len();
                    assert!(bytes < 5 << 10, "an error of {bytes} bytes");
                }
            }
        )+
        [$(stringify!($request)),+].into()
        }};
    }
    convert!(
        GetLocalityRequest => GetLocality,
        WatchLocalityRequest => WatchLocality,
        GetAdviceRequest => GetAdvice,
        GetLiveViewRequest => GetLiveView,
        GetNodeContentsRequest => GetNodeContents,
        PlanMigrationRequest => MigrationSpec,
        CreateJobRequest => CreateJob,
        GetJobRequest => JobId,
        ListJobsRequest => ListJobs,
        WatchJobRequest => JobId,
        WatchJobsRequest => WatchJobs,
        CancelJobRequest => JobId,
        PauseJobRequest => JobId,
        ResumeJobRequest => JobId,
        DeleteJobRequest => DeleteJob,
        CreateScheduleRequest => CreateSchedule,
        GetScheduleRequest => ScheduleId,
        ListSchedulesRequest => ListSchedules,
        WatchSchedulesRequest => WatchSchedules,
        RunScheduleRequest => RunSchedule,
        UpdateScheduleRequest => UpdateSchedule,
        DeleteScheduleRequest => DeleteSchedule,
        ListEventsRequest => ListEvents,
        WatchEventsRequest => WatchEvents,
        RegisterWorkloadRequest => RegisterWorkload,
        ReplaceWorkloadsRequest => WorkloadsPart,
        RenewWorkloadsRequest => RenewWorkloads,
        UnregisterWorkloadRequest => UnregisterWorkload,
        GetWorkloadRequest => WorkloadId,
        ListWorkloadsRequest => ListWorkloads,
        WatchWorkloadsRequest => WatchWorkloads,
    )
}

/// Reads `bytes` as each kind of record.
///
/// # Panics
/// A record that was read is not read again once it has been stored: a daemon with such a store would not start.
pub fn read_all(bytes: &[u8]) {
    read::<Job>(bytes);
    read::<Schedule>(bytes);
    read::<Workload>(bytes);
    read::<Event>(bytes);
}

fn read<T: Stored>(bytes: &[u8]) {
    let Ok(record) = T::decode(bytes) else { return };
    let stored = record.encode();
    let again =
        T::decode(&stored).unwrap_or_else(|damaged| panic!("it was read before: {damaged}"));
    assert_eq!(again.encode(), stored, "it changes each time that it is stored");
}
