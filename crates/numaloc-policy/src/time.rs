//! Times as Kubernetes writes them: RFC 3339, in whole seconds and UTC.

use std::time::SystemTime;

pub fn written(time: SystemTime) -> String {
    prost_types::Timestamp { nanos: 0, ..numaloc_api::timestamp(time) }.to_string()
}

/// Parses a time; `None`: it is not a time after 1970.
pub fn read(text: &str) -> Option<SystemTime> {
    let stamp: prost_types::Timestamp = text.parse().ok()?;
    (stamp.seconds >= 0).then(|| SystemTime::try_from(stamp).ok())?
}
