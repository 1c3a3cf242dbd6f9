//! Whatever bytes come in, converting what they decode to does not panic, and what is taken is stable.

use super::shapes::Types;
use crate::{v1, value};
use proptest::{collection::vec, prelude::*};
use prost::Message;
use std::collections::BTreeSet;

/// Decodes `bytes` as every request and converts it; gives back the names of the requests.
fn convert_all(bytes: &[u8]) -> BTreeSet<&'static str> {
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
        PlanMigrationRequest => MigrationSpec,
        CreateJobRequest => CreateJob,
        GetJobRequest => JobId,
        ListJobsRequest => ListJobs,
        WatchJobRequest => JobId,
        CancelJobRequest => JobId,
        PauseJobRequest => JobId,
        ResumeJobRequest => JobId,
        CreateScheduleRequest => CreateSchedule,
        GetScheduleRequest => ScheduleId,
        ListSchedulesRequest => Page,
        UpdateScheduleRequest => UpdateSchedule,
        DeleteScheduleRequest => DeleteSchedule,
        ListEventsRequest => ListEvents,
        WatchEventsRequest => WatchEvents,
        RegisterWorkloadRequest => WorkloadSpec,
        UnregisterWorkloadRequest => WorkloadId,
        ListWorkloadsRequest => Page,
    )
}

/// A full request, cut and changed in places.
fn changed() -> impl Strategy<Value = Vec<u8>> {
    let target = v1::Target {
        pids: vec![1, 2],
        cgroups: vec!["/a".to_owned()],
        units: vec!["b.service".to_owned()],
        ..Default::default()
    };
    let limits = v1::Limits {
        timeout: Some(prost_types::Duration { seconds: 5, nanos: 5 }),
        workers: Some(2),
        ..Default::default()
    };
    let policy = v1::Policy { target_ratio_percent: Some(90), qos_class: 1, ..Default::default() };
    let spec =
        v1::MigrationSpec { target: Some(target), policy: Some(policy), limits: Some(limits) };
    let bytes = v1::CreateJobRequest { spec: Some(spec), ..Default::default() }.encode_to_vec();
    vec((0..bytes.len(), any::<u8>()), 1..4).prop_map(move |changes| {
        let mut bytes = bytes.clone();
        changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        bytes
    })
}

#[test]
fn every_request_is_converted() {
    let set = prost_types::FileDescriptorSet::decode(crate::FILE_DESCRIPTOR_SET).unwrap();
    let services = set.file.iter().flat_map(|file| &file.service);
    let inputs = services.flat_map(|service| &service.method).map(|method| method.input_type());
    let requests = inputs.filter_map(|name| name.strip_prefix(".numaloc.v1."));
    let converted = convert_all(&[]);
    // GetTopology has nothing to convert.
    let missing: Vec<_> = requests
        .filter(|name| !converted.contains(name) && *name != "GetTopologyRequest")
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn the_largest_errors_fit_into_headers() {
    let long = |index: u32| format!("{index:02}{}", "\u{10ffff}".repeat(78));
    let labels = (0..64).map(|index| (long(index), "a".repeat(300))).collect();
    let workload = v1::Workload { labels, ..Default::default() };
    convert_all(&v1::RegisterWorkloadRequest { workload: Some(workload) }.encode_to_vec());
    let target = v1::Target { cgroups: vec!["..".to_owned(); 1024], ..Default::default() };
    let spec = v1::MigrationSpec { target: Some(target), ..Default::default() };
    convert_all(&v1::PlanMigrationRequest { spec: Some(spec) }.encode_to_vec());
}

proptest! {
    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..256)) {
        convert_all(&bytes);
    }

    #[test]
    fn any_message(request in 0..21_usize, choices in vec(any::<u8>(), 0..256)) {
        let types = Types::new();
        let request = &types.requests[request % types.requests.len()];
        convert_all(&types.message(request, &mut choices.into_iter(), 6));
    }

    #[test]
    fn a_changed_request_is_refused_or_stable(bytes in changed()) {
        convert_all(&bytes);
        if let Ok(request) = v1::CreateJobRequest::decode(bytes.as_slice())
            && let Ok(read) = value::CreateJob::try_from(request)
        {
            let again = value::CreateJob::try_from(v1::CreateJobRequest::from(&read));
            prop_assert_eq!(again, Ok(read));
        }
    }
}
