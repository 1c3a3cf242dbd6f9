//! Ways of laying out memory on several nodes, for the microbenchmark of placements.

/// A way of laying out memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Page by page on the nodes in turn.
    Interleave,
    /// An equal contiguous part on each node.
    Block,
}

impl Layout {
    /// Every layout.
    pub const ALL: [Self; 2] = [Self::Interleave, Self::Block];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interleave => "interleave",
            Self::Block => "block",
        }
    }

    /// The node of a page, of `nodes` nodes and `pages` pages.
    ///
    /// # Panics
    /// Without pages or nodes.
    pub fn node(self, page: usize, pages: usize, nodes: usize) -> usize {
        match self {
            Self::Interleave => page % nodes,
            Self::Block => (page * nodes / pages).min(nodes - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_node_gets_as_much_as_the_others(each in 1usize..200, nodes in 1usize..9) {
            let pages = each * nodes;
            for layout in Layout::ALL {
                let mut counts = vec![0; nodes];
                (0..pages).for_each(|page| counts[layout.node(page, pages, nodes)] += 1);
                prop_assert!(counts.iter().all(|&count| count == each), "{layout:?}: {counts:?}");
            }
            let blocks = (0..pages).map(|page| Layout::Block.node(page, pages, nodes));
            prop_assert!(blocks.is_sorted());
        }
    }
}
