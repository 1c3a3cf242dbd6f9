//! Resident memory of large reservations, where their holes cannot be passed over.
//!
//! numa_maps says how many pages of each node a mapping has, at the price of its page
//! tables (mm/pagewalk.c passes over missing ones). A survey has to know no more of a mapping that is nearly all hole
//! and whose pages no other process maps: which pages they are, only a run needs to find out. A mapping without pages needs no look
//! at all, and in any other one the look ends with the last of its pages.

use crate::{
    Error,
    files::{
        maps::{Object, Vma},
        numa_maps::{self, Counts},
        read,
    },
    survey::{space::AddressSpace, walks::Walks},
};
use numaloc_core::{
    Chunks, Claims, Extent, NodeId, NodeResidency, Pages, Residency, page_size, pmd_size,
    reservation::{LARGE, is_reservation},
};
use std::collections::BTreeMap;

/// What the mappings of processes that reserve much have resident.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    /// By process and start.
    mappings: BTreeMap<(usize, u64), Counted>,
}

/// What is counted of a mapping.
#[derive(Debug, PartialEq, Eq)]
struct Counted {
    /// Its length.
    bytes: u64,
    /// The bytes on each node.
    nodes: BTreeMap<NodeId, u64>,
    /// Whether nothing else is to be known of it: it is a large reservation, and no other process maps its pages.
    is_all: bool,
}

