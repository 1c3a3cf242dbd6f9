//! Memory policies and hugetlb page sizes of memory that is to be moved, and how far they are asked for.
//!
//! Of another process only numa_maps tells them, and to print a VMA's line the kernel walks each of its pages
//! (fs/proc/task_mmu.c, `show_numa_map`): about 28 ns for a base page, in one go. Until 6.12 it holds the process's
//! mmap_lock for so long, so that whoever maps, unmaps or, after the first of these, faults, waits; in 7.2 the VMA's own.
//! It can be neither cut short nor entered in the middle: VMAs come in the order of their addresses.

use crate::{
    Error, Roots, Survey,
    numa_maps::{self, AtOnce, Placement},
    space::AddressSpace,
    survey::read_of,
};
use numaloc_core::{Claims, Extent, Identity, Mapping, Mempolicy, NodeResidency, NodeSet, Options};
use std::{collections::BTreeMap, path::Path};

/// Bytes of a VMA that are walked without a second thought: a tenth of a millisecond, if they are base pages. Huge ones take
/// next to nothing, but which are huge is only guessed until they are moved (`residency`).
const BRIEF_BYTES: u64 = 16 << 20;

/// How `maps` names private hugetlb memory (fs/hugetlbfs/inode.c, `hugetlb_file_setup`).
const HUGETLB: &str = "/anon_hugepage (deleted)";

const FILE: &str = "numa_maps";

/// How far memory policies are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Policies<'a> {
    /// For all memory that is to be moved, whatever that takes: before it is moved.
    Ask,
    /// As far as nobody feels it. Of a process with larger mappings no VMA's own policy is known, only that of the process
    /// as a whole (set_mempolicy, numactl).
    AskBriefly,
    /// Those that an earlier survey of the same processes has found. What is new since then counts as without one.
    Known(&'a Survey),
    /// Not at all.
    Leave,
}

/// What is known of each process, by its identity.
pub(crate) type Placements = BTreeMap<Identity, Vec<Placement>>;

/// What is looked at, and with which wishes.
pub(crate) struct Placing<'a> {
    pub(crate) roots: &'a Roots,
    pub(crate) spaces: &'a [AddressSpace],
    pub(crate) claims: &'a Claims,
    pub(crate) sources: &'a NodeSet,
    pub(crate) options: &'a Options,
    pub(crate) policies: Policies<'a>,
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
}

/// What there is to ask of one process.
#[derive(Default)]
struct Questions {
    /// Extents that have pages to be moved, by index, with where they begin here.
    wanted: Vec<(usize, u64)>,
    /// Where all extents begin here, with the bytes that are walked there.
    walks: Vec<(u64, u64)>,
}

