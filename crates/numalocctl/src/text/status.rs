//! `status`.

use super::{fields::fields, table::clean};
use crate::{
    doc::StatusDoc,
    output::View,
    units::{size, span},
};

/// What systemctl status would show, and what only the daemon knows.
pub fn status(document: &StatusDoc, _: View) -> String {
    let head = format!("numalocd {} at {}\n", document.version, document.endpoint);
    let since = match (document.start_time, document.uptime_seconds) {
        (Some(time), Some(uptime)) => format!("{}; {} ago", time.short(), span(uptime)),
        _ => String::new(),
    };
    let jobs = document.jobs.iter().map(|entry| format!("{} {}", entry.count, entry.state.name()));
    let jobs: Vec<_> = jobs.collect();
    let jobs = if jobs.is_empty() { "none".to_owned() } else { jobs.join(", ") };
    let problems = if document.problems.is_empty() { "none" } else { "" };
    let mut text = clean(head.trim_end()) + "\n";
    text += &fields(
        [
            ("since", since),
            ("you are", format!("{} ({})", document.caller, document.role)),
            ("jobs", jobs),
            ("schedules", document.schedules.to_string()),
            ("workloads", document.workloads.to_string()),
            ("watches", document.watches.to_string()),
            ("moved", size(document.moved_bytes)),
            ("problems", problems.to_owned()),
        ]
        .into_iter()
        .chain(document.problems.iter().map(|problem| ("problem", problem.clone()))),
    );
    text
}
