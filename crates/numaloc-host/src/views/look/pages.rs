//! Where the pages of a process are, by some windows of its page map.

use crate::{
    Error, Policies, Roots,
    files::maps::Vma,
    nodes::topology,
    survey::{
        Surveyor,
        page_access::PageAccess,
        scan::{PageLocation, Precision, Scanner},
        space::AddressSpace,
        vmas,
    },
};
use numaloc_core::{NodeId, Options, Process, Topology, advise::Exactness, number, page_size};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Pages of a window: their entries are a page of 4 KiB of the page map.
const WINDOW: u64 = 512;
/// Windows that are read of a process. Up to a GiB that is all of it.
const WINDOWS: u64 = 512;
/// With fewer pages than this, most windows are holes, and the page map is scanned as a whole: holes cost little there.
const ENOUGH: u64 = 4096;

/// Hugetlb pages that are looked up of a process. If there are more, every n-th.
const HUGE_PAGES: u64 = 8192;

/// Memory by node, and how exactly that is known.
pub type ByNode = (BTreeMap<NodeId, u64>, Exactness);

/// Reads the page maps of processes, one after the other.
#[derive(Debug)]
pub struct PageReader {
    roots: Arc<Roots>,
    scanner: Scanner,
    places: Vec<PageLocation>,
}

impl PageReader {
    /// For these kernel file systems.
    pub fn new(roots: &Roots, page_access: PageAccess) -> Self {
        let scanner = Scanner::new(roots, &page_access, Precision::Sampled).with_gaps();
        Self { roots: Arc::new(roots.clone()), scanner, places: Vec::new() }
    }

