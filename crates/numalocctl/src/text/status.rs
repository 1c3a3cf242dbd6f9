//! Prints the answer of `numalocctl status` as text.

use super::{fields::fields, holds::words};
use crate::{
    clean::clean,
    fields::{age, short, word},
    units::{size, span},
};
use numaloc_api::v1;
use std::time::SystemTime;

/// The status of the daemon at `endpoint`: its state as `systemctl status` would show it, and what only the daemon
/// knows.
pub fn status(status: &v1::GetStatusResponse, endpoint: &str, now: SystemTime) -> String {
    let head = format!("numalocd {} at {endpoint}\n", status.version);
    let since =
        status.start_time.map(|time| format!("{}; {} ago", short(time), span(age(time, now))));
    let count = |entry: &v1::JobStateCount| {
        format!("{} {}", entry.count, word(entry.state().as_str_name(), "JOB_STATE_"))
    };
    let jobs: Vec<_> = status.jobs.iter().map(count).collect();
    let holds = status.holds.unwrap_or_default();
    let jobs = if jobs.is_empty() { "none".to_owned() } else { jobs.join(", ") };
    let problems = if status.problems.is_empty() { "none" } else { "" };
    let mut text = clean(head.trim_end()) + "\n";
    text += &fields(
        [
            ("since", since.unwrap_or_default()),
            ("you are", format!("{} ({})", status.caller, status.role)),
            ("at most", status.ceilings.as_ref().map(ceilings).unwrap_or_default()),
            ("jobs", jobs),
            ("schedules", status.schedules.to_string()),
            ("workloads", status.workloads.to_string()),
            ("watches", status.watches.to_string()),
            ("moved", size(status.moved_bytes)),
            ("problems", problems.to_owned()),
        ]
        .into_iter()
        .chain(words(&holds).into_iter().map(|hold| ("held", hold)))
        .chain(status.problems.iter().map(|problem| ("problem", problem.clone()))),
    );
    text
}

fn ceilings(ceilings: &v1::Ceilings) -> String {
    let allowed = [
        ("shared pages", ceilings.include_shared),
        ("network files", ceilings.include_network),
        ("bound memory", ceilings.include_bound),
        ("gigantic pages", ceilings.include_gigantic),
        ("named nodes", ceilings.named_nodes),
        ("fresh hugetlb pages", ceilings.fresh_hugetlb),
        ("reserve", ceilings.reserve_bytes),
        ("pausing NUMA balancing", ceilings.pause_numa_balancing),
        ("offload", ceilings.offload),
    ];
    let mut parts = vec![
        format!("profile {}", word(ceilings.profile().as_str_name(), "PROFILE_")),
        format!("class {}", word(ceilings.qos_class().as_str_name(), "QOS_CLASS_")),
        format!("{} workers", ceilings.workers),
    ];
    parts.extend(ceilings.rate_bytes_per_second.map(|rate| format!("{}/s", size(rate))));
    parts.extend(allowed.into_iter().filter(|(_, is)| *is).map(|(what, _)| what.to_owned()));
    parts.join(", ")
}
