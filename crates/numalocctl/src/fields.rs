//! Fields of the API's messages as the values that this program works with.

use numaloc_api::v1;
use numaloc_core::{NodeId, NodeSet};
use prost_types::Timestamp;
use std::time::{Duration, SystemTime};

/// A number of bytes, pages or calls. The daemon sends none below 0.
pub fn amount(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub fn node(index: i32) -> u32 {
    u32::try_from(index).unwrap_or(0)
}

/// Memory on the nodes that are meant.
pub fn bytes_on(memory: &[v1::NodeBytes], is_meant: impl Fn(u32) -> bool) -> u64 {
    memory.iter().filter(|on| is_meant(node(on.node_id))).map(|on| amount(on.bytes)).sum()
}

/// The nodes that have memory.
pub fn with_memory(topology: &v1::Topology) -> NodeSet {
    let nodes = topology.nodes.iter().filter(|node| node.total_bytes > 0);
    nodes.map(|on| NodeId(node(on.node_id))).collect()
}

/// A duration; 0 if it is not set. The daemon sends none below 0.
pub fn span(duration: Option<prost_types::Duration>) -> Duration {
    duration.and_then(|duration| duration.try_into().ok()).unwrap_or_default()
}

/// A duration in seconds; 0 if it is not set.
pub fn seconds(duration: Option<prost_types::Duration>) -> f64 {
    span(duration).as_secs_f64()
}

/// The name of an enum's value for people, `target_gone` for SCHEDULE_STATE_TARGET_GONE; `unknown` for a value of a
/// newer daemon.
pub fn word(full: &str, prefix: &str) -> String {
    match full.strip_prefix(prefix).unwrap_or(full) {
        "UNSPECIFIED" => "unknown".to_owned(),
        name => name.to_ascii_lowercase(),
    }
}

/// A time to the second, for tables.
pub fn short(time: Timestamp) -> String {
    Timestamp { nanos: 0, ..time }.to_string()
}

/// Whole seconds from a time to `now`; 0 if the time is in the future.
pub fn age(time: Timestamp, now: SystemTime) -> u64 {
    let time = SystemTime::try_from(time).unwrap_or(now);
    now.duration_since(time).unwrap_or_default().as_secs()
}
