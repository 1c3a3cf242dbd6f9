//! Recorded hosts with the advice for each, what numad does wrong, and properties of random hosts.

mod build;
mod gain;
mod hosts;
mod numad;
mod properties;

use super::{Finding, HostLook, advise, follow};
use build::MIN;
use std::fmt::Write;

/// Findings as text, for snapshots.
fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let Finding { kind, name, used_cpus, bytes, from_nodes, home, .. } = finding;
        let who = if name.is_empty() { "host" } else { name };
        let _ = write!(text, "{}: {who}, {used_cpus:.1} CPUs", kind.name());
        let _ = writeln!(text, ", home {from_nodes} -> {home}, {} MiB", bytes >> 20);
        for ((from, to), bytes) in &finding.flows {
            let _ = writeln!(text, "  {from} -> {to}: {} MiB", bytes >> 20);
        }
        finding.steps.iter().for_each(|step| text += &format!("  $ {}\n", step.shell()));
    }
    if text.is_empty() { "nothing\n".into() } else { text }
}

/// The host after all of this has been followed.
fn followed(look: &HostLook, findings: &[Finding]) -> HostLook {
    findings.iter().fold(look.clone(), |look, finding| follow(&look, finding))
}

#[test]
fn recorded_hosts_get_the_advice_that_is_recorded_with_them() {
    let hosts = hosts::all();
    assert!(hosts.len() >= 30, "{}", hosts.len());
    for (name, look) in hosts {
        let findings = advise(&look, MIN);
        insta::assert_snapshot!(name, text(&findings));
        let again = advise(&followed(&look, &findings), MIN);
        assert_eq!(text(&again), "nothing\n", "{name}: after all was followed");
    }
}
