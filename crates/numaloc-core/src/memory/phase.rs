//! At which turn of a cycle a mapping begins, by the pages that it has.
//!
//! The index of a page of anonymous memory counts from where the mapping was made (`vm_pgoff`). mremap(2) moves a mapping and keeps
//! that, and /proc/PID/maps does not show it (fs/proc/task_mmu.c, `show_map_vma`: the address only). So where most pages fit another
//! beginning than the address, that is taken.

use crate::{
    machine::ids::NodeId,
    memory::{cycle::Cycle, stripe::Origin},
    number, page_size, pmd_pages, pmd_size,
};

/// Folios of a mapping that have to be counted before its beginning follows from them: few fit any by chance.
const LEAST: u64 = 64;

/// Number of folios of a mapping that fit each beginning of a plain cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Base pages, by how many indexes later the mapping begins.
    base: Vec<u64>,
    /// The same of huge pages.
    huge: Vec<u64>,
}

impl Phases {
    /// Counts a folio of `bytes` bytes with this index that is on `node`. Leaves out what says nothing: folios of other sizes, nodes
    /// without a turn, and cycles with weights.
    pub fn add(&mut self, cycle: &Cycle, (index, bytes): (u64, u64), node: NodeId) {
        let counts = match bytes {
            bytes if bytes == page_size() => &mut self.base,
            bytes if bytes == pmd_size() => &mut self.huge,
            _ => return,
        };
        let Some((turn, nodes)) = cycle.plain_turn(node) else { return };
        counts.resize(number::index(nodes), 0);
        let later = (turn + nodes - index % nodes) % nodes;
        counts[number::index(later)] += 1;
    }

    /// Adds what was counted of another part of the mapping.
    pub fn join(&mut self, other: &Self) {
        for (counts, others) in [(&mut self.base, &other.base), (&mut self.huge, &other.huge)] {
            counts.resize(counts.len().max(others.len()), 0);
            counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
        }
    }

    /// The first page of the mapping that its folios fit; `None`: most of them fit the one that `origin` has, or none.
    pub fn first_page(&self, origin: Origin) -> Option<u64> {
        let (base, huge) = (clear(&self.base), clear(&self.huge));
        if base.unwrap_or(0) == 0 && huge.unwrap_or(0) == 0 {
            return None;
        }
        let nodes = self.base.len().max(self.huge.len()) as u64;
        let pages = pmd_pages();
        // The turn of huge pages follows from the huge pages before the mapping, that of base pages from the rest, too.
        let huge_first = (origin.first_page / pages + huge.unwrap_or(0)) * pages;
        let wanted = origin.first_page % nodes + base.unwrap_or(0);
        let rest = (wanted + nodes - huge_first % nodes) % nodes;
        (rest < pages).then_some(huge_first + rest)
    }
}

/// The beginning that three quarters of the folios fit.
fn clear(counts: &[u64]) -> Option<u64> {
    let all: u64 = counts.iter().sum();
    let (later, most) = (0..).zip(counts).max_by_key(|(_, count)| **count)?;
    (all >= LEAST && most * 4 >= all * 3).then_some(later)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cycle(nodes: u64) -> Cycle {
        Cycle::new((0..nodes).map(|node| (NodeId(node as u32 * 3), 1)))
    }

    /// The counts of a mapping whose folios were placed from the first page `kernels` on, and that is taken to begin at
    /// `ours`.
    fn counted(cycle: &Cycle, (kernels, ours): (u64, u64), folios: u64, bytes: u64) -> Phases {
        let origin = |first_page| Origin { first_page, ..Origin::default() };
        let mut phases = Phases::default();
        for folio in 0..folios {
            let at = (folio * bytes) as i64;
            let node = cycle.node(origin(kernels).index(at, bytes));
            phases.add(cycle, (origin(ours).index(at, bytes), bytes), node);
        }
        phases
    }

    proptest! {
        #[test]
        fn all_folios_fit_the_beginning_that_they_have_shown(
            nodes in 1u64..9, kernels in 0u64..1 << 36, ours in 0u64..1 << 36,
        ) {
            let cycle = cycle(nodes);
            let mut phases = counted(&cycle, (kernels, ours), 64, page_size());
            phases.join(&counted(&cycle, (kernels, ours), 64, pmd_size()));
            let first = phases.first_page(Origin { first_page: ours, ..Origin::default() });
            let again = first.unwrap_or(ours);
            for bytes in [page_size(), pmd_size()] {
                let fits = counted(&cycle, (kernels, again), 64, bytes);
                prop_assert_eq!(clear(if bytes == page_size() { &fits.base } else { &fits.huge }), Some(0));
            }
        }
    }

    #[test]
    fn few_folios_and_memory_of_one_node_say_nothing() {
        let (two, origin) = (cycle(2), Origin::default());
        assert_eq!(counted(&two, (1, 0), 64, page_size()).first_page(origin), Some(1));
        assert_eq!(counted(&two, (1, 0), 63, page_size()).first_page(origin), None);
        assert_eq!(counted(&two, (0, 0), 64, page_size()).first_page(origin), None);
        let mut remote = Phases::default();
        (0..1001).for_each(|index| remote.add(&two, (index, page_size()), NodeId(3)));
        assert_eq!(remote.first_page(origin), None);
        let weighted = Cycle::new([(NodeId(0), 2), (NodeId(3), 1)]);
        assert_eq!(counted(&weighted, (1, 0), 640, page_size()), Phases::default());
    }
}
