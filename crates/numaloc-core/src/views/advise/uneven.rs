//! Subjects that are too large for one node, and whose memory is not spread as their CPUs are.

use super::{
    capacity::{HostState, WORKING_CPUS, even_shares, room, worth},
    device,
    finding::{Finding, FindingKind},
    fit::fits,
    look::Subject,
    step::{AdviceStep, How},
};
use crate::{
    machine::ids::{NodeId, NodeSet},
    memory::mempolicy::Mempolicy,
    number,
};
use std::collections::BTreeMap;

/// A node is uneven if its share of the memory is so much more than its share of the CPUs.
const EXCESS: f64 = 0.2;

/// Memory that is crowded on some of the home nodes. Its users share their bandwidth, while that of the others is idle.
pub fn judge(host: &HostState, subject: &Subject, min_bytes: u64) -> Option<Finding> {
    let topology = &host.look.topology;
    let home = subject.home(topology);
    let is_bound = !matches!(subject.policy, Mempolicy::Default | Mempolicy::Unasked);
    let works = subject.used_cpus() >= WORKING_CPUS && subject.resident_bytes() >= min_bytes;
    if home.len() < 2 || !works || is_bound || !is_wide(host, subject, &home) {
        return None;
    }
    // Its devices decide where its memory belongs.
    if device::home(host, subject).is_some() {
        return None;
    }
    let mut resident = host.movable(subject);
    let enough = worth(&resident, min_bytes);
    resident.retain(|node, _| home.contains(*node));
    let all: u64 = resident.values().sum();
    let shares = even_shares(topology, &subject.cpus);
    let wanted =
        |node: NodeId| number::whole(all as f64 * shares.get(&node).copied().unwrap_or(0.0));
    let on = |node: NodeId| resident.get(&node).copied().unwrap_or(0);
    let surplus = |node: NodeId| on(node).saturating_sub(wanted(node));
    let limit = enough.max(number::whole(all as f64 * EXCESS));
    if !home.iter().any(|node| surplus(node) >= limit) {
        return None;
    }
    let (flows, steps) = moves(host, subject, &home, &resident, &wanted);
    let bytes: u64 = flows.values().sum();
    if bytes < enough {
        return None;
    }
    Some(Finding {
        from_nodes: home.clone(),
        home,
        // On the way to even, half of the moved memory is reached from afar as before; the rest is bandwidth.
        weight: bytes as f64 / 2.0 * subject.used_cpus(),
        flows,
        steps,
        ..Finding::of(subject, FindingKind::Uneven, bytes)
    })
}

/// Whether it would not fit on one node even if the node were empty.
fn is_wide(host: &HostState, subject: &Subject, home: &NodeSet) -> bool {
    home.iter().all(|node| !fits(&host.look.topology, subject, node))
}

type Moves = (BTreeMap<(NodeId, NodeId), u64>, Vec<AdviceStep>);

/// From those with too much to those with too little, one pair after the other.
fn moves(
    host: &HostState,
    subject: &Subject,
    home: &NodeSet,
    resident: &BTreeMap<NodeId, u64>,
    wanted: &dyn Fn(NodeId) -> u64,
) -> Moves {
    let mut now = resident.clone();
    let (mut flows, mut steps) = (BTreeMap::new(), Vec::new());
    for to in home.iter().filter(|node| subject.mems.contains(*node)) {
        let mut room = room(&host.look.topology, to);
        for from in home.iter().filter(|&from| from != to) {
            let [here, there] = [from, to].map(|node| now.get(&node).copied().unwrap_or(0));
            let part = here.saturating_sub(wanted(from)).min(wanted(to).saturating_sub(there));
            let part = part.min(room);
            // The command takes whole percents. Rounded down, so that no more is moved than there is room.
            let ratio = u128::from(there + part) * 100 / u128::from((here + there).max(1));
            // `part` is at most what is here, so this is at most 100.
            let Ok(percent) = u8::try_from(ratio) else { continue };
            let end = number::amount(u128::from(here + there) * ratio / 100);
            let part = end.saturating_sub(there);
            if part == 0 {
                continue;
            }
            room -= part;
            now.insert(from, here - part);
            now.insert(to, there + part);
            flows.insert((from, to), part);
            let how = How::Part { from, to, ratio: percent };
            steps.push(AdviceStep::Migrate { who: subject.who.clone(), how });
        }
    }
    (flows, steps)
}
