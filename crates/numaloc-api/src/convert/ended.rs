//! The result of a migration, from the API.

use super::{
    check::{duration, number},
    names::{must_name, named},
    spec::target,
};
use crate::{
    Problem, Violations, v1,
    value::{CallStats, NamedOutcome, Outcome, Partner, ProcessOutcome},
};
use numaloc_core::{
    Account, Flows, Identity, Locality, NodeId, NodeSet, OffloadUse, Reason, Share, ids::INDEX_MAX,
};
use std::{collections::BTreeMap, time::Duration};

/// Most bytes of an account, so that sums of its parts cannot overflow.
const MOST: u64 = i64::MAX.unsigned_abs();

impl TryFrom<v1::Outcome> for Outcome {
    type Error = Violations;

    /// Processes that the answer leaves out remain as the sum of their accounts. The API does not have the durations of
    /// single calls.
    fn try_from(from: v1::Outcome) -> Result<Self, Violations> {
        let mut bad = Violations::of_record();
        let outcome = outcome("", from, &mut bad);
        bad.or(outcome)
    }
}

/// Reads an outcome. `path` is where it is within the message: empty, or ending in a dot.
pub fn outcome(path: &str, from: v1::Outcome, bad: &mut Violations) -> Outcome {
    let at = |name: &str| format!("{path}{name}");
    let total = account(&at("account"), from.account.unwrap_or_default(), bad);
    let one = |(index, from)| process(&format!("{path}processes[{index}]"), from, bad);
    let processes: Vec<_> = from.processes.into_iter().enumerate().map(one).collect();
    let others = others(&total, &processes);
    if others.is_none() {
        let (min, max) = ("the sum of its processes'".to_owned(), MOST.to_string());
        bad.push(at("account"), Problem::OutOfRange { min, max });
    }
    let before = (from.movable_before.unwrap_or_default(), from.overall_before.unwrap_or_default());
    let after = from.movable_after.zip(from.overall_after);
    Outcome {
        processes,
        others: others.unwrap_or_default(),
        flows: flows(&at("flows"), &from.flows, bad),
        cache_flows: flows(&at("cache_flows"), &from.cache_flows, bad),
        calls: calls(&at("calls"), from.calls.unwrap_or_default(), bad),
        elapsed: span(&at("elapsed"), from.elapsed, bad),
        before: locality(&at("movable_before"), before, bad),
        after: after.map(|after| locality(&at("movable_after"), after, bad)),
        returned_bytes: from.returned_bytes.map(|from| amount(&at("returned_bytes"), from, bad)),
        partners: partners(&at("partners"), from.partners, bad),
        offload: from.offload.map(|from| offload(&at("offload"), from, bad)),
        named: named_memory(&at("named"), from.named, bad),
        look_error: from.look_error,
        ended_with: None,
    }
}

fn named_memory(
    field: &str,
    from: Vec<v1::NamedMemory>,
    bad: &mut Violations,
) -> Vec<NamedOutcome> {
    let one = |(index, from): (usize, v1::NamedMemory)| {
        let at = |name: &str| format!("{field}[{index}].{name}");
        let mut nodes = BTreeMap::new();
        for on_node in &from.nodes {
            let bytes = amount(&at("nodes"), on_node.bytes, bad);
            nodes.extend(node(&at("nodes"), on_node.node_id, bad).map(|node| (node, bytes)));
        }
        let moved_bytes = amount(&at("move_bytes"), from.move_bytes, bad);
        NamedOutcome { pattern: from.pattern, nodes, moved_bytes }
    };
    from.into_iter().enumerate().map(one).collect()
}

fn offload(field: &str, from: v1::OffloadUse, bad: &mut Violations) -> OffloadUse {
    let at = |name: &str| format!("{field}.{name}");
    let mut count = |name: &str, from: Option<i64>| from.map(|from| amount(&at(name), from, bad));
    OffloadUse {
        offloaded_folios: count("offloaded_folios", from.offloaded_folios),
        failed_folios: count("failed_folios", from.failed_folios),
        cpu_folios: count("cpu_folios", from.cpu_folios),
        requested: named(&at("requested"), from.requested, bad).unwrap_or_default(),
        used: from.used,
        interface: from.interface,
        reason: from.reason,
        failed: from.failed,
        shared: from.shared,
    }
}

