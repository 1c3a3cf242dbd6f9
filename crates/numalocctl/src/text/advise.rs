//! `advise`.

use super::left_out::left_out;
use crate::{
    clean::clean,
    doc::{AdviceDoc, FindingDoc},
    output::View,
    units::{counted, list, seconds, size},
};
use std::fmt::Write;

/// A paragraph a finding: what is wrong, what it brings, and the commands.
pub fn advice(document: &AdviceDoc, view: View) -> String {
    let mut text = String::new();
    for (number, finding) in (1..).zip(&document.findings) {
        let _ = writeln!(text, "{number}. {}{}", who(finding), why(finding));
        let _ = writeln!(text, "   {}", brings(finding));
        if view.wide {
            let _ = writeln!(text, "   {}", known(finding));
        }
        for command in &finding.commands {
            let _ = writeln!(text, "     {}", clean(command));
        }
        text.push('\n');
    }
    let looked = counted(document.subject_count, "process or cgroup", "processes and cgroups");
    let enough = "with enough memory";
    let _ = match document.findings.is_empty() {
        true => writeln!(text, "nothing to advise: {looked} {enough} looked at"),
        false => writeln!(text, "{looked} {enough} looked at; follow from the top, and ask again"),
    };
    text + &left_out(&document.missing) + &unseen(document)
}

/// What was not seen.
fn unseen(document: &AdviceDoc) -> String {
    let mut text = String::new();
    let processes = |count| counted(count, "process", "processes");
    if document.unreadable_count > 0 {
        let _ = writeln!(
            text,
            "not seen: {} that may not be read; run as root, or with CAP_SYS_PTRACE",
            processes(document.unreadable_count)
        );
    }
    if document.left_out_count > 0 {
        let _ = writeln!(
            text,
            "not seen: {} with less memory than the others; raise --min-bytes, or name them with --cgroup",
            counted(document.left_out_count, "process or cgroup", "processes and cgroups")
        );
    }
    if document.ended_count > 0 {
        let _ = writeln!(text, "ended meanwhile: {}", processes(document.ended_count));
    }
    text
}

fn who(finding: &FindingDoc) -> String {
    match (&finding.cgroup, finding.pid) {
        (Some(path), _) => format!("cgroup {}: ", clean(path)),
        (None, Some(pid)) => format!("{} (process {pid}): ", clean(&finding.name)),
        (None, None) => "this host: ".into(),
    }
}

fn nodes(nodes: &[u32]) -> String {
    let word = if nodes.len() == 1 { "node" } else { "nodes" };
    format!("{word} {}", list(nodes.iter().copied()))
}

fn why(finding: &FindingDoc) -> String {
    let (now, home) = (nodes(&finding.from_nodes), nodes(&finding.home_nodes));
    let (bytes, all) = (size(finding.bytes), size(finding.resident_bytes));
    match &finding.kind[..] {
        "pinned_remote" => format!("runs on {now}, and {bytes} of its {all} are elsewhere"),
        "pinned_across" => format!("is pinned to {now}, and all of it fits on {home}"),
        "unpinned_fits" => format!("may run everywhere, and all of it fits on {home}"),
        "bound" => {
            format!(
                "runs on {now}, and its memory policy binds {bytes} elsewhere; start it with another policy"
            )
        }
        "uneven" => format!("works on {now}, and its {all} are not spread as its CPUs are"),
        "overcommitted" => {
            format!(
                "is pinned to {now}, where too little is left for it, and fits on {home}: its pin would have to change"
            )
        }
        "helper" => format!("works on {home}, but threads that hardly work may run on {now}"),
        "balancing" => {
            "the kernel's balancing makes memory fault, and everybody who works is pinned".into()
        }
        "thp" => "huge pages are refused even to those that ask for them".into(),
        "hugetlb" => format!("runs on {now}, and {bytes} of its hugetlb pages are elsewhere"),
        "mems_forbid" => format!("runs on {now}, and its cpuset.mems forbids memory there"),
        other => format!("{} (see the documentation of the daemon's version)", clean(other)),
    }
}

fn brings(finding: &FindingDoc) -> String {
    let flow = |from, to, bytes| format!("{} from node {from} to node {to}", size(bytes));
    let flows = finding.flows.iter().map(|on| flow(on.from_node, on.to_node, on.bytes));
    let flows = flows.collect::<Vec<_>>().join(", ");
    match (finding.bytes, finding.pid.is_none() && finding.cgroup.is_none()) {
        (_, true) => "changes a setting of the kernel until the next boot".into(),
        (0, _) => format!("moves nothing: its memory is there already{}", uses(finding)),
        _ => {
            format!("moves {flows} in about {}{}", seconds(finding.expected_seconds), uses(finding))
        }
    }
}

