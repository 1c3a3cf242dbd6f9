//! Prints the answers of `numalocctl advise` as text.

use super::{
    benefit::benefit,
    colour::{self, Style},
    left_out::left_out,
};
use crate::{
    clean::clean,
    fields,
    output::View,
    units::{counted, list, percent, seconds, size},
};
use numaloc_api::v1::{self, FindingKind, MemorySource, finding::Who};
use std::fmt::Write;

/// A paragraph for each finding: the problem, the benefit of a change, and the commands.
pub fn advice(answer: &v1::GetAdviceResponse, view: View) -> String {
    let advice = answer.advice.clone().unwrap_or_default();
    let mut text = String::new();
    for (number, finding) in (1..).zip(&advice.findings) {
        let (what, brings) = finding_lines(finding);
        let _ = writeln!(text, "{number}. {what}");
        let _ = writeln!(text, "   {brings}");
        if view.wide {
            let brings = finding.benefit.as_ref().and_then(benefit);
            if let Some(brings) = brings {
                let _ = writeln!(text, "   benefit: {brings}");
            }
            let _ = writeln!(text, "   {}", known(finding));
        }
        for command in &finding.commands {
            let _ = writeln!(text, "     {}", clean(command));
        }
        text.push('\n');
    }
    let text = text + &advice_end(answer);
    colour::words(&text, view, |line| match line {
        _ if line.starts_with("     ") => Some((line.trim_start(), Style::Command)),
        _ if line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(". ") => {
            Some((line, Style::Heading))
        }
        _ if line.starts_with("left out:") => Some(("left out:", Style::Warning)),
        _ if line.starts_with("not seen:") => Some(("not seen:", Style::Warning)),
        _ => None,
    })
}

/// The findings, each with its subject, and the effect of the commands.
pub fn finding_lines(finding: &v1::Finding) -> (String, String) {
    (title(finding) + &why(finding), brings(finding))
}

/// The lines below the findings.
pub fn advice_end(answer: &v1::GetAdviceResponse) -> String {
    let advice = answer.advice.clone().unwrap_or_default();
    let looked = counted(advice.subject_count, "process or cgroup", "processes and cgroups");
    let looked = match advice.findings.is_empty() {
        true => format!("nothing to advise: {looked} with enough memory checked\n"),
        false => {
            format!(
                "{looked} with enough memory checked; carry it out from the top, and run advise again\n"
            )
        }
    };
    looked + &node_fit(&advice) + &left_out(&answer.missing) + &unseen(&advice)
}

/// The share of the memory that belongs to processes that would fit on one node.
fn node_fit(advice: &v1::Advice) -> String {
    let (fit, all) = (fields::amount(advice.node_fit_bytes), fields::amount(advice.memory_bytes));
    if all == 0 {
        return String::new();
    }
    let (percent, count) = (percent(100.0 * fit as f64 / all as f64), advice.node_fit_count);
    format!(
        "NUMA fit: {} of their {} ({percent} %) belong to {count} of {} that fit on one node\n",
        size(fit),
        size(all),
        advice.subject_count
    )
}

/// The number of processes and cgroups that were not scanned, and what to do about it.
fn unseen(advice: &v1::Advice) -> String {
    let mut text = String::new();
    let processes = |count: i32| counted(count, "process", "processes");
    if advice.unreadable_count > 0 {
        let _ = writeln!(
            text,
            "not seen: {}, for lack of permission; run as root, or with CAP_SYS_PTRACE",
            processes(advice.unreadable_count)
        );
    }
    if advice.left_out_count > 0 {
        let _ = writeln!(
            text,
            "not seen: {} with less memory than the others; raise --min-bytes, or name them with --cgroup",
            counted(advice.left_out_count, "process or cgroup", "processes and cgroups")
        );
    }
    if advice.ended_count > 0 {
        let _ = writeln!(text, "ended meanwhile: {}", processes(advice.ended_count));
    }
    text
}

/// Whom a finding is about, with a colon.
pub fn title(finding: &v1::Finding) -> String {
    match &finding.who {
        Some(Who::Cgroup(path)) if finding.name.is_empty() || finding.name == *path => {
            format!("cgroup {}: ", clean(path))
        }
        Some(Who::Cgroup(_)) => format!("cgroup of {}: ", clean(&finding.name)),
        Some(Who::Process(process)) => {
            format!("{} (process {}): ", clean(&finding.name), process.pid)
        }
        None => "this host: ".into(),
    }
}

