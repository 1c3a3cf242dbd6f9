//! Residencies by stripe.

use numaloc_core::{NodeId, NodeResidency, Residency};

/// Nodes of pages, by the one node that they belong on; `None`: pages that belong on any home node. In the order of these nodes, and
/// most often one alone: a survey has one such list for each mapping, so it takes no more memory than it has to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByStripe(Vec<(Option<NodeId>, Residency)>);

impl ByStripe {
    /// Pages that belong on any home node.
    pub(crate) fn undivided(residency: Residency) -> Self {
        Self(vec![(None, residency)])
    }

    /// Whether there are no pages.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The residency of the pages that belong on `node`.
    pub(crate) fn entry(&mut self, node: Option<NodeId>) -> &mut Residency {
        let index = self.0.binary_search_by_key(&node, |(known, _)| *known);
        let index = index.unwrap_or_else(|index| {
            self.0.reserve_exact(1);
            self.0.insert(index, (node, Residency::default()));
            index
        });
        &mut self.0[index].1
    }

    /// Takes out the pages that belong on `node`.
    pub(crate) fn take(&mut self, node: Option<NodeId>) -> Residency {
        std::mem::take(self.entry(node))
    }

    /// Adds pages of another part of the same memory.
    pub(crate) fn join(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        for (node, residency) in other.0 {
            join(self.entry(node), residency);
        }
    }
}

impl IntoIterator for ByStripe {
    type Item = (Option<NodeId>, Residency);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

fn join(sum: &mut Residency, other: Residency) {
    sum.unplaced_bytes += other.unplaced_bytes;
    sum.away.join(other.away);
    sum.grains.join(other.grains);
    for (node, NodeResidency { owned_bytes, shared_bytes, huge_bytes }) in other.nodes {
        let tally = sum.nodes.entry(node).or_default();
        tally.owned_bytes += owned_bytes;
        tally.shared_bytes += shared_bytes;
        tally.huge_bytes += huge_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(node: u32, bytes: u64) -> Residency {
        let resident = NodeResidency { owned_bytes: bytes, ..NodeResidency::default() };
        Residency { nodes: [(NodeId(node), resident)].into(), ..Residency::default() }
    }

    #[test]
    fn parts_of_the_same_memory_are_joined_by_stripe() {
        let (mut sum, mut other) = (ByStripe::default(), ByStripe::default());
        *other.entry(Some(NodeId(3))) = pages(0, 4096);
        *other.entry(Some(NodeId(1))) = pages(1, 8192);
        sum.join(other.clone());
        assert_eq!(sum, other);
        *other.entry(Some(NodeId(2))) = pages(1, 12288);
        sum.join(other);
        let all: Vec<_> = sum.clone().into_iter().collect();
        let of = |node| Some(NodeId(node));
        let expected =
            [(of(1), pages(1, 16384)), (of(2), pages(1, 12288)), (of(3), pages(0, 8192))];
        assert_eq!(all, expected, "in the order of their nodes");
        assert_eq!(sum.take(of(2)), pages(1, 12288));
        assert_eq!(sum.take(None), Residency::default());
        assert!(!ByStripe::undivided(pages(0, 4096)).is_empty() && ByStripe::default().is_empty());
    }
}
