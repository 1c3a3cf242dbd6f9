//! Columns of a table for nodes.

use super::table::Table;
use crate::{
    fields::{bytes_on, node},
    output::View,
    units::mb,
};
use numaloc_api::v1;
use std::{cmp::Reverse, collections::BTreeSet};

/// Hosts with more nodes than this have no columns of zeros: one column has them all.
const COLUMNS: usize = 8;
/// Nodes that have a column then, those with most of the target: a line has 80 characters.
const NAMED: usize = 1;

/// The nodes with a column, and the number of those that share one.
#[derive(Debug, PartialEq, Eq)]
pub struct NodeColumns {
    /// Nodes with a column of their own.
    pub named: BTreeSet<u32>,
    others: usize,
}

impl NodeColumns {
    /// The nodes with memory. If there are more than [`COLUMNS`], those with most of the target have a column of their own: [`NAMED`], or with `-o wide`
    /// all with some of it. Rows for programs have all.
    pub fn of(topology: &v1::Topology, total: &v1::ResidentMemory, view: View) -> Self {
        let mut used: Vec<_> = total.nodes.iter().filter(|on| on.bytes > 0).collect();
        used.sort_by_key(|on| Reverse(on.bytes));
        let used: Vec<u32> = used.into_iter().map(|on| node(on.node_id)).collect();
        let with_memory = topology.nodes.iter().filter(|node| node.total_bytes > 0);
        let all: BTreeSet<u32> =
            with_memory.map(|with| node(with.node_id)).chain(used.iter().copied()).collect();
        if all.len() <= COLUMNS || view.rows_alone() {
            return Self { named: all, others: 0 };
        }
        let named = used.into_iter().take(if view.wide { usize::MAX } else { NAMED });
        let named: BTreeSet<u32> = named.collect();
        Self { others: all.len() - named.len(), named }
    }

    /// Adds the columns of nodes to a table.
    pub fn head(&self, mut table: Table) -> Table {
        for node in &self.named {
            let unit = if self.others > 0 { "" } else { " MiB" };
            table = table.numbers(format!("NODE{node}{unit}"));
        }
        match self.others {
            0 => table,
            others => table.numbers(format!("{others} OTHERS")),
        }
    }

    /// The cells of a row in these columns, in MiB.
    pub fn cells(&self, nodes: &[v1::NodeBytes]) -> impl Iterator<Item = String> {
        let named = self.named.iter().map(|&index| mb(bytes_on(nodes, |node| node == index)));
        let others = || mb(bytes_on(nodes, |node| !self.named.contains(&node)));
        named.chain((self.others > 0).then(others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_nodes_have_columns_where_most_is() {
        let on = |(node_id, mib): (i32, i64)| v1::NodeBytes { node_id, bytes: mib << 20 };
        let used = [(0, 4), (1, 0), (3, 7), (9, 5)].map(on).to_vec();
        let used = v1::ResidentMemory { nodes: used, ..Default::default() };
        let node = |node_id| v1::Node { node_id, total_bytes: 1 << 30, ..v1::Node::default() };
        let of_nodes = |count| v1::Topology {
            nodes: (0..count).map(node).collect(),
            ..v1::Topology::default()
        };
        let columns = |count, view| {
            let columns = NodeColumns::of(&of_nodes(count), &used, view);
            (columns.named.into_iter().collect::<Vec<_>>(), columns.others)
        };
        assert_eq!(columns(8, View::TABLE), (vec![3], 8));
        assert_eq!(columns(16, View::TABLE), (vec![3], 15));
        assert_eq!(columns(16, View { wide: true, ..View::TABLE }), (vec![0, 3, 9], 13));
        let (all, others) = columns(16, View { headers: false, ..View::TABLE });
        assert_eq!((all.len(), others), (16, 0), "rows for programs");
    }
}
