//! `status`.

use super::{fields::fields, holds::words};
use crate::{
    clean::clean,
    doc::{CeilingsDoc, StatusDoc},
    output::View,
    units::{size, span},
};

/// The daemon's status: its state as `systemctl status` would show it, and what only the daemon knows.
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
            ("at most", document.ceilings.as_ref().map(ceilings).unwrap_or_default()),
            ("jobs", jobs),
            ("schedules", document.schedules.to_string()),
            ("workloads", document.workloads.to_string()),
            ("watches", document.watches.to_string()),
            ("moved", size(document.moved_bytes)),
            ("problems", problems.to_owned()),
        ]
        .into_iter()
        .chain(words(&document.holds).into_iter().map(|hold| ("held", hold)))
        .chain(document.problems.iter().map(|problem| ("problem", problem.clone()))),
    );
    text
}

/// What the caller may ask for.
fn ceilings(ceilings: &CeilingsDoc) -> String {
    let allowed = [
        ("shared pages", ceilings.include_shared),
        ("bound memory", ceilings.include_bound),
        ("named nodes", ceilings.named_nodes),
        ("fresh hugetlb pages", ceilings.fresh_hugetlb),
        ("reserve", ceilings.reserve_bytes),
        ("pausing NUMA balancing", ceilings.pause_numa_balancing),
        ("offload", ceilings.offload),
    ];
    let mut parts = vec![
        format!("profile {}", ceilings.profile),
        format!("class {}", ceilings.qos_class),
        format!("{} workers", ceilings.workers),
    ];
    parts.extend(ceilings.rate_bytes_per_second.map(|rate| format!("{}/s", size(rate))));
    parts.extend(allowed.into_iter().filter(|(_, is)| *is).map(|(what, _)| what.to_owned()));
    parts.join(", ")
}
