//! Reads records: a client reads them from answers, the daemon from its store.

use super::{
    bounds::{EVENT, JOB, REQUEST_ID_MAX, SCHEDULE},
    check::{name, required, resource, time, token},
    ended::{amount, bytes_by_node, nodes, outcome},
    labels::labels,
    member::{failed, members},
    names::{event_number, must_name, named},
    schedule::settings,
    spec::{process, spec, target},
    workload::workload,
};
use crate::{
    Violations, v1,
    value::{
        Event, Job, JobId, JobJoin, JobProgress, Pins, PlanSummary, Schedule, ScheduleId, Target,
        Workload,
    },
};
use prost::Message;
use std::{sync::Arc, time::SystemTime};

/// Why bytes cannot be read as a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Damaged {
    /// The bytes are not a protobuf message of this type.
    #[error("not a {record} in protobuf: {source}")]
    Encoding {
        /// The expected kind of record.
        record: &'static str,
        source: prost::DecodeError,
    },
    /// Fields have values that no record has.
    #[error("not a {record}: {violations}")]
    Fields { record: &'static str, violations: Violations },
    /// The record has a field or a value that a later version has given it: to continue without it would change its
    /// meaning.
    #[error("a {record} of a later version: {what}")]
    Newer { record: &'static str, what: String },
}

impl Damaged {
    /// Fields that are wrong; a later version's, if one has a value that this version does not know.
    fn fields(record: &'static str, violations: Violations) -> Self {
        match violations.unknown() {
            Some(what) => Self::Newer { record, what },
            None => Self::Fields { record, violations },
        }
    }
}

/// A record that can be stored. It is stored as the message that the API has for it, so its form changes only by the rules
/// of the API.
pub trait Stored: Sized {
    /// The bytes of the record. Not kept are the durations of single calls ([`CallStats::times`](crate::value::CallStats))
    /// and times before 1970.
    fn encode(&self) -> Vec<u8>;
    /// Number of bytes that [`Self::encode`] gives.
    fn encoded_len(&self) -> usize;
    /// Reads the record in these bytes. The bounds of requests do not matter: it may have been made when they were wider.
    ///
    /// # Errors
    /// The bytes are not such a record, or one of a later version that is not understood.
    fn decode(bytes: &[u8]) -> Result<Self, Damaged>;
}

macro_rules! stored {
    ($($record:ident, $name:literal;)+) => {$(
        impl Stored for $record {
            fn encode(&self) -> Vec<u8> {
                v1::$record::from(self).encode_to_vec()
            }
            fn encoded_len(&self) -> usize {
                v1::$record::from(self).encoded_len()
            }
            fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
                let message = v1::$record::decode(bytes)
                    .map_err(|source| Damaged::Encoding { record: $name, source })?;
                // Decoding drops fields that are not known, at any depth; all others are encoded as they were.
                if message.encoded_len() < bytes.len() {
                    let what = "it has a field that this version does not know".to_owned();
                    return Err(Damaged::Newer { record: $name, what });
                }
                Self::try_from(message).map_err(|violations| Damaged::fields($name, violations))
            }
        }
    )+};
}

stored! {
    Job, "job";
    Schedule, "schedule";
    Workload, "workload";
    Event, "event";
}

impl TryFrom<v1::Job> for Job {
    type Error = Violations;

