//! Single values as text, in tables and lists.

use crate::fields;
use numaloc_api::{Known, v1};
use numaloc_core::{Reason, Skip};
use prost_types::Timestamp;
use std::collections::BTreeMap;

/// A time to the second; a dash if there is none.
pub fn short(time: Option<Timestamp>) -> String {
    time.map_or("-".to_owned(), fields::short)
}

/// A time to the second; nothing if there is none.
pub fn time(time: Option<Timestamp>) -> String {
    time.map_or(String::new(), fields::short)
}

/// The text; a dash if it is empty.
pub fn dash(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}

pub fn labels(labels: &BTreeMap<String, String>) -> String {
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

pub fn why(reason: i32) -> String {
    match Reason::known(reason).flatten() {
        Some(reason @ Reason::StallBound) => format!("{reason}; --include-gigantic moves it"),
        Some(reason) => reason.to_string(),
        None => format!("reason {reason}, which this numalocctl is too old to know"),
    }
}

/// Why a process is skipped; `None` if it takes part. A reason that only a newer daemon knows is shown as that of most processes.
pub fn skip(process: &v1::ProcessLocality) -> Option<&'static str> {
    match v1::SkipReason::try_from(process.skip) {
        Ok(v1::SkipReason::Unspecified) => None,
        Ok(v1::SkipReason::NoLocalMemory) => Some(Skip::NoLocalMemory.message()),
        Ok(v1::SkipReason::NoTargetNode) | Err(_) => Some(Skip::NoTargetNode.message()),
    }
}

/// Pid and name of a process, such as `4711 (redis-server)`.
pub fn process(process: Option<v1::ProcessId>, comm: &str) -> String {
    format!("{} ({})", process.unwrap_or_default().pid, crate::clean::clean(comm))
}

/// What backs a range of memory.
pub fn kind(kind: v1::MemoryKind) -> String {
    fields::word(kind.as_str_name(), "MEMORY_KIND_")
}

/// How the nodes of pages were found; `None` if it is not known.
pub fn source(source: v1::PageSource) -> Option<&'static str> {
    match source {
        v1::PageSource::Unspecified => None,
        v1::PageSource::Pagemap => Some("pagemap, as page frame numbers can be read"),
        v1::PageSource::MovePages => Some(
            "move_pages query, as page frame numbers are hidden without CAP_SYS_ADMIN; what is mapped by several processes counts as shared with strangers",
        ),
    }
}