fn nodes(nodes: &[i32]) -> String {
    let word = if nodes.len() == 1 { "node" } else { "nodes" };
    format!("{word} {}", list(nodes))
}

fn why(finding: &v1::Finding) -> String {
    let (now, home) = (nodes(&finding.from_node_ids), nodes(&finding.home_node_ids));
    let (bytes, all) = (size(finding.bytes), size(finding.resident_bytes));
    match finding.kind() {
        FindingKind::PinnedRemote => {
            format!("runs on {now}, and {bytes} of its {all} are elsewhere")
        }
        FindingKind::PinnedAcross => format!("is pinned to {now}, and all of it fits on {home}"),
        FindingKind::UnpinnedFits => format!("may run everywhere, and all of it fits on {home}"),
        FindingKind::Bound => {
            format!(
                "runs on {now}, and its memory policy binds {bytes} elsewhere; start it with another policy"
            )
        }
        FindingKind::Uneven => {
            format!("works on {now}, and its {all} are not spread as its CPUs are")
        }
        FindingKind::Overcommitted => {
            format!(
                "is pinned to {now}, where too little is left for it, and fits on {home}: its pin would have to change"
            )
        }
        FindingKind::Helper => {
            format!("works on {home}, but threads that hardly work may run on {now}")
        }
        FindingKind::Balancing => {
            "the kernel's balancing makes memory fault, and all busy threads are pinned".into()
        }
        FindingKind::Thp => "huge pages are refused even to programs that ask for them".into(),
        FindingKind::Hugetlb => {
            format!("runs on {now}, and {bytes} of its hugetlb pages are elsewhere")
        }
        FindingKind::MemsForbid => {
            format!("runs on {now}, and its cpuset.mems forbids memory there")
        }
        FindingKind::Device => {
            format!("has devices of {home} open, and {bytes} of its {all} are elsewhere")
        }
        FindingKind::Storage => {
            let storage = size(finding.storage_bytes);
            format!(
                "runs on {now}, and maps {storage} of storage of {home}, which cannot move: its pin would have to change"
            )
        }
        // Only a newer daemon knows it.
        FindingKind::Unspecified => {
            format!("kind {} (see the documentation of the daemon's version)", finding.kind)
        }
    }
}

fn brings(finding: &v1::Finding) -> String {
    let flow = |from, to, bytes| format!("{} from node {from} to node {to}", size(bytes));
    let flows = finding.flows.iter().map(|on| flow(on.from_node_id, on.to_node_id, on.bytes));
    let flows = flows.collect::<Vec<_>>().join(", ");
    let uses = format!("; it uses {:.1} CPUs", finding.used_cpus);
    match (finding.bytes, &finding.who) {
        (_, None) => "changes a setting of the kernel until the next boot".into(),
        (0, _) => format!("moves nothing: its memory is there already{uses}"),
        _ => {
            let time = seconds(fields::seconds(finding.expected_time));
            format!("moves {flows} in about {time}{uses}")
        }
    }
}

