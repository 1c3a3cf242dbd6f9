//! `doctor`: whether the parts of numaloc in a cluster work.

use crate::{
    Answer,
    cluster::{Api, Failure},
    object::{NODES, age, ago, condition, name, text},
    policies, top,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    time::{Duration, SystemTime},
};

/// An agent that has written nothing for this long does not run: it writes each ten minutes at least.
const STALE: Duration = Duration::from_secs(20 * 60);
/// The condition of agents that are services of their hosts.
const RENEWED: &str = "CredentialsRenewed";
/// For a condition that an agent does not have. Older agents do not know all of them.
const UNREPORTED: &str = "the agent does not report it";
/// Most nodes that a line names.
const NAMED_MAX: usize = 5;

pub async fn run(cluster: &impl Api, now: SystemTime) -> Result<Answer, Failure> {
    let mut checks = Checks::default();
    match top::reported(cluster).await {
        Err(Failure::NotFound(why)) => checks.fail("definitions", &why),
        other => {
            let reported = other?;
            checks.ok("definitions", "the kinds are installed");
            let nodes = match cluster.list(NODES, true).await {
                Err(Failure::Forbidden(_)) => None,
                other => Some(other?),
            };
            agents(&mut checks, &reported, nodes.as_deref(), now);
        }
    }
    let all = policies::read(cluster, None).await;
    match all {
        Err(Failure::Forbidden(why)) => checks.warn("policies", &why),
        other => {
            let all = other?;
            let bad = all.iter().filter_map(|(kind, object, read)| {
                let problem = read.as_ref().err()?;
                Some(format!("{} {}: {problem}", kind.name(), name(object)))
            });
            let bad: Vec<_> = bad.collect();
            match bad.is_empty() {
                true => {
                    checks.ok("policies", &format!("{} policies, each is understood", all.len()))
                }
                false => bad.iter().for_each(|bad| checks.fail("policies", bad)),
            }
        }
    }
    Ok(Answer { text: checks.out, is_well: !checks.has_failed })
}

