//! Events as they are written, and as they are kept in memory.

use super::PackedLabels;
use numaloc_api::{
    encoded::Encoded,
    value::{Event, EventType, JobId, MemberResult, MemberState, ScheduleId},
};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::SystemTime,
};

/// Bytes counted for an event besides its record: its row in the store, and its head in memory.
const BESIDES: usize = 1024;

/// An event, encoded once: for the store, and for all clients that read it.
#[derive(Clone, Debug)]
pub struct EventRecord {
    pub head: EventHead,
    pub encoded: Encoded<Event>,
}

impl From<&Event> for EventRecord {
    fn from(event: &Event) -> Self {
        let encoded = Encoded::from(event);
        Self { head: EventHead::new(event, encoded.as_ref().len()), encoded }
    }
}

/// The part of an event that is kept in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct EventHead {
    /// The event's number, which rises.
    pub number: u64,
    /// The job that it is about.
    pub job: Option<JobId>,
    /// When it happened, by the wall clock.
    pub time: SystemTime,
    /// Its type, which filters ask for.
    pub kind: EventType,
    /// The schedule that it is about, or whose job it is about.
    pub schedule: Option<ScheduleId>,
    /// The creator of the job; empty: not known.
    pub creator: Box<str>,
    /// The group that the creator's grant is to.
    pub creator_gid: Option<u32>,
    /// The labels that its record had then.
    pub labels: PackedLabels,
    /// The local share afterwards, in percent.
    pub after_percent: Option<f64>,
    /// A hash of the members that were missing, refused or had failed, and of which it was; 0: none.
    pub unwell: u64,
    /// About how many bytes it takes: its record, and what comes with one in the store and in memory.
    pub bytes: usize,
}

impl EventHead {
    /// The head of an event whose record has this many bytes.
    pub fn new(event: &Event, bytes: usize) -> Self {
        Self {
            number: event.number,
            job: event.job.clone(),
            time: event.time,
            kind: event.kind,
            schedule: event.schedule.clone(),
            creator: event.creator.as_str().into(),
            creator_gid: event.creator_gid,
            labels: PackedLabels::from(&event.labels),
            after_percent: event.after_percent,
            unwell: Self::unwell_of(event),
            bytes: bytes + BESIDES,
        }
    }

    /// A hash of the members that have failed, are missing or were refused; 0: none. Other members are left out: the
    /// result of their pages changes from run to run.
    pub fn unwell_of(event: &Event) -> u64 {
        use MemberState::{Failed, Missing, Refused};
        let is_unwell = |member: &&MemberResult| matches!(member.state, Failed | Missing | Refused);
        let unwell = event.members.iter().filter(is_unwell);
        let mut unwell: Vec<_> = unwell.map(|member| (&member.member, member.state)).collect();
        unwell.sort_unstable();
        let mut hash = DefaultHasher::new();
        unwell.hash(&mut hash);
        if unwell.is_empty() { 0 } else { hash.finish() }
    }
}