impl Reserved {
    /// Counts what the mappings of a process have, if most of them is reserved alone. Short ones are left out, and those of which the kernel
    /// counts no pages (`fixed`).
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
        let is_counted = |vma: &&Vma| bytes(vma) >= pmd_size() && vma.fixed.is_none();
        let reserved = vmas.iter().filter(is_counted).map(bytes).fold(0, u64::saturating_add);
        if reserved < LARGE {
            return Ok(());
        }
        let statm = space.read("statm", read::text)?.unwrap_or_default();
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        let Some(resident) = pages.map(|pages| pages.saturating_mul(page_size())) else {
            return Ok(());
        };
        if !is_reservation(reserved, resident) {
            return Ok(());
        }
        let walks: Walks = vmas.iter().map(|vma| (vma.start, bytes(vma).min(resident))).collect();
        let at_once = |after| walks.at_once(after);
        let counts = space.read(numa_maps::FILE, |path| numa_maps::counts(path, &at_once, stop))?;
        let mut counts = counts.unwrap_or_default();
        for vma in vmas.iter().filter(is_counted) {
            let Some(Counts { nodes, is_shared }) = counts.remove(&vma.start) else { continue };
            let nodes = nodes.into_iter().map(|(node, pages)| (node, pages * page_size()));
            // Memory that several processes map takes the page map to find out whose it is.
            let is_all = bytes(vma) >= LARGE && vma.object == Object::Anonymous && !is_shared;
            let counted = Counted { bytes: bytes(vma), nodes: nodes.collect(), is_all };
            // The kernel counts pages of the pools in their own size.
            if vma.hugetlb_bytes.is_none() || counted.nodes.is_empty() {
                self.mappings.insert((process, vma.start), counted);
            }
        }
        Ok(())
    }

    /// The bytes on each node of a mapping that begins here, if nothing else is to be known of it.
    pub(crate) fn nodes(&self, process: usize, start: u64) -> Option<&BTreeMap<NodeId, u64>> {
        let counted = self.mappings.get(&(process, start))?;
        (counted.is_all || counted.nodes.is_empty()).then_some(&counted.nodes)
    }

    /// The count of the mapping that is the whole of an extent.
    fn counted(&self, extent: &Extent) -> Option<&Counted> {
        let [mapping] = &extent.mappings[..] else { return None };
        let counted = self.mappings.get(&(mapping.process, mapping.start))?;
        let is_of_mapping = matches!(extent.pages, Pages::All | Pages::Own);
        (is_of_mapping && extent.bytes == counted.bytes).then_some(counted)
    }

    /// The resident bytes that a look at an extent finds at most, if that is known.
    pub(crate) fn resident_bytes(&self, extent: &Extent) -> Option<u64> {
        Some(self.counted(extent)?.nodes.values().sum())
    }

    /// Where the pages of an extent are, if that is known without a look at its page map: it has none, or is the whole of a large reservation
    /// whose pages do not take turns.
    pub(crate) fn of(&self, extent: &Extent, claims: &Claims) -> Option<Residency> {
        let Counted { bytes, nodes, is_all } = self.counted(extent)?;
        if nodes.is_empty() {
            return Some(Residency::default());
        }
        let [mapping] = &extent.mappings[..] else { return None };
        let claim = claims.on(&extent.mappings, &extent.pages, extent.rule);
        let is_plain = claim.cycle.is_none() && claim.portions.is_none();
        if !is_plain || !is_all || extent.pages != Pages::All {
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
    use crate::{
        fake::{Fake, anonymous},
        files::maps::parse_line,
    };
    use numaloc_core::{Claim, FixedKind, Mapping};

    const TIB: u64 = 1 << 40;

    fn reserved(nodes: &[(u32, u64)], is_all: bool) -> Reserved {
        let nodes = nodes.iter().map(|&(node, bytes)| (NodeId(node), bytes)).collect();
        let counted = Counted { bytes: 16 * TIB, nodes, is_all };
        Reserved { mappings: [((0, TIB), counted)].into() }
    }

    #[test]
    fn a_reservation_is_known_as_a_whole_or_not_at_all() {
        let home = Claim { home: [NodeId(0)].into_iter().collect(), ..Claim::default() };
        let claims: Claims = [home].into_iter().collect();
        let mapping = |start| Mapping { process: 0, start };
        let extent = |bytes, mappings| Extent { mappings, ..anonymous(TIB, bytes) };
        let whole = extent(16 * TIB, vec![mapping(TIB)]);
        let known =
            |nodes: &[(u32, u64)], extent: &Extent| reserved(nodes, true).of(extent, &claims);
        let found = known(&[(0, 8 * page_size()), (1, page_size())], &whole).expect("the whole");
        assert_eq!(found.nodes[&NodeId(1)].owned_bytes, page_size());
        assert_eq!(found.away.bytes(), 16 * TIB, "any of it may be away");
        let at_home = known(&[(0, 8 * page_size())], &whole).expect("the whole");
        assert_eq!(at_home.away, Chunks::default());
        for other in [
            extent(8 * TIB, vec![mapping(TIB)]),
            extent(16 * TIB, vec![mapping(2 * TIB)]),
            extent(16 * TIB, vec![mapping(TIB), mapping(TIB)]),
        ] {
            assert_eq!(known(&[], &other), None, "{other:?}");
            assert_eq!(
                reserved(&[(0, page_size())], true).resident_bytes(&other),
                None,
                "{other:?}"
            );
        }
    }

    #[test]
    fn whose_pages_they_are_is_not_known_of_all_but_how_many() {
        let claims: Claims = [Claim::default()].into_iter().collect();
        let whole = anonymous(TIB, 16 * TIB);
        let own = Extent { pages: Pages::Own, ..whole.clone() };
        for (extent, is_all) in [(&whole, false), (&own, true), (&own, false)] {
            let some = reserved(&[(0, 8 * page_size()), (1, page_size())], is_all);
            assert_eq!(
                (some.of(extent, &claims), some.resident_bytes(extent)),
                (None, Some(9 * page_size()))
            );
            let none = reserved(&[], is_all).of(extent, &claims);
            assert_eq!(none, Some(Residency::default()), "known to be empty");
        }
        assert_eq!(reserved(&[(0, page_size())], false).nodes(0, TIB), None);
        assert_eq!(reserved(&[], false).nodes(0, TIB), Some(&BTreeMap::new()));
    }

    #[test]
    fn a_process_whose_memory_is_mostly_reserved_is_counted() {
        const LINES: &str = "100000000000-110000000000 rw-p 00000000 00:00 0\n\
                             200000000000-200200000000 ---p 00000000 00:00 0\n\
                             300000000000-300000200000 rw-s 00000000 00:01 7 /memfd:a (deleted)\n\
                             400000000000-400000001000 rw-p 00000000 00:00 0\n\
                             500000000000-500000200000 rw-s 00000000 00:05 9 /dev/x\n";
        let fake = Fake::new();
        fake.process(100, "app", &["0"]);
        let numa_maps = "100000000000 default anon=3 N0=2 N1=1\n200000000000 default\n\
                         300000000000 default mapped=1 mapmax=2 N1=1\n400000000000 default anon=1 N0=1\n\
                         500000000000 default\n";
        fake.write("proc/100/numa_maps", numa_maps);
        let mut vmas: Vec<Vma> = LINES.lines().filter_map(parse_line).collect();
        vmas[4].fixed = Some(FixedKind::Device);
        let count = |resident_pages: u64| {
            fake.write("proc/100/statm", &format!("9999 {resident_pages} 1 1 0 1 0\n"));
            let mut reserved = Reserved::default();
            reserved.count(0, &fake.space(100), &vmas, &|| false).expect("its files can be read");
            reserved.mappings
        };
        let counted = count(4);
        let of = |start: u64| {
            let Counted { bytes, nodes, is_all } = &counted[&(0, start)];
            (*bytes, nodes.values().copied().collect::<Vec<_>>(), *is_all)
        };
        assert_eq!(counted.len(), 3, "no short mapping and no device");
        assert_eq!(of(0x1000_0000_0000), (TIB, vec![2 * page_size(), page_size()], true));
        assert_eq!(of(0x2000_0000_0000), (8 << 30, vec![], false));
        assert_eq!(of(0x3000_0000_0000), (pmd_size(), vec![page_size()], false));
        assert_eq!(count(TIB / page_size()), BTreeMap::new(), "most of it is resident");
    }
}
