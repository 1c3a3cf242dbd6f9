//! The migrations that bring memory back to where it was, as near as they can.

use super::step::How;
use crate::{machine::ids::NodeId, number};
use std::collections::BTreeMap;

/// Less than this is not brought back, in bytes: the kernel's count of a cgroup may be off by as much.
pub const LEAST: u64 = 4 << 20;

/// Migrations from nodes that have more than they had to nodes that have less, to be carried out in this order. Each
/// takes whole percents of the memory on its two nodes.
pub fn back(now: &BTreeMap<NodeId, u64>, before: &BTreeMap<NodeId, u64>) -> Vec<How> {
    let on = |nodes: &BTreeMap<NodeId, u64>, node| nodes.get(&node).copied().unwrap_or(0);
    let (mut now, mut parts) = (now.clone(), Vec::new());
    let nodes: Vec<NodeId> = now.keys().chain(before.keys()).copied().collect();
    for &to in before.keys() {
        for &from in nodes.iter().filter(|&&from| from != to) {
            let [here, there] = [from, to].map(|node| on(&now, node));
            let more = here.saturating_sub(on(before, from));
            let part = more.min(on(before, to).saturating_sub(there));
            if part < LEAST {
                continue;
            }
            let both = u128::from(here) + u128::from(there);
            let ratio = (u128::from(there + part) * 100 + both / 2) / both;
            // `part` is at most what is here, so this is at most 100.
            let Ok(percent) = u8::try_from(ratio) else { continue };
            if ratio * both <= u128::from(there) * 100 {
                continue;
            }
            // As much as the percents come to: what follows begins with that.
            let end = number::amount(both * ratio / 100);
            now.extend([(from, here + there - end), (to, end)]);
            parts.push(How::Part { from, to, ratio: percent });
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    const MIB: u64 = 1 << 20;

    fn on(nodes: &[u64]) -> BTreeMap<NodeId, u64> {
        (0..).map(NodeId).zip(nodes.iter().map(|mib| mib * MIB)).collect()
    }

    #[test]
    fn memory_goes_back_to_where_there_was_more() {
        let part = |from, to, ratio| How::Part { from: NodeId(from), to: NodeId(to), ratio };
        assert_eq!(back(&on(&[64, 0]), &on(&[0, 64])), [part(0, 1, 100)]);
        assert_eq!(back(&on(&[100, 0]), &on(&[25, 75])), [part(0, 1, 75)]);
        let two = [part(0, 1, 24), part(0, 2, 34)];
        assert_eq!(back(&on(&[90, 0, 0]), &on(&[45, 22, 23])), two);
        // It did not move at all, or but for what the kernel's count is off.
        assert_eq!(back(&on(&[61, 3]), &on(&[64, 0])), []);
        // It has grown or shrunk since.
        assert_eq!(back(&on(&[200, 0]), &on(&[100, 0])), []);
        assert_eq!(back(&on(&[20, 0]), &on(&[0, 64])), [part(0, 1, 100)]);
    }

    /// The memory by node after the migrations, if nothing stands in their way.
    fn followed(mut nodes: BTreeMap<NodeId, u64>, parts: &[How]) -> BTreeMap<NodeId, u64> {
        for part in parts {
            let &How::Part { from, to, ratio } = part else { panic!("{part:?}") };
            let [here, there] = [from, to].map(|node| nodes.get(&node).copied().unwrap_or(0));
            let end = ((u128::from(here + there) * u128::from(ratio)) / 100) as u64;
            assert!(end >= there, "it moves from one to the other");
            nodes.extend([(from, here + there - end), (to, end)]);
        }
        nodes
    }

    proptest! {
        #[test]
        fn each_node_gets_what_it_had_but_for_percents(
            (now, before) in vec((0..5000_u64, 0..5000_u64), 1..5).prop_map(|pairs| {
                let (now, before): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
                (on(&now), on(&before))
            }),
        ) {
            let all = |nodes: &BTreeMap<NodeId, u64>| nodes.values().sum::<u64>();
            // The same amount as before, as of a subject that has moved alone.
            let (first, rest) = (NodeId(0), all(&before).abs_diff(all(&now)));
            let (mut now, mut before) = (now, before);
            let less = if all(&now) < all(&before) { &mut now } else { &mut before };
            *less.entry(first).or_default() += rest;
            let end = followed(now.clone(), &back(&now, &before));
            let margin = all(&now) / 20 + LEAST * 5;
            for (node, &bytes) in &before {
                prop_assert!(end[node].abs_diff(bytes) <= margin, "{node}: {} and {bytes}", end[node]);
            }
        }
    }
}