fn uses(finding: &FindingDoc) -> String {
    format!("; it uses {:.1} CPUs", finding.used_cpus)
}

/// How exact and how old it is.
fn known(finding: &FindingDoc) -> String {
    let age = finding.age_seconds.map_or(String::new(), |age| format!(", {} old", seconds(age)));
    match (finding.source.as_deref(), finding.sampled_pages) {
        (None, _) => "a setting, as it was read".into(),
        (Some("counted"), _) => {
            format!("memory: the kernel's count, which may be off by some MiB{age}")
        }
        (Some("sampled"), Some(pages)) => {
            format!(
                "memory: by {pages} pages of its page map; a node's share may be off by some percent{age}"
            )
        }
        (Some(_), _) => format!("memory: all of its page map{age}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::FlowDoc;

    fn found() -> FindingDoc {
        FindingDoc {
            kind: "unpinned_fits".into(),
            cgroup: None,
            pid: Some(4711),
            start_time_ticks: Some(1),
            name: "re\u{1b}[2Jdis".into(),
            resident_bytes: 3 << 30,
            used_cpus: 1.5,
            from_nodes: vec![0, 1],
            home_nodes: vec![1],
            cpus: Some("8-15".into()),
            mems_nodes: None,
            flows: vec![FlowDoc { from_node: 0, to_node: 1, bytes: 1 << 30 }],
            bytes: 1 << 30,
            expected_seconds: 0.72,
            weight: 1e9,
            source: Some("sampled".into()),
            sampled_pages: Some(262_144),
            age_seconds: Some(0.25),
            commands: vec!["taskset -acp 8-15 4711".into(), "numalocctl migrate --pid 4711".into()],
        }
    }

    fn shown(findings: Vec<FindingDoc>, unreadable_count: u64) -> String {
        let document = AdviceDoc {
            findings,
            subject_count: 12,
            unreadable_count,
            left_out_count: 0,
            ended_count: 0,
            whole_host: true,
            missing: Vec::new(),
        };
        advice(&document, View { wide: true, headers: true })
    }

    #[test]
    fn a_finding_is_said_with_its_commands() {
        let host = FindingDoc {
            kind: "balancing".into(),
            pid: None,
            name: String::new(),
            source: None,
            commands: vec!["echo 0 > /proc/sys/kernel/numa_balancing".into()],
            ..found()
        };
        let cgroup = FindingDoc {
            kind: "overcommitted".into(),
            cgroup: Some("/a b".into()),
            pid: None,
            bytes: 0,
            flows: Vec::new(),
            source: Some("counted".into()),
            commands: vec!["echo 8-15 > '/sys/fs/cgroup/a b/cpuset.cpus'".into()],
            ..found()
        };
        let text = shown(vec![found(), cgroup, host], 3);
        let expected = "\
1. re?[2Jdis (process 4711): may run everywhere, and all of it fits on node 1
   moves 1.0 GiB from node 0 to node 1 in about 720 ms; it uses 1.5 CPUs
   memory: by 262144 pages of its page map; a node's share may be off by some percent, 250 ms old
     taskset -acp 8-15 4711
     numalocctl migrate --pid 4711

2. cgroup /a b: is pinned to nodes 0,1, where too little is left for it, and fits on node 1: its pin would have to change
   moves nothing: its memory is there already; it uses 1.5 CPUs
   memory: the kernel's count, which may be off by some MiB, 250 ms old
     echo 8-15 > '/sys/fs/cgroup/a b/cpuset.cpus'

3. this host: the kernel's balancing makes memory fault, and everybody who works is pinned
   changes a setting of the kernel until the next boot
   a setting, as it was read
     echo 0 > /proc/sys/kernel/numa_balancing

12 processes and cgroups with enough memory looked at; follow from the top, and ask again
not seen: 3 processes that may not be read; run as root, or with CAP_SYS_PTRACE
";
        assert_eq!(text, expected);
    }

    #[test]
    fn nothing_is_said_as_well() {
        let text = "nothing to advise: 12 processes and cgroups with enough memory looked at\n";
        assert_eq!(shown(Vec::new(), 0), text);
    }

    #[test]
    fn each_kind_has_words() {
        for kind in numaloc_core::advise::Kind::ALL {
            let text = why(&FindingDoc { kind: kind.name().into(), ..found() });
            assert!(!text.contains("documentation"), "{text}");
        }
        let newer = why(&FindingDoc { kind: "kind_99".into(), ..found() });
        assert!(newer.contains("kind_99"), "{newer}");
    }
}