fn partners(field: &str, from: Vec<v1::ExchangePartner>, bad: &mut Violations) -> Vec<Partner> {
    let one = |(index, from): (usize, v1::ExchangePartner)| {
        let at = |name: &str| format!("{field}[{index}].{name}");
        Partner {
            member: target(&at("member"), from.member, bad),
            processes: usize::try_from(from.process_count).unwrap_or(0),
            account: account(&at("account"), from.account.unwrap_or_default(), bad),
            flows: flows(&at("flows"), &from.flows, bad),
            error: Some(from.error).filter(|error| !error.is_empty()),
        }
    };
    from.into_iter().enumerate().map(one).collect()
}

fn process(field: &str, from: v1::ProcessOutcome, bad: &mut Violations) -> ProcessOutcome {
    ProcessOutcome {
        identity: identity(&format!("{field}.process"), from.process, bad),
        comm: from.comm,
        account: account(&format!("{field}.account"), from.account.unwrap_or_default(), bad),
        error: Some(from.error).filter(|error| !error.is_empty()),
    }
}

/// Reads pid and start time of a process.
pub fn identity(field: &str, from: Option<v1::ProcessId>, bad: &mut Violations) -> Identity {
    let from = from.unwrap_or_default();
    let start_time = amount(&format!("{field}.start_time_ticks"), from.start_time_ticks, bad);
    Identity { pid: from.pid, start_time }
}

/// The difference between `total` and the accounts of `processes`; `None` if `total` is smaller.
fn others(total: &Account, processes: &[ProcessOutcome]) -> Option<Account> {
    let beyond = |of: &dyn Fn(&Account) -> u64| {
        let mut parts = processes.iter().map(|process| of(&process.account));
        parts.try_fold(of(total), u64::checked_sub)
    };
    let mut others = Account::default();
    others.found(beyond(&Account::found_bytes)?);
    others.moved(beyond(&Account::moved_bytes)?);
    others.nearer(beyond(&Account::nearer_bytes)?);
    others.moved_back(beyond(&Account::moved_back_bytes)?);
    others.vanished(beyond(&Account::vanished_bytes)?);
    for reason in Reason::ALL {
        others.left(reason, beyond(&|account| account.left_for(reason))?);
    }
    Some(others)
}

/// Reads an account as it was stored; `field` is its path in violations.
pub fn account(field: &str, from: v1::Account, bad: &mut Violations) -> Account {
    let at = |name: &str| format!("{field}.{name}");
    let mut account = Account::default();
    account.found(amount(&at("found_bytes"), from.found_bytes, bad));
    let moved = amount(&at("moved_bytes"), from.moved_bytes, bad);
    let moved_back = amount(&at("moved_back_bytes"), from.moved_back_bytes, bad);
    let vanished = amount(&at("vanished_bytes"), from.vanished_bytes, bad);
    let mut left = BTreeMap::new();
    for (index, entry) in from.left.iter().enumerate() {
        let field = format!("{field}.left[{index}]");
        let reason = must_name::<Reason>(&format!("{field}.reason"), entry.reason, bad);
        let bytes = amount(&format!("{field}.bytes"), entry.bytes, bad);
        left.extend(reason.map(|reason| (reason, bytes)));
    }
    let parts = [moved, moved_back, vanished].into_iter().chain(left.values().copied());
    let sum = parts.fold(0, u64::saturating_add);
    if sum > MOST {
        let (min, max) = ("0".to_owned(), MOST.to_string());
        bad.push(field, Problem::OutOfRange { min, max });
        return Account::default();
    }
    account.moved(moved);
    account.nearer(amount(&at("nearer_bytes"), from.nearer_bytes, bad).min(moved));
    account.moved_back(moved_back);
    account.vanished(vanished);
    left.into_iter().for_each(|(reason, bytes)| account.left(reason, bytes));
    account
}

