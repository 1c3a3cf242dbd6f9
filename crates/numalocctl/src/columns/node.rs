//! The columns of the list of nodes.

use crate::{doc::TopNodeDoc, units::short};

/// A column of the list of nodes.
#[derive(Debug)]
pub struct NodeColumn {
    pub name: &'static str,
    /// Its width on a screen, in cells.
    pub width: usize,
    /// Whether a screen has it last, where columns are dropped first if there is no room for all.
    pub is_last: bool,
    /// Whether it is left out where it is known of no node.
    is_optional: bool,
    /// The value of a node.
    pub cell: fn(&TopNodeDoc) -> String,
}

/// All, in the order in which they are printed.
static NODE_COLUMNS: [NodeColumn; 10] = [
    column("NODE", 4, |node| node.node.to_string()),
    NodeColumn {
        is_last: true,
        ..column("TIER", 4, |node| node.tier.map_or("-".to_owned(), |tier| tier.to_string()))
    },
    column("TOTAL", 5, |node| short(node.total_bytes)),
    column("FREE", 5, |node| short(node.free_bytes)),
    column("CACHE", 5, |node| short(node.reclaimable_bytes)),
    column("CPU%", 4, |node| rate(node.cpu_percent)),
    column("SPILL/S", 7, |node| rate(node.foreign_per_second)),
    NodeColumn { is_optional: true, ..column("TRAFFIC", 7, traffic) },
    column("IN", 5, |node| short(node.moved_in_bytes)),
    column("OUT", 5, |node| short(node.moved_out_bytes)),
];

const fn column(name: &'static str, width: usize, cell: fn(&TopNodeDoc) -> String) -> NodeColumn {
    NodeColumn { name, width, is_last: false, is_optional: false, cell }
}

/// The columns that these nodes have, in the order in which they are printed.
pub fn node_columns(nodes: &[TopNodeDoc]) -> Vec<&'static NodeColumn> {
    let is_known = |column: &NodeColumn| nodes.iter().any(|node| (column.cell)(node) != "-");
    NODE_COLUMNS.iter().filter(|column| !column.is_optional || is_known(column)).collect()
}

/// The traffic of a node's memory in a second; a lower bound has a `>` before it.
fn traffic(node: &TopNodeDoc) -> String {
    let bound = if node.traffic_is_lower_bound { ">" } else { "" };
    let known = node.traffic_bytes_per_second;
    known.map_or("-".to_owned(), |bytes| format!("{bound}{}", short(bytes)))
}

fn rate(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_shown_where_it_is_known_and_a_lower_bound_is_marked() {
        let node = |traffic_bytes_per_second, traffic_is_lower_bound| TopNodeDoc {
            traffic_bytes_per_second,
            traffic_is_lower_bound,
            ..TopNodeDoc::default()
        };
        let names = |nodes: &[TopNodeDoc]| -> Vec<&str> {
            node_columns(nodes).into_iter().map(|column| column.name).collect()
        };
        let nodes = [node(None, false), node(Some(2 << 20), false), node(Some(7 << 30), true)];
        assert_eq!((names(&nodes).len(), names(&nodes[..1]).len()), (10, 9));
        assert!(names(&nodes).contains(&"TRAFFIC") && !names(&nodes[..1]).contains(&"TRAFFIC"));
        assert_eq!(nodes.each_ref().map(traffic), ["-", "2.0M", ">7.0G"]);
    }
}