fn agents(checks: &mut Checks, reported: &[Value], nodes: Option<&[Value]>, now: SystemTime) {
    let names =
        |objects: &[Value]| objects.iter().map(|it| name(it).to_owned()).collect::<BTreeSet<_>>();
    let with = names(reported);
    match nodes {
        None => checks.warn("agents", "the nodes are unknown: listing nodes is forbidden"),
        Some(nodes) => {
            let nodes: Vec<Value> = nodes.iter().filter(|node| is_meant(node)).cloned().collect();
            let without: Vec<_> = names(&nodes).difference(&with).cloned().collect();
            match without.is_empty() {
                true => checks.ok("agents", &format!("all {} nodes have one", nodes.len())),
                false => checks.fail(
                    "agents",
                    &format!(
                        "{} of {} nodes have none: {}; is the DaemonSet's pod there and ready?",
                        without.len(),
                        nodes.len(),
                        some(&without)
                    ),
                ),
            }
        }
    }
    // Without any agent there is nothing good to report either.
    if reported.is_empty() {
        return;
    }
    let is_stale =
        |node: &&Value| ago(text(node, "/status/observedTime"), now).is_none_or(|ago| ago > STALE);
    let stale: Vec<_> = reported.iter().filter(is_stale).map(|it| name(it).to_owned()).collect();
    match stale.is_empty() {
        true => checks.ok("reports", &format!("none is older than {}", age(STALE))),
        false => checks.fail(
            "reports",
            &format!(
                "older than {}: {}; look at the log of the agent there",
                age(STALE),
                some(&stale)
            ),
        ),
    }
    let unreached = without(reported, "DaemonReachable");
    if unreached.is_empty() {
        checks.ok("daemons", "each agent reaches its daemon");
    }
    for (why, nodes) in unreached {
        checks.fail("daemons", &format!("not reached {}: {why}", on(&nodes)));
    }
    // A daemon that is not reached provides no figures either; that is reported already.
    let mut unread = without(reported, "FiguresRead");
    unread.remove("");
    unread.remove(UNREPORTED);
    if unread.is_empty() {
        checks.ok("figures", "each reachable daemon reports its metrics");
    }
    for (why, nodes) in unread {
        checks.warn("figures", &format!("not read {}: {why}", on(&nodes)));
    }
    for (kind, check, fine, wrong) in [
        ("ClusterRead", "cluster", "each agent sees its pods and the policies", "not read"),
        ("PoliciesAccepted", "sources", "policies and ConfigMaps are understood", "not followed"),
        (RENEWED, "credentials", "each agent with a token of its own renews it", "not renewed"),
    ] {
        let mut bad = without(reported, kind);
        bad.remove(UNREPORTED);
        // Agents in pods do not report it.
        if kind == RENEWED && reported.iter().all(|node| condition(node, kind).is_none()) {
            continue;
        }
        if bad.is_empty() {
            checks.ok(check, fine);
        }
        for (why, nodes) in bad {
            checks.fail(check, &format!("{wrong} {}: {why}", on(&nodes)));
        }
    }
    let mut refused = without(reported, "ResultsPosted");
    refused.remove(UNREPORTED);
    if refused.is_empty() {
        checks.ok("results", "events and statuses are posted");
    }
    for (why, nodes) in refused {
        checks.fail("results", &format!("refused by the API server {}: {why}", on(&nodes)));
    }
    let versions: BTreeSet<_> = reported
        .iter()
        .flat_map(|node| [text(node, "/status/agentVersion"), text(node, "/status/daemonVersion")])
        .filter(|version| !version.is_empty())
        .collect();
    let all: Vec<_> = versions.into_iter().map(str::to_owned).collect();
    match all.len() {
        0 | 1 => checks.ok("versions", all.first().map_or("none is known", String::as_str)),
        _ => {
            checks.warn("versions", &format!("agents and daemons have version {}", all.join(", ")))
        }
    }
}

/// Whether the chart has an agent for a node: one with Linux on x86-64, and of a host. Nodes without labels count.
fn is_meant(node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let is = |key: &str, expected: &str| labels[key].as_str().is_none_or(|found| found == expected);
    is("kubernetes.io/os", "linux")
        && is("kubernetes.io/arch", "amd64")
        && labels["type"].as_str() != Some("virtual-kubelet")
}

/// Nodes of which a condition does not hold, by the reason that they give.
fn without<'a>(reported: &'a [Value], kind: &str) -> BTreeMap<&'a str, Vec<String>> {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in reported {
        let why = match condition(node, kind) {
            Some(found) if found["status"] == "True" => continue,
            Some(found) => text(found, "/message"),
            None => UNREPORTED,
        };
        reasons.entry(why).or_default().push(name(node).to_owned());
    }
    reasons
}

/// The number of nodes, with the first few names.
fn on(nodes: &[String]) -> String {
    format!("on {} nodes ({})", nodes.len(), some(nodes))
}

/// The first few names.
fn some(names: &[String]) -> String {
    match names.len() {
        0..=NAMED_MAX => names.join(", "),
        count => format!("{} and {} more", names[..NAMED_MAX].join(", "), count - NAMED_MAX),
    }
}

#[derive(Default)]
struct Checks {
    out: String,
    has_failed: bool,
}

impl Checks {
    fn ok(&mut self, check: &str, found: &str) {
        self.line("ok  ", check, found);
    }

    fn warn(&mut self, check: &str, found: &str) {
        self.line("warn", check, found);
    }

    fn fail(&mut self, check: &str, found: &str) {
        self.has_failed = true;
        self.line("FAIL", check, found);
    }

    fn line(&mut self, state: &str, check: &str, found: &str) {
        let _ = writeln!(self.out, "{state}  {check:<12} {found}");
    }
}