/// Reads flows as they were stored; `field` is their path in violations.
pub fn flows(field: &str, from: &[v1::Flow], bad: &mut Violations) -> Flows {
    let mut flows = BTreeMap::new();
    for (index, flow) in from.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let ends = [flow.from_node_id, flow.to_node_id].map(|id| node(&field, id, bad));
        let bytes = amount(&format!("{field}.bytes"), flow.bytes, bad);
        if let [Some(from), Some(to)] = ends {
            flows.insert((from, to), bytes);
        }
    }
    flows
}

/// Reads bytes by node.
pub fn bytes_by_node(
    field: &str,
    from: &[v1::NodeBytes],
    bad: &mut Violations,
) -> BTreeMap<NodeId, u64> {
    let mut nodes = BTreeMap::new();
    for (index, on) in from.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let bytes = amount(&format!("{field}.bytes"), on.bytes, bad);
        if let Some(node) = node(&field, on.node_id, bad) {
            nodes.insert(node, bytes);
        }
    }
    nodes
}

/// Reads a set of nodes.
pub fn nodes(field: &str, from: &[i32], bad: &mut Violations) -> NodeSet {
    from.iter().filter_map(|&id| node(field, id, bad)).collect()
}

/// Reads the index of a node; a violation if the kernel could have none like it.
pub fn node(field: &str, id: i32, bad: &mut Violations) -> Option<NodeId> {
    let id = number(field, Some(id.into()), 0..=INDEX_MAX.into(), bad)?;
    u32::try_from(id).ok().map(NodeId)
}

fn calls(field: &str, from: v1::CallStats, bad: &mut Violations) -> CallStats {
    let at = |name: &str| format!("{field}.{name}");
    CallStats {
        calls: amount(&at("calls"), from.calls, bad),
        addresses: amount(&at("addresses"), from.addresses, bad),
        retried_addresses: amount(&at("retried_addresses"), from.retried_addresses, bad),
        hinted_addresses: amount(&at("hinted_addresses"), from.hinted_addresses, bad),
        longest: span(&at("longest"), from.longest, bad),
        total: span(&at("total"), from.total, bad),
        over_stall: amount(&at("over_stall"), from.over_stall, bad),
        rested: span(&at("rested"), from.rested, bad),
        held_back: span(&at("held_back"), from.held_back, bad),
        huge_page_wait: span(&at("huge_page_wait"), from.huge_page_wait, bad),
        split_huge_pages: amount(&at("split_huge_pages"), from.split_huge_pages, bad),
        failed_pages: amount(&at("failed_pages"), from.failed_pages, bad),
        cache_bytes: amount(&at("cache_bytes"), from.cache_bytes, bad),
        cache_stop: named(&at("cache_stop"), from.cache_stop, bad),
        reclaims: amount(&at("reclaims"), from.reclaims, bad),
        compactions: amount(&at("compactions"), from.compactions, bad),
        compaction_wait: span(&at("compaction_wait"), from.compaction_wait, bad),
        exchanged_bytes: amount(&at("exchanged_bytes"), from.exchanged_bytes, bad),
        workers: amount(&at("workers"), from.workers, bad),
        sampled_bytes: amount(&at("sampled_bytes"), from.sampled_bytes, bad),
        // Only metrics have them.
        times: CallStats::default().times,
    }
}

/// Reads a locality: the shares of movable and of all memory.
pub fn locality(
    field: &str,
    (movable, overall): (v1::Share, v1::Share),
    bad: &mut Violations,
) -> Locality {
    let mut share = |from: v1::Share| Share {
        local_bytes: amount(field, from.local_bytes, bad),
        remote_bytes: amount(field, from.remote_bytes, bad),
        near_bytes: amount(field, from.near_bytes, bad),
        demoted_bytes: amount(field, from.demoted_bytes, bad),
    };
    Locality { movable: share(movable), overall: share(overall) }
}

fn span(field: &str, from: Option<prost_types::Duration>, bad: &mut Violations) -> Duration {
    duration(field, from, Duration::ZERO..=Duration::MAX, bad).unwrap_or_default()
}

/// Reads an amount, which must not be negative.
pub fn amount(field: &str, from: i64, bad: &mut Violations) -> u64 {
    number(field, Some(from), 0..=MOST, bad).unwrap_or_default()
}
