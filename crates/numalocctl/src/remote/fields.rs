//! Fields of messages in the form that documents have.

use crate::{
    doc::{LeftDoc, Why},
    time::Time,
};
use numaloc_api::{left_bytes, v1};
use numaloc_core::{Reason, Share};
use std::{collections::BTreeMap, time::Duration};

/// A number of bytes, pages or calls. The daemon sends none below 0.
pub fn amount(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A node.
pub fn node(index: i32) -> u32 {
    u32::try_from(index).unwrap_or(0)
}

/// Nodes.
pub fn nodes(indexes: &[i32]) -> Vec<u32> {
    indexes.iter().map(|&index| node(index)).collect()
}

/// The text; `None` if it is empty.
pub fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// A duration. The daemon sends none below 0.
pub fn span(duration: prost_types::Duration) -> Duration {
    Duration::try_from(duration).unwrap_or_default()
}

/// A duration in seconds; 0 if it is not set.
pub fn seconds(duration: Option<prost_types::Duration>) -> f64 {
    duration.map_or(0.0, |duration| span(duration).as_secs_f64())
}

/// A point in time.
pub fn time(timestamp: Option<prost_types::Timestamp>) -> Option<Time> {
    timestamp.map(|at| Time::new(at.seconds, at.nanos))
}

/// A share.
pub fn share(share: Option<&v1::Share>) -> Share {
    let bytes = |share: &v1::Share| Share {
        local_bytes: amount(share.local_bytes),
        remote_bytes: amount(share.remote_bytes),
    };
    share.map(bytes).unwrap_or_default()
}

/// The name of an enum's value: `running` for JOB_STATE_RUNNING.
pub fn name(full: &str, prefix: &str) -> String {
    full.strip_prefix(prefix).unwrap_or(full).to_ascii_lowercase()
}

/// Bytes that stay, by reason.
pub fn left(left: &[v1::LeftBytes]) -> Vec<LeftDoc> {
    let account = v1::Account { left: left.to_vec(), ..v1::Account::default() };
    let (known, unknown): (BTreeMap<Reason, u64>, _) = left_bytes(&account);
    let known = known.into_iter().map(|(reason, bytes)| (Why::Known(reason), bytes));
    let unknown = unknown.into_iter().map(|(number, bytes)| (Why::Unknown(number), bytes));
    known.chain(unknown).map(|(reason, bytes)| LeftDoc { reason, bytes }).collect()
}

/// A reason from its number.
pub fn why(reason: i32) -> Why {
    let left = left(&[v1::LeftBytes { reason, bytes: 0 }]);
    left.first().map_or(Why::Unknown(reason), |entry| entry.reason)
}
