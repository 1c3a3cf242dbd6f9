//! Resident memory of large reservations, where their holes cannot be passed over.
//!
//! numa_maps says how many pages of each node a mapping has, at the price of its page
//! tables (mm/pagewalk.c passes over missing ones). A survey has to know no more of a mapping that is nearly all hole
//! and whose pages no other process maps: which pages they are, only a run needs to find out.

use crate::{
    Error,
    files::{
        maps::{Object, Vma},
        numa_maps::{self, Counts},
        read,
    },
    survey::space::AddressSpace,
};
use numaloc_core::{
    Chunks, Claims, Extent, NodeId, NodeResidency, PAGE, Pages, Residency,
    reservation::{LARGE, is_reservation},
};
use std::collections::BTreeMap;

/// The reservations of some processes.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    /// By process and start: the length in bytes, and the bytes on each node.
    mappings: BTreeMap<(usize, u64), (u64, BTreeMap<NodeId, u64>)>,
}

impl Reserved {
    /// Counts what the reservations of a process have, if it has any.
    ///
    /// # Errors
    /// [`Error::Stopped`]; those of reading its files.
    pub(crate) fn count(
        &mut self,
        process: usize,
        space: &AddressSpace,
        vmas: &[Vma],
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        let bytes = |vma: &Vma| vma.end - vma.start;
        let is_large = |vma: &&Vma| bytes(vma) >= LARGE && vma.object == Object::Anonymous;
        let reserved: u64 = vmas.iter().filter(is_large).map(bytes).sum();
        if reserved == 0 {
            return Ok(());
        }
        let statm = space.read("statm", read::text)?.unwrap_or_default();
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        if !pages.is_some_and(|pages| is_reservation(reserved, pages.saturating_mul(PAGE))) {
            return Ok(());
        }
        let counts = space.read(numa_maps::FILE, |path| numa_maps::counts(path, stop))?;
        let counts = counts.unwrap_or_default();
        for vma in vmas.iter().filter(is_large) {
            // Memory that several processes map takes the page map to find out whose it is.
            if let Some(Counts { nodes, is_shared: false }) = counts.get(&vma.start) {
                let nodes = nodes.iter().map(|(&node, pages)| (node, pages * PAGE));
                self.mappings.insert((process, vma.start), (bytes(vma), nodes.collect()));
            }
        }
        Ok(())
    }

    /// The bytes on each node of a mapping that begins here, if it is a reservation.
    pub(crate) fn nodes(&self, process: usize, start: u64) -> Option<&BTreeMap<NodeId, u64>> {
        self.mappings.get(&(process, start)).map(|(_, nodes)| nodes)
    }

    /// Where the pages of an extent are, if that is known without a look at its page map: it is the whole of a reservation, and its pages
    /// do not take turns.
    pub(crate) fn of(&self, extent: &Extent, claims: &Claims) -> Option<Residency> {
        let [mapping] = &extent.mappings[..] else { return None };
        let (bytes, nodes) = self.mappings.get(&(mapping.process, mapping.start))?;
        let claim = claims.on(&extent.mappings, &extent.pages, extent.rule);
        let is_plain = claim.cycle.is_none() && claim.portions.is_none();
        if !is_plain || extent.pages != Pages::All || extent.bytes != *bytes {
            return None;
        }
        let is_away = nodes.keys().any(|node| !claim.home.contains(*node));
        let away = if is_away { Chunks::whole(mapping.start, *bytes) } else { Chunks::default() };
        let on_node = |(&node, &bytes)| {
            (node, NodeResidency { owned_bytes: bytes, ..NodeResidency::default() })
        };
        Some(Residency { nodes: nodes.iter().map(on_node).collect(), away, ..Residency::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::anonymous;
    use numaloc_core::Claim;

    const TIB: u64 = 1 << 40;

    fn reserved(nodes: &[(u32, u64)]) -> Reserved {
        let nodes = nodes.iter().map(|&(node, bytes)| (NodeId(node), bytes)).collect();
        Reserved { mappings: [((0, TIB), (16 * TIB, nodes))].into() }
    }

    #[test]
    fn a_reservation_is_known_as_a_whole_or_not_at_all() {
        let home = Claim { home: [NodeId(0)].into_iter().collect(), ..Claim::default() };
        let claims: Claims = [home].into_iter().collect();
        let mapping = |start| numaloc_core::Mapping { process: 0, start };
        let extent = |bytes, mappings| Extent { mappings, ..anonymous(TIB, bytes) };
        let whole = extent(16 * TIB, vec![mapping(TIB)]);
        let found = reserved(&[(0, 8 * PAGE), (1, PAGE)]).of(&whole, &claims).expect("the whole");
        assert_eq!(found.nodes[&NodeId(1)].owned_bytes, PAGE);
        assert_eq!(found.away.bytes(), 16 * TIB, "any of it may be away");
        let at_home = reserved(&[(0, 8 * PAGE)]).of(&whole, &claims).expect("the whole");
        assert_eq!(at_home.away, Chunks::default());
        let empty = reserved(&[]).of(&whole, &claims).expect("known to be empty");
        assert_eq!(empty, Residency::default());
        for other in [
            extent(8 * TIB, vec![mapping(TIB)]),
            extent(16 * TIB, vec![mapping(2 * TIB)]),
            extent(16 * TIB, vec![mapping(TIB), mapping(TIB)]),
            Extent { pages: Pages::Own, ..whole.clone() },
        ] {
            assert_eq!(reserved(&[]).of(&other, &claims), None, "{other:?}");
        }
    }
}