impl Placing<'_> {
    /// Fills in what is known of the extents that have pages to be moved, and returns it for later surveys.
    ///
    /// # Errors
    /// [`Error::NoRights`]; [`Error::Stopped`]; what reading can give.
    pub(crate) fn place(&self, extents: &mut [Extent]) -> Result<Placements, Error> {
        let mut all = Placements::new();
        for (space, questions) in self.spaces.iter().zip(self.questions(extents)) {
            let Some(last) = questions.wanted.iter().map(|&(_, start)| start).max() else {
                continue;
            };
            let known = match self.policies {
                Policies::Leave => continue,
                Policies::Known(before) => before.placements.get(&space.process.identity).cloned(),
                Policies::AskBriefly if !questions.are_brief(last) => {
                    self.guess(extents, &questions, space)?;
                    continue;
                }
                Policies::Ask | Policies::AskBriefly => {
                    let at_once = questions.at_once();
                    let read = |path: &Path| numa_maps::up_to(path, last, at_once, self.stop);
                    read_of(self.roots, space, FILE, read)?
                }
            };
            let known = known.unwrap_or_default();
            for &(index, start) in &questions.wanted {
                fill(&mut extents[index], &known, start);
            }
            all.insert(space.process.identity, known);
        }
        Ok(all)
    }

    fn questions(&self, extents: &[Extent]) -> Vec<Questions> {
        let mut questions: Vec<Questions> = Vec::new();
        questions.resize_with(self.spaces.len(), Questions::default);
        for (index, extent) in extents.iter().enumerate() {
            let resident = extent.residency.nodes.values().map(NodeResidency::total_bytes);
            let bytes = if &*extent.name == HUGETLB { 0 } else { resident.sum() };
            let is_away = self.is_away(extent);
            for &Mapping { process, start } in &extent.mappings {
                questions[process].walks.push((start, bytes));
                if is_away {
                    questions[process].wanted.push((index, start));
                }
            }
        }
        questions
    }

    fn is_away(&self, extent: &Extent) -> bool {
        let home = self.claims.on(&extent.mappings, &extent.pages).home;
        extent.residency.nodes.iter().any(|(&node, resident)| {
            !home.contains(node)
                && self.sources.contains(node)
                && (resident.owned_bytes > 0 || self.options.include_shared)
        })
    }

    /// Takes the policy of the process as a whole for that of each mapping. The first line shows it, unless that mapping
    /// has one of its own, which the text of a program never has.
    fn guess(
        &self,
        extents: &mut [Extent],
        questions: &Questions,
        space: &AddressSpace,
    ) -> Result<(), Error> {
        if self.options.include_bound {
            return Ok(());
        }
        let first = questions.walks.iter().min();
        let first = match first.is_some_and(|&(_, bytes)| bytes <= BRIEF_BYTES) {
            true => read_of(self.roots, space, FILE, numa_maps::first)?.flatten(),
            false => None,
        };
        let policy = match first.map(|first| first.policy) {
            None | Some(Mempolicy::Default) => Mempolicy::Unasked,
            Some(policy) => policy,
        };
        for &(index, _) in &questions.wanted {
            wish(&mut extents[index], &policy);
        }
        Ok(())
    }
}

impl Questions {
    /// Whether nobody feels the walks up to the mapping at `last`, one by one.
    fn are_brief(&self, last: u64) -> bool {
        self.walks.iter().all(|&(start, bytes)| start > last || bytes <= BRIEF_BYTES)
    }

    /// How walks are made. Of a page of lines the last may lie behind what is asked for, so all mappings count.
    fn at_once(&self) -> AtOnce {
        match self.walks.iter().map(|&(_, bytes)| bytes).sum::<u64>() <= BRIEF_BYTES {
            true => AtOnce::Many,
            false => AtOnce::One,
        }
    }
}

fn fill(extent: &mut Extent, known: &[Placement], start: u64) {
    let Some(placement) = numa_maps::at(known, start) else { return };
    extent.hugetlb_bytes = extent.hugetlb_bytes.or(placement.hugetlb_bytes);
    wish(extent, &placement.policy);
}

/// Of several who map it, one that has a wish decides.
fn wish(extent: &mut Extent, policy: &Mempolicy) {
    if matches!(extent.policy, Mempolicy::Default | Mempolicy::Unasked) {
        extent.policy = policy.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_mappings_on_the_way_are_walked_in_passing() {
        let walks = vec![(0x1000, 4096), (0x9000, BRIEF_BYTES + 4096), (0x5000, BRIEF_BYTES)];
        let questions = Questions { wanted: Vec::new(), walks };
        assert!(questions.are_brief(0x5000), "what lies behind does not matter");
        assert!(!questions.are_brief(0x9000));
        let walks = |walks| Questions { wanted: Vec::new(), walks };
        assert_eq!(walks(vec![(0x1000, 4096), (0x5000, 4096)]).at_once(), AtOnce::Many);
        let two = walks(vec![(0x1000, BRIEF_BYTES), (0x5000, 4096)]);
        assert!(two.are_brief(0x5000) && two.at_once() == AtOnce::One, "together they take long");
    }
}