/// Its precision and age.
fn known(finding: &v1::Finding) -> String {
    let age = finding
        .age
        .map_or(String::new(), |age| format!(", {} old", seconds(fields::seconds(Some(age)))));
    match finding.source() {
        MemorySource::Unspecified => "a setting of the kernel".into(),
        MemorySource::Counted => {
            format!("memory: the kernel's count, which may be off by some MiB{age}")
        }
        MemorySource::Sampled => {
            let pages = finding.sampled_pages;
            format!(
                "memory: by {pages} pages of its page map; a node's share may be off by some percent{age}"
            )
        }
        MemorySource::Scanned => format!("memory: all of its page map{age}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_types::Duration;

    fn found() -> v1::Finding {
        let millis = |millis: i32| Some(Duration { seconds: 0, nanos: millis * 1_000_000 });
        v1::Finding {
            kind: FindingKind::UnpinnedFits.into(),
            who: Some(Who::Process(v1::ProcessId { pid: 4711, start_time_ticks: 1 })),
            name: "re\u{1b}[2Jdis".into(),
            resident_bytes: 3 << 30,
            used_cpus: 1.5,
            from_node_ids: vec![0, 1],
            home_node_ids: vec![1],
            cpus: "8-15".into(),
            mems_node_ids: Vec::new(),
            flows: vec![v1::Flow { from_node_id: 0, to_node_id: 1, bytes: 1 << 30 }],
            bytes: 1 << 30,
            expected_time: millis(720),
            weight: 1e9,
            benefit: Some(v1::Benefit {
                min_percent: 0.0,
                max_percent: 20.0,
                source: v1::LatencySource::Bench.into(),
                latency_before: 125.0,
                latency_after: 100.0,
            }),
            source: MemorySource::Sampled.into(),
            sampled_pages: 262_144,
            age: millis(250),
            storage_bytes: 0,
            commands: vec!["taskset -acp 8-15 4711".into(), "numalocctl migrate --pid 4711".into()],
        }
    }

    fn shown(findings: Vec<v1::Finding>, unreadable_count: i32) -> String {
        let is_some = !findings.is_empty();
        let advice = v1::Advice {
            findings,
            subject_count: 12,
            unreadable_count,
            memory_bytes: if is_some { 4 << 30 } else { 0 },
            node_fit_bytes: 3 << 30,
            node_fit_count: 9,
            ..Default::default()
        };
        let answer = v1::GetAdviceResponse { advice: Some(advice), missing: Vec::new() };
        super::advice(&answer, View { wide: true, ..View::TABLE })
    }

    #[test]
    fn a_finding_is_said_with_its_commands() {
        let host = v1::Finding {
            kind: FindingKind::Balancing.into(),
            who: None,
            benefit: None,
            name: String::new(),
            source: 0,
            commands: vec!["echo 0 > /proc/sys/kernel/numa_balancing".into()],
            ..found()
        };
        let cgroup = v1::Finding {
            kind: FindingKind::Overcommitted.into(),
            who: Some(Who::Cgroup("/a b".into())),
            name: "/a b".into(),
            bytes: 0,
            flows: Vec::new(),
            benefit: None,
            source: MemorySource::Counted.into(),
            commands: vec!["echo 8-15 > '/sys/fs/cgroup/a b/cpuset.cpus'".into()],
            ..found()
        };
        let text = shown(vec![found(), cgroup, host], 3);
        let expected = "\
1. re?[2Jdis (process 4711): may run everywhere, and all of it fits on node 1
   moves 1.0 GiB from node 0 to node 1 in about 720 ms; it uses 1.5 CPUs
   benefit: 0 to 20 % less time on memory accesses (bench: 100 ns local, 125 ns remote; if all memory is used alike)
   memory: by 262144 pages of its page map; a node's share may be off by some percent, 250 ms old
     taskset -acp 8-15 4711
     numalocctl migrate --pid 4711

2. cgroup /a b: is pinned to nodes 0,1, where too little is left for it, and fits on node 1: its pin would have to change
   moves nothing: its memory is there already; it uses 1.5 CPUs
   memory: the kernel's count, which may be off by some MiB, 250 ms old
     echo 8-15 > '/sys/fs/cgroup/a b/cpuset.cpus'

3. this host: the kernel's balancing makes memory fault, and all busy threads are pinned
   changes a setting of the kernel until the next boot
   a setting of the kernel
     echo 0 > /proc/sys/kernel/numa_balancing

12 processes and cgroups with enough memory checked; carry it out from the top, and run advise again
NUMA fit: 3.0 GiB of their 4.0 GiB (75.0 %) belong to 9 of 12 that fit on one node
not seen: 3 processes, for lack of permission; run as root, or with CAP_SYS_PTRACE
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_cgroup_has_the_name_of_its_container() {
        let title = |name: &str| {
            let who = Some(Who::Cgroup("/docker/0123".into()));
            super::title(&v1::Finding { who, name: name.to_owned(), ..v1::Finding::default() })
        };
        assert_eq!(title("shop/db-0/redis"), "cgroup of shop/db-0/redis: ");
        assert_eq!(title("/docker/0123"), "cgroup /docker/0123: ");
        // A daemon from before that field.
        assert_eq!(title(""), "cgroup /docker/0123: ");
    }

    #[test]
    fn nothing_is_said_as_well() {
        let text = "nothing to advise: 12 processes and cgroups with enough memory checked\n";
        assert_eq!(shown(Vec::new(), 0), text);
    }

    #[test]
    fn each_kind_has_words() {
        for kind in numaloc_core::advise::FindingKind::ALL {
            let text = why(&v1::Finding { kind: FindingKind::from(kind).into(), ..found() });
            assert!(!text.contains("documentation"), "{text}");
        }
        let newer = why(&v1::Finding { kind: 99, ..found() });
        assert!(newer.contains("kind 99"), "{newer}");
    }
}
