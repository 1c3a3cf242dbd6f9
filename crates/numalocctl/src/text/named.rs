//! Prints the placements of single mappings: a line for each.

use super::cells::on_nodes;
use crate::{clean::clean, units::size};
use numaloc_api::{v1, value::Policy};

/// Selects the numbers in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Memory that is to move.
    Planned,
    /// Memory that has moved.
    Ended,
}

/// A line for each pattern of `policy`, with the placement, the bytes that move and those on each node.
pub fn named(named: &[v1::NamedMemory], policy: Option<&v1::Policy>, stage: Stage) -> String {
    let rules = Policy::from(policy.cloned().unwrap_or_default()).options.maps;
    let line = |(index, memory): (usize, &v1::NamedMemory)| {
        let rule = rules.get(index).map_or(memory.pattern.clone(), ToString::to_string);
        let (moves, on) = (size(memory.move_bytes), on_nodes(&memory.nodes));
        let text = match (stage, on.is_empty()) {
            (Stage::Planned, true) => format!("map {rule}: no memory so far"),
            (Stage::Planned, false) => format!("map {rule}: {moves} to move; {on}"),
            (Stage::Ended, true) => format!("map {rule}: {moves} moved"),
            (Stage::Ended, false) => format!("map {rule}: {moves} moved; now {on}"),
        };
        clean(&text) + "\n"
    };
    named.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pattern_has_a_line() {
        let memory = |pattern: &str, nodes: &[(i32, i64)], move_bytes| v1::NamedMemory {
            pattern: pattern.to_owned(),
            nodes: nodes.iter().map(|&(node_id, bytes)| v1::NodeBytes { node_id, bytes }).collect(),
            move_bytes,
        };
        let all =
            [memory("memfd:vm", &[(0, 3 << 20), (2, 1 << 20)], 1 << 20), memory("a\x07", &[], 0)];
        let rules = ["memfd:vm=interleave:0,2", "a?=home"].map(|rule| rule.parse().expect("valid"));
        let options = numaloc_core::Options { maps: rules.into(), ..Default::default() };
        let policy = v1::Policy::from(&Policy { options, ..Policy::default() });
        assert_eq!(
            named(&all, Some(&policy), Stage::Planned),
            "map memfd:vm=interleave:0,2: 1.0 MiB to move; 3.0 MiB on node 0, 1.0 MiB on node 2\n\
             map a?=home: no memory so far\n"
        );
        assert_eq!(
            named(&all[..1], Some(&policy), Stage::Ended),
            "map memfd:vm=interleave:0,2: 1.0 MiB moved; now 3.0 MiB on node 0, 1.0 MiB on node 2\n"
        );
        assert!(!named(&all[1..], None, Stage::Ended).contains('\x07'));
    }
}
