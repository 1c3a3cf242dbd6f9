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
    /// Where it is left out.
    omitted: Omitted,
    /// The value of a node.
    pub cell: fn(&TopNodeDoc) -> String,
}

/// Where a column is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Omitted {
    Never,
    /// If it is known of no node.
    Unknown,
    /// On screens, if it is 0 or not known of all nodes.
    Nothing,
    /// On screens, if all nodes have the same value.
    Alike,
}

/// All, in the order in which they are printed.
static NODE_COLUMNS: [NodeColumn; 10] = [
    column("NODE", 4, |node| node.node.to_string()),
    NodeColumn {
        is_last: true,
        omitted: Omitted::Alike,
        ..column("TIER", 4, |node| node.tier.map_or("-".to_owned(), |tier| tier.to_string()))
    },
    column("TOTAL", 5, |node| short(node.total_bytes)),
    column("FREE", 5, |node| short(node.free_bytes)),
    column("CACHE", 5, |node| short(node.reclaimable_bytes)),
    column("CPU%", 4, |node| rate(node.cpu_percent)),
    NodeColumn {
        omitted: Omitted::Nothing,
        ..column("SPILL/S", 7, |node| rate(node.foreign_per_second))
    },
    NodeColumn { omitted: Omitted::Unknown, ..column("TRAFFIC", 7, traffic) },
    NodeColumn { omitted: Omitted::Nothing, ..column("IN", 5, |node| short(node.moved_in_bytes)) },
    NodeColumn {
        omitted: Omitted::Nothing,
        ..column("OUT", 5, |node| short(node.moved_out_bytes))
    },
];

const fn column(name: &'static str, width: usize, cell: fn(&TopNodeDoc) -> String) -> NodeColumn {
    NodeColumn { name, width, is_last: false, omitted: Omitted::Never, cell }
}

/// The columns that these nodes have, in the order in which they are printed.
pub fn node_columns(nodes: &[TopNodeDoc]) -> Vec<&'static NodeColumn> {
    let is_known = |column: &NodeColumn| nodes.iter().any(|node| (column.cell)(node) != "-");
    let is_shown = |column: &&NodeColumn| column.omitted != Omitted::Unknown || is_known(column);
    NODE_COLUMNS.iter().filter(is_shown).collect()
}

/// The columns that have something to say about these nodes on a screen, where each takes room of another one.
pub fn screen_columns(nodes: &[TopNodeDoc]) -> Vec<&'static NodeColumn> {
    let mut columns = node_columns(nodes);
    columns.retain(|column| {
        let mut cells = nodes.iter().map(column.cell);
        match column.omitted {
            Omitted::Never | Omitted::Unknown => true,
            Omitted::Nothing => !cells.all(|cell| cell == "0" || cell == "-"),
            Omitted::Alike => {
                let first = cells.next();
                !cells.all(|cell| Some(&cell) == first.as_ref())
            }
        }
    });
    columns
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

    #[test]
    fn a_screen_has_no_column_that_is_nothing_or_alike_of_all_nodes() {
        let names = |nodes: &[TopNodeDoc]| -> Vec<&str> {
            let columns = screen_columns(nodes).into_iter().map(|column| column.name);
            columns
                .filter(|name| !["NODE", "TOTAL", "FREE", "CACHE", "CPU%"].contains(name))
                .collect()
        };
        let quiet = TopNodeDoc { tier: Some(4), ..TopNodeDoc::default() };
        let still = TopNodeDoc { foreign_per_second: Some(0.2), ..quiet.clone() };
        assert_eq!(names(&[quiet.clone(), still]), [""; 0], "a rate of 0");
        let moved = TopNodeDoc { moved_in_bytes: 1 << 20, ..quiet.clone() };
        assert_eq!(names(&[quiet.clone(), moved]), ["IN"]);
        let slow = TopNodeDoc { tier: Some(5), foreign_per_second: Some(7.0), ..quiet.clone() };
        assert_eq!(names(&[quiet.clone(), slow]), ["TIER", "SPILL/S"]);
        let unknown = TopNodeDoc { tier: None, ..quiet.clone() };
        assert_eq!(names(&[quiet, unknown]), ["TIER"]);
        assert_eq!(names(&[]), [""; 0]);
    }
}