    fn try_from(from: v1::Job) -> Result<Self, Violations> {
        let mut bad = Violations::of_record();
        let id = name("name", &from.name, JOB, JobId::from_record, &mut bad);
        let id = id.map(|id| match amount("number", from.number, &mut bad) {
            0 => id,
            number => id.with_number(number),
        });
        let spec = spec("spec", from.spec, &mut bad);
        let state = must_name("state", from.state, &mut bad);
        let wanted = named("wanted_state", from.wanted_state, &mut bad);
        let schedule = schedule(&from.schedule, from.schedule_number, &mut bad);
        let request_id = token("request_id", from.request_id, REQUEST_ID_MAX, &mut bad);
        let created = must_time("create_time", from.create_time, &mut bad);
        let started = time("start_time", from.start_time, &mut bad);
        let ended = time("end_time", from.end_time, &mut bad);
        let progress = from.progress.map(|progress| self::progress(progress, &mut bad));
        let outcome = from.outcome.map(|from| outcome("outcome.", from, &mut bad));
        let pins = pins(from.pinned_processes, &mut bad);
        let members = members(from.members, &mut bad);
        let labels = labels("labels", from.labels, &mut bad);
        let job = id.zip(state).map(|(id, state)| Self {
            id,
            spec,
            state,
            wanted,
            state_message: from.state_message,
            schedule,
            creator: from.creator,
            creator_gid: from.creator_gid,
            pins,
            members,
            more_members: usize::try_from(from.more_members).unwrap_or(0),
            labels,
            joined: from.joins.into_iter().map(joined).collect(),
            requester: Some(from.requester).filter(|requester| !requester.is_empty()),
            request_id,
            created,
            started,
            ended,
            progress,
            plan: from.plan.map(|plan| Arc::new(PlanSummary(plan))),
            outcome: outcome.map(Arc::new),
        });
        bad.or_of(job)
    }
}

fn joined(from: v1::JobJoin) -> JobJoin {
    let v1::JobJoin { client, request_id, request_digest } = from;
    JobJoin { client, request_id, digest: request_digest.cast_unsigned() }
}

fn progress(from: v1::JobProgress, bad: &mut Violations) -> JobProgress {
    JobProgress {
        planned_bytes: amount("progress.planned_bytes", from.planned_bytes, bad),
        moved_bytes: amount("progress.moved_bytes", from.moved_bytes, bad),
        settled_bytes: amount("progress.settled_bytes", from.settled_bytes, bad),
        held_back: from.held_back,
        measured: must_time("progress.update_time", from.update_time, bad),
    }
}

impl TryFrom<v1::JobProgress> for JobProgress {
    type Error = Violations;

    fn try_from(from: v1::JobProgress) -> Result<Self, Violations> {
        let mut bad = Violations::of_record();
        let progress = progress(from, &mut bad);
        bad.or(progress)
    }
}

impl From<v1::Plan> for PlanSummary {
    fn from(plan: v1::Plan) -> Self {
        Self(plan)
    }
}

impl TryFrom<v1::Schedule> for Schedule {
    type Error = Violations;

    fn try_from(mut from: v1::Schedule) -> Result<Self, Violations> {
        let mut bad = Violations::of_record();
        let id = name("name", &from.name, SCHEDULE, ScheduleId::from_record, &mut bad);
        let id = id.map(|id| match amount("number", from.number, &mut bad) {
            0 => id,
            number => id.with_number(number),
        });
        let state = must_name("state", from.state, &mut bad);
        let last_job = resource("last_job", &from.last_job, JOB, JobId::from_record, &mut bad);
        let last_run = time("last_run_time", from.last_run_time, &mut bad);
        let next_run = time("next_run_time", from.next_run_time, &mut bad);
        let gone = time("gone_time", from.gone_time, &mut bad);
        let created = must_time("create_time", from.create_time, &mut bad);
        let updated = must_time("update_time", from.update_time, &mut bad);
        let request_id = std::mem::take(&mut from.request_id);
        let request_id = token("request_id", request_id, REQUEST_ID_MAX, &mut bad);
        let state_message = std::mem::take(&mut from.state_message);
        let creator = std::mem::take(&mut from.creator);
        let etag = std::mem::take(&mut from.etag);
        let creator_gid = from.creator_gid.take();
        let request_digest = from.request_digest.cast_unsigned();
        let declared_in = std::mem::take(&mut from.declared_in);
        let relieved = bytes_by_node("relieved", &from.relieved, &mut bad);
        let relieved_at = time("relieve_time", from.relieve_time, &mut bad);
        let hour_moved_bytes = amount("hour_moved_bytes", from.hour_moved_bytes, &mut bad);
        let hour_start = time("hour_start_time", from.hour_start_time, &mut bad);
        let pins = pins(std::mem::take(&mut from.pinned_processes), &mut bad);
        let spec = settings("", from, &mut bad);
        let schedule = id.zip(state).map(|(id, state)| Self {
            id,
            spec,
            state,
            state_message,
            last_job,
            last_run,
            next_run,
            gone,
            created,
            updated,
            creator,
            creator_gid,
            pins,
            request_id,
            request_digest,
            etag,
            declared_in: Some(declared_in).filter(|file| !file.is_empty()),
            relieved,
            relieved_at,
            hour_moved_bytes,
            hour_start,
        });
        bad.or_of(schedule)
    }
}