    /// The memory of a process by node, of which `resident_bytes` are resident. `None` if it has ended.
    ///
    /// # Errors
    /// It may not be read.
    pub fn by_node(
        &mut self,
        process: &Process,
        resident_bytes: u64,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<ByNode>, Error> {
        let Some(space) = AddressSpace::answering(&self.roots, process.clone())? else {
            return Ok(None);
        };
        let vmas = vmas::read(&space, &mut vmas::Common::default())?;
        let vmas: Vec<&Vma> = vmas.iter().filter(|vma| is_counted(vma)).collect();
        let (all, chosen) = windows(&vmas);
        let mut nodes: BTreeMap<NodeId, u64> = BTreeMap::new();
        for (address, pages) in chosen {
            self.places.clear();
            self.scanner.locate(&space, address, number::index(pages), &mut self.places)?;
            for place in &self.places {
                if let PageLocation::On(node) = place {
                    *nodes.entry(*node).or_default() += page_size();
                }
            }
        }
        let seen: u64 = nodes.values().sum();
        if all <= WINDOWS {
            return Ok((seen > 0).then_some((nodes, Exactness::Scanned)));
        }
        if seen < ENOUGH * page_size() {
            return self.scan(process, stop);
        }
        for bytes in nodes.values_mut() {
            *bytes =
                number::amount(u128::from(*bytes) * u128::from(resident_bytes) / u128::from(seen));
        }
        Ok(Some((nodes, Exactness::Sampled(seen / page_size()))))
    }

    /// The private hugetlb memory of a process, by size of a page and by node. Only numa_maps says the size, and the kernel walks
    /// all memory of the process for that; so nothing is reported where this machine has pools of several sizes.
    /// Shared mappings would count for each process, and are left out.
    ///
    /// # Errors
    /// It may not be read.
    pub fn hugetlb(
        &mut self,
        process: &Process,
        topology: &Topology,
    ) -> Result<BTreeMap<u64, BTreeMap<NodeId, u64>>, Error> {
        let Some(size) = only_size(topology) else { return Ok(BTreeMap::new()) };
        let Some(space) = AddressSpace::answering(&self.roots, process.clone())? else {
            return Ok(BTreeMap::new());
        };
        let vmas = vmas::read(&space, &mut vmas::Common::default())?;
        let vmas: Vec<&Vma> = vmas.iter().filter(|vma| is_hugetlb(vma) && !vma.shared).collect();
        let all: u64 = vmas.iter().map(|vma| (vma.end - vma.start) / size).sum();
        let step = all.div_ceil(HUGE_PAGES).max(1);
        let pages = vmas.iter().flat_map(|vma| (vma.start..vma.end).step_by(number::index(size)));
        let mut nodes: BTreeMap<NodeId, u64> = BTreeMap::new();
        for address in pages.step_by(number::index(step)) {
            self.places.clear();
            self.scanner.locate(&space, address, 1, &mut self.places)?;
            if let Some(PageLocation::On(node)) = self.places.first() {
                *nodes.entry(*node).or_default() += size * step;
            }
        }
        Ok(if nodes.is_empty() { BTreeMap::new() } else { [(size, nodes)].into() })
    }

    fn scan(
        &self,
        process: &Process,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<ByNode>, Error> {
        let (topology, options) = (topology::places(&self.roots)?, Options::default());
        let processes = vec![process.clone()];
        let (policies, roots) = (Policies::Leave, &self.roots);
        let surveyor = Surveyor { policies, stop, ..Surveyor::new(roots, &topology, &options) };
        let (_survey, seen) = surveyor.survey(processes, None)?;
        let mut nodes: BTreeMap<NodeId, u64> = BTreeMap::new();
        for extent in seen.extents.iter().filter(|extent| !extent.kind.is_file()) {
            for (&node, on) in &extent.residency.nodes {
                *nodes.entry(node).or_default() += on.total_bytes();
            }
        }
        Ok((!nodes.is_empty()).then_some((nodes, Exactness::Scanned)))
    }
}

/// Files are mapped by others too, and hugetlb memory is not what a process's status counts.
fn is_counted(vma: &Vma) -> bool {
    !vma.kind.is_file() && !is_hugetlb(vma)
}

/// Known by its device, or as memory of mmap with MAP_HUGETLB (mm/hugetlb.c, `hugetlb_file_setup`).
fn is_hugetlb(vma: &Vma) -> bool {
    vma.hugetlb_bytes.is_some() || vma.name.starts_with("/anon_hugepage")
}

/// The size of all hugetlb pages, if there is one alone.
fn only_size(topology: &Topology) -> Option<u64> {
    let pools = topology.nodes().flat_map(|node| &node.memory.huge_pools);
    let sizes: BTreeSet<u64> =
        pools.filter(|pool| pool.total_pages > 0).map(|pool| pool.page_bytes).collect();
    sizes.first().copied().filter(|_| sizes.len() == 1)
}

/// Number of windows, and the windows that are read: address and pages. If there are too many, every n-th.
fn windows(vmas: &[&Vma]) -> (u64, Vec<(u64, u64)>) {
    let pages = |vma: &Vma| (vma.end - vma.start) / page_size();
    let all: u64 = vmas.iter().map(|vma| pages(vma).div_ceil(WINDOW)).sum();
    let step = all.div_ceil(WINDOWS).max(1);
    let mut chosen = Vec::new();
    // The window of the next VMA that is read first.
    let mut skip = 0;
    for vma in vmas {
        let count = pages(vma).div_ceil(WINDOW);
        let mut number = skip;
        while number < count {
            let first = number * WINDOW;
            chosen.push((vma.start + first * page_size(), WINDOW.min(pages(vma) - first)));
            number += step;
        }
        skip = number - count;
    }
    (all, chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::maps::Object;

    fn vma(start: u64, pages: u64) -> Vma {
        Vma {
            start,
            end: start + pages * page_size(),
            offset: start,
            object: Object::Anonymous,
            shared: false,
            kind: numaloc_core::Kind::Anonymous,
            fixed: None,
            hugetlb_bytes: None,
            mappers: Default::default(),
            name: "".into(),
            rule: None,
        }
    }

    #[test]
    fn small_memory_is_read_as_a_whole() {
        let vmas = [vma(0x10000, 3), vma(0x100_0000, 1025)];
        let (all, chosen) = windows(&vmas.iter().collect::<Vec<_>>());
        assert_eq!((all, chosen.len()), (4, 4));
        assert_eq!(chosen.iter().map(|(_, pages)| pages).sum::<u64>(), 1028);
        assert_eq!(chosen[3], (0x100_0000 + 1024 * page_size(), 1));
    }

    #[test]
    fn large_memory_is_read_in_the_same_number_of_windows_however_it_is_cut() {
        let one = [vma(1 << 30, 1 << 28)];
        let many: Vec<Vma> = (0..100_000).map(|at| vma(at << 24, 2600)).collect();
        for vmas in [&one[..], &many[..]] {
            let (all, chosen) = windows(&vmas.iter().collect::<Vec<_>>());
            assert!(all > WINDOWS);
            assert!((WINDOWS / 2..=WINDOWS).contains(&(chosen.len() as u64)), "{}", chosen.len());
            assert!(chosen.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
