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
    /// The value of a node.
    pub cell: fn(&TopNodeDoc) -> String,
}

/// All, in the order in which they are printed.
pub const NODE_COLUMNS: [NodeColumn; 9] = [
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
    column("IN", 5, |node| short(node.moved_in_bytes)),
    column("OUT", 5, |node| short(node.moved_out_bytes)),
];

const fn column(name: &'static str, width: usize, cell: fn(&TopNodeDoc) -> String) -> NodeColumn {
    NodeColumn { name, width, is_last: false, cell }
}

fn rate(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.0}"))
}