impl TryFrom<v1::Workload> for Workload {
    type Error = Violations;

    fn try_from(mut from: v1::Workload) -> Result<Self, Violations> {
        let mut bad = Violations::of_record();
        let created = must_time("create_time", from.create_time, &mut bad);
        let creator = std::mem::take(&mut from.creator);
        let creator_gid = from.creator_gid.take();
        let etag = std::mem::take(&mut from.etag);
        let request_id = std::mem::take(&mut from.request_id);
        let request_id = token("request_id", request_id, REQUEST_ID_MAX, &mut bad);
        let expires = time("expire_time", from.expire_time, &mut bad);
        let spec = workload("", from, &mut bad);
        bad.or_of(spec.map(|spec| Self {
            spec,
            created,
            creator,
            creator_gid,
            etag,
            request_id,
            expires,
        }))
    }
}

impl TryFrom<v1::Event> for Event {
    type Error = Violations;

    fn try_from(from: v1::Event) -> Result<Self, Violations> {
        let mut bad = Violations::of_record();
        let number = name("name", &from.name, EVENT, event_number, &mut bad);
        let kind = must_name("type", from.r#type, &mut bad);
        let time = must_time("create_time", from.create_time, &mut bad);
        let job = resource("job", &from.job, JOB, JobId::from_record, &mut bad);
        let schedule = schedule(&from.schedule, from.schedule_number, &mut bad);
        let target = match from.target {
            // About the host.
            None if job.is_none() && schedule.is_none() => Target::default(),
            from => target("target", from, &mut bad),
        };
        let nodes_left = nodes("from_node_ids", &from.from_node_ids, &mut bad);
        let nodes_reached = nodes("to_node_ids", &from.to_node_ids, &mut bad);
        let remote_bytes = from.remote_bytes.map(|bytes| amount("remote_bytes", bytes, &mut bad));
        let failed = failed("failed_processes", from.failed_processes, &mut bad);
        let members = members(from.members, &mut bad);
        let labels = labels("labels", from.labels, &mut bad);
        let event = number.zip(kind).map(|(number, kind)| Self {
            number,
            kind,
            time,
            job,
            schedule,
            creator: from.creator,
            labels,
            target,
            from: nodes_left,
            to: nodes_reached,
            before_percent: from.before_percent,
            after_percent: from.after_percent,
            remote_bytes,
            failed,
            message: from.message,
            members,
            more_members: usize::try_from(from.more_members).unwrap_or(0),
            more_target_names: usize::try_from(from.more_target_names).unwrap_or(0),
            creator_gid: from.creator_gid,
        });
        bad.or_of(event)
    }
}

fn pins(from: Vec<v1::PinnedProcess>, bad: &mut Violations) -> Pins {
    let mut pin = |pinned: v1::PinnedProcess| {
        let field = "pinned_processes.process";
        let named = required(field, pinned.process, bad).unwrap_or_default();
        Some((pinned.pid, process(field, named, bad)?))
    };
    from.into_iter().filter_map(&mut pin).collect()
}

fn schedule(name: &str, number: i64, bad: &mut Violations) -> Option<ScheduleId> {
    let id = resource("schedule", name, SCHEDULE, ScheduleId::from_record, bad);
    // An earlier version has not stored the number.
    match amount("schedule_number", number, bad) {
        0 => id,
        number => id.map(|id| id.with_number(number)),
    }
}

/// Reads a time that is required. Returns 1970 if it adds a violation.
fn must_time(
    field: &str,
    from: Option<prost_types::Timestamp>,
    bad: &mut Violations,
) -> SystemTime {
    let from = required(field, from, bad);
    time(field, from, bad).unwrap_or(SystemTime::UNIX_EPOCH)
}
