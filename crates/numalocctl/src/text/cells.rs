//! Single values as text, in tables and lists.

use crate::{
    fields::{self, amount},
    output::View,
    units::{self, size},
};
use numaloc_api::{Known, v1};
use numaloc_core::{Reason, Skip};
use prost_types::Timestamp;
use std::{collections::BTreeMap, fmt::Write as _, time::SystemTime};

/// A time to the second; a dash if there is none.
pub fn short(time: Option<Timestamp>) -> String {
    time.map_or("-".to_owned(), fields::short)
}

/// Time since `time`, such as `5m`; a dash if there is none.
pub fn age(time: Option<Timestamp>, view: View) -> String {
    let ago = |time| units::age(fields::age(time, view.now) as f64);
    time.map_or("-".to_owned(), ago)
}

/// Time until `time`, such as `in 5m`; `now` if it has passed, and a dash if there is none.
pub fn until(time: Option<Timestamp>, view: View) -> String {
    let Some(time) = time else { return "-".to_owned() };
    let time = SystemTime::try_from(time).unwrap_or(SystemTime::UNIX_EPOCH);
    match time.duration_since(view.now) {
        Ok(rest) if rest.as_secs() > 0 => format!("in {}", units::age(rest.as_secs_f64())),
        _ => "now".to_owned(),
    }
}

/// The text, cut to the room in a table, unless all is to be shown.
pub fn bounded(text: String, view: View) -> String {
    const MOST: usize = 40;
    match view.wide || text.chars().count() <= MOST {
        true => text,
        false => text.chars().take(MOST - 3).chain("...".chars()).collect(),
    }
}

/// A time to the second; nothing if there is none.
pub fn time(time: Option<Timestamp>) -> String {
    time.map_or(String::new(), fields::short)
}

/// The text; a dash if it is empty.
pub fn dash(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}

/// `3.0 GiB on node 1, 4.0 GiB on node 2`, without nodes that have none.
pub fn on_nodes(nodes: &[v1::NodeBytes]) -> String {
    let on = |on: &v1::NodeBytes| format!("{} on node {}", size(on.bytes), on.node_id);
    nodes.iter().filter(|on| amount(on.bytes) > 0).map(on).collect::<Vec<_>>().join(", ")
}

pub fn schedule_state(schedule: &v1::Schedule) -> String {
    fields::word(schedule.state().as_str_name(), "SCHEDULE_STATE_")
}

pub fn labels(labels: &BTreeMap<String, String>) -> String {
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

/// The remedy for memory that stays because several processes map it and it is hidden which.
pub const SHOW_FRAMES: &str = "the drop-in frames for numalocd (dpkg-reconfigure numaloc), or numalocctl --standalone as root";

/// The reason why memory stays, by the source of its pages' locations.
pub fn why(reason: i32, source: v1::PageSource) -> String {
    match Reason::known(reason).flatten() {
        Some(Reason::Shared) if source == v1::PageSource::MovePages => format!(
            "mapped by several processes, and hidden from this one which these are; what shows it: {SHOW_FRAMES}"
        ),
        other => of_reason(reason, other),
    }
}

fn of_reason(reason: i32, known: Option<Reason>) -> String {
    match known {
        Some(reason @ Reason::StallBound) => format!("{reason}; --include-gigantic moves it"),
        Some(reason) => reason.to_string(),
        None => format!("reason {reason}, which this numalocctl is too old to know"),
    }
}

/// The reason why a process is skipped; `None` if it takes part. A reason that only a newer daemon knows is shown as
/// the most common one.
pub fn skip(process: &v1::ProcessLocality) -> Option<&'static str> {
    match v1::SkipReason::try_from(process.skip) {
        Ok(v1::SkipReason::Unspecified) => None,
        Ok(v1::SkipReason::OneNode) => Some(Skip::OneNode.message()),
        Ok(v1::SkipReason::NoLocalMemory) => Some(Skip::NoLocalMemory.message()),
        Ok(v1::SkipReason::NoTargetNode) | Err(_) => Some(Skip::NoTargetNode.message()),
    }
}

/// Pid and name of a process, such as `4711 (redis-server)`.
pub fn process(process: Option<v1::ProcessId>, comm: &str) -> String {
    format!("{} ({})", process.unwrap_or_default().pid, crate::clean::clean(comm))
}

/// The backing of a range of memory.
pub fn kind(kind: v1::MemoryKind) -> String {
    fields::word(kind.as_str_name(), "MEMORY_KIND_")
}

/// A line for the page tables of the processes; nothing if they are small.
pub fn page_tables(processes: &[v1::ProcessLocality]) -> String {
    let bytes: i64 = processes.iter().map(|process| process.page_table_bytes).sum();
    match bytes < 1 << 20 {
        true => String::new(),
        false => format!(
            "page tables: {}, which stay; on which nodes, the kernel does not report\n",
            size(bytes)
        ),
    }
}

/// A line for each kind of memory that can never move.
pub fn fixed(text: &mut String, all: &[v1::FixedMemory]) {
    for fixed in all {
        let nodes =
            fixed.nodes.iter().map(|on| format!("{} on node {}", size(on.bytes), on.node_id));
        let nodes = nodes.collect::<Vec<_>>().join(", ");
        let nodes = if nodes.is_empty() { nodes } else { format!(": {nodes}") };
        let what = match fixed.kind() {
            v1::FixedKind::Kernel => "of kernel objects (rings, buffers)",
            v1::FixedKind::Secret => "of secret memory",
            v1::FixedKind::Device => "of devices",
            v1::FixedKind::Dax => "of storage (DAX)",
            // A kind that only a newer daemon knows.
            v1::FixedKind::Unspecified => "of another kind",
        };
        let _ = writeln!(text, "cannot move: {} {what}{nodes}", size(fixed.mapped_bytes));
    }
}

/// The way the nodes of pages were found; `None` if it is not known.
pub fn source(source: v1::PageSource) -> Option<&'static str> {
    match source {
        v1::PageSource::Unspecified => None,
        v1::PageSource::Pagemap => Some("/proc/PID/pagemap"),
        v1::PageSource::MovePages => Some(
            "move_pages(2), because page frame numbers are hidden without CAP_SYS_ADMIN; pages that several processes map count as mapped by processes outside the target, too",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ages_and_times_to_come_are_short() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let view = View { now, ..View::TABLE };
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let ages = [at(995), at(0), at(1200), None].map(|time| age(time, view));
        assert_eq!(ages, ["5s", "17m", "0s", "-"]);
        let times = [at(1300), at(999), None].map(|time| until(time, view));
        assert_eq!(times, ["in 5m", "now", "-"]);
    }

    #[test]
    fn long_cells_are_cut_but_not_where_all_is_shown() {
        let long = "x".repeat(41);
        assert_eq!(bounded(long.clone(), View::TABLE), "x".repeat(37) + "...");
        assert_eq!(bounded("x".repeat(40), View::TABLE), "x".repeat(40));
        assert_eq!(bounded(long.clone(), View { wide: true, ..View::TABLE }), long);
    }
}
