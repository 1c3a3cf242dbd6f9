//! For any bytes: converting the message that they decode to does not panic, and an accepted value converts to a message
//! and back without change.

use super::shapes::Types;
use crate::{fuzz::convert_all, samples, v1, value};
use proptest::{collection::vec, prelude::*, sample::Index};
use prost::Message;

/// A migration with a value in all fields.
fn full() -> v1::MigrationSpec {
    (&samples::migration()).into()
}

/// The bytes of `request`, changed in places.
fn changed<M: Message>(request: &M) -> impl Strategy<Value = Vec<u8>> + use<M> {
    let bytes = request.encode_to_vec();
    vec((0..bytes.len(), any::<u8>()), 1..4).prop_map(move |changes| {
        let mut bytes = bytes.clone();
        changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        bytes
    })
}

fn job() -> v1::CreateJobRequest {
    v1::CreateJobRequest {
        spec: Some(full()),
        request_id: "a-1".to_owned(),
        on_conflict: 2,
        job_id: "nightly".to_owned(),
        labels: [("team".to_owned(), "db".to_owned())].into(),
        validate_only: true,
    }
}

fn schedule() -> v1::CreateScheduleRequest {
    let schedule = v1::Schedule::from(&samples::schedule().spec);
    let (schedule, request_id) = (Some(schedule), "a-1".to_owned());
    let schedule_id = "nightly".to_owned();
    v1::CreateScheduleRequest { schedule, request_id, validate_only: true, schedule_id }
}

fn workload() -> v1::RegisterWorkloadRequest {
    let etag = "e-1".to_owned();
    let workload = v1::Workload { etag, ..(&samples::workload_spec()).into() };
    v1::RegisterWorkloadRequest { workload: Some(workload), ..Default::default() }
}

#[test]
fn every_request_is_converted() {
    let set = prost_types::FileDescriptorSet::decode(crate::FILE_DESCRIPTOR_SET).unwrap();
    let messages = || set.file.iter().flat_map(|file| &file.message_type);
    let is_empty = |name: &str| messages().any(|m| m.name() == name && m.field.is_empty());
    let services = set.file.iter().flat_map(|file| &file.service);
    let inputs = services.flat_map(|service| &service.method).map(|method| method.input_type());
    let requests = inputs.filter_map(|name| name.strip_prefix(".numaloc.v1."));
    let converted = convert_all(&[]);
    // Requests without fields have nothing to convert.
    let missing: Vec<_> =
        requests.filter(|name| !converted.contains(name) && !is_empty(name)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn the_largest_errors_fit_into_headers() {
    let long = |index: u32| format!("{index:02}{}", "\u{10ffff}".repeat(78));
    let labels = (0..64).map(|index| (long(index), "a".repeat(300))).collect();
    let workload = v1::Workload { labels, ..Default::default() };
    convert_all(
        &v1::RegisterWorkloadRequest { workload: Some(workload), ..Default::default() }
            .encode_to_vec(),
    );
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
    fn any_message(request in any::<Index>(), choices in vec(any::<u8>(), 0..256)) {
        let types = Types::new();
        let request = &types.requests[request.index(types.requests.len())];
        convert_all(&types.message(request, &mut choices.into_iter(), 6));
    }

    #[test]
    fn a_changed_job_is_refused_or_stable(bytes in changed(&job())) {
        convert_all(&bytes);
        if let Ok(request) = v1::CreateJobRequest::decode(bytes.as_slice())
            && let Ok(read) = value::CreateJob::try_from(request)
        {
            let again = value::CreateJob::try_from(v1::CreateJobRequest::from(&read));
            prop_assert_eq!(again, Ok(read));
        }
    }

    #[test]
    fn a_changed_schedule_is_refused_or_stable(bytes in changed(&schedule())) {
        convert_all(&bytes);
        if let Ok(request) = v1::CreateScheduleRequest::decode(bytes.as_slice())
            && let Ok(read) = value::CreateSchedule::try_from(request)
        {
            let (schedule, request_id) = (Some((&read.spec).into()), read.request_id.clone());
            let request_id = request_id.unwrap_or_default();
            let validate_only = read.validate_only;
            let schedule_id = read.id.as_ref().map(|id| id.id().to_owned()).unwrap_or_default();
            let again = v1::CreateScheduleRequest {
                schedule,
                request_id,
                validate_only,
                schedule_id,
            };
            prop_assert_eq!(value::CreateSchedule::try_from(again), Ok(read));
        }
    }

    #[test]
    fn a_changed_workload_is_refused_or_stable(bytes in changed(&workload())) {
        convert_all(&bytes);
        if let Ok(request) = v1::RegisterWorkloadRequest::decode(bytes.as_slice())
            && let Ok(read) = value::RegisterWorkload::try_from(request)
        {
            let again = v1::RegisterWorkloadRequest::from(&read);
            prop_assert_eq!(value::RegisterWorkload::try_from(again), Ok(read));
        }
    }
}

#[test]
fn the_changed_requests_are_good_at_first() {
    assert!(value::CreateJob::try_from(job()).is_ok());
    assert!(value::CreateSchedule::try_from(schedule()).is_ok());
    assert!(value::RegisterWorkload::try_from(workload()).is_ok());
}
