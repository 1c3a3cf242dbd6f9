//! The filter of events, as a message that the daemon applies.

use numaloc_api::{timestamp, v1, value::EventFilter};

/// A filter as a message.
pub fn wanted(filter: &EventFilter) -> v1::EventFilter {
    v1::EventFilter {
        types: filter.types.iter().map(|&kind| v1::EventType::from(kind).into()).collect(),
        job: filter.job.as_ref().map(ToString::to_string).unwrap_or_default(),
        schedule: filter.schedule.as_ref().map(ToString::to_string).unwrap_or_default(),
        since: filter.since.map(timestamp),
        creator: filter.creator.clone().unwrap_or_default(),
        labels: filter.labels.clone(),
    }
}
