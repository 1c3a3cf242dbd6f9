//! Memory policies and hugetlb page sizes of memory that is to be moved, and how far they are read.
//!
//! For another process only numa_maps tells them. To print a VMA's line the kernel walks each of the VMA's pages
//! (fs/proc/task_mmu.c, `show_numa_map`), which takes about 28 ns for each base page, without a break. Up to 6.12 the
//! kernel holds the process's mmap_lock during the walk. Threads that map or unmap then wait, and after the first of
//! these also threads that fault. In 7.2 the kernel holds the VMA's own lock. A walk can be neither cut short nor begun
//! in the middle: VMAs come in the order of their addresses.

use crate::{
    Error,
    files::numa_maps::{self, FILE, Placement},
    survey::{
        early_read::EarlyRead,
        page_access::PageAccess,
        space::AddressSpace,
        walks::{BRIEF_BYTES, Walks},
    },
};
use numaloc_core::{
    Claim, Claims, Extent, Identity, Kind, Mapping, Mempolicy, NodeResidency, NodeSet, Options,
    Pages,
};
use std::{collections::BTreeMap, path::Path};

/// The extent to which memory policies are read.
#[derive(Clone, Copy, Debug)]
pub enum Policies<'a> {
    /// All policies of memory that is to be moved, at any cost. For use before a move.
    Ask,
    /// As far as the application does not notice it. If larger mappings have to be walked on the way, only the policy
    /// of the process as a whole is read (set_mempolicy, numactl), and none of single VMAs.
    AskBriefly,
    /// Policies that an earlier survey of the same processes has found. Processes that are new since then count as
    /// without a policy. A new mapping has that of the known mapping below it.
    Known(KnownHost<'a>),
    /// No memory policy is read at all.
    Leave,
}

/// Findings of a survey that hold for later ones too ([`crate::Survey::known`]).
#[derive(Clone, Copy, Debug)]
pub struct KnownHost<'a> {
    /// The method by which page locations were found.
    pub(crate) page_access: &'a PageAccess,
    pub(crate) placements: &'a Placements,
}

/// The placements that were read of each process, by its identity.
pub(crate) type Placements = BTreeMap<Identity, Vec<Placement>>;

pub(crate) struct Placing<'a> {
    pub(crate) spaces: &'a [AddressSpace],
    pub(crate) claims: &'a Claims,
    pub(crate) sources: &'a NodeSet,
    pub(crate) options: &'a Options,
    pub(crate) policies: Policies<'a>,
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
}

/// The mappings of one process whose policies have to be read.
struct Questions {
    /// Extents that have pages to be moved, by index, with their first address in this process.
    wanted: Vec<(usize, u64)>,
    /// What the kernel walks of all extents in this process.
    walks: Walks,
}

impl Placing<'_> {
    /// Fills in policy and hugetlb page size of the extents that have pages to be moved. Returns what has been read,
    /// for later surveys. `early`: the first process's numa_maps is being read already.
    ///
    /// # Errors
    /// [`Error::NoRights`]; [`Error::Stopped`]; errors of reading.
    pub(crate) fn place(
        &self,
        extents: &mut [Extent],
        mut early: Option<EarlyRead<'_>>,
    ) -> Result<Placements, Error> {
        let mut all = Placements::new();
        let mut answered = vec![false; extents.len()];
        for (space, questions) in self.spaces.iter().zip(self.questions(extents)) {
            let (settled, open): (Vec<_>, Vec<_>) =
                questions.wanted.iter().partition(|&&(index, _)| answered[index]);
            let last = open.iter().map(|&(_, start)| start).max();
            let known = match (self.policies, last) {
                (Policies::Leave, _) => continue,
                (_, None) if settled.is_empty() => continue,
                (Policies::Known(before), _) => {
                    before.placements.get(&space.process.identity).cloned()
                }
                (_, None) => self.first(&questions, space)?.map(|first| vec![first]),
                (Policies::AskBriefly, Some(last)) if !questions.walks.are_brief(last) => {
                    self.guess(extents, &questions, space)?;
                    continue;
                }
                (Policies::Ask | Policies::AskBriefly, Some(last)) => match early.take() {
                    Some(early) => early.up_to(last)?,
                    None => {
                        let at_once = |after| questions.walks.at_once(after);
                        let read =
                            |path: &Path| numa_maps::up_to(path, &|| last, &at_once, self.stop);
                        space.read(FILE, read)?
                    }
                },
            };
            let known = known.unwrap_or_default();
            for (index, start) in open {
                let is_known = fill(&mut extents[index], &known, start);
                answered[index] = is_known && has_one_policy(&extents[index]);
            }
            if let Some(first) = known.first() {
                settled.iter().for_each(|&(index, _)| wish(&mut extents[index], &first.policy));
            }
            all.insert(space.process.identity, known);
        }
        Ok(all)
    }

    fn questions(&self, extents: &[Extent]) -> Vec<Questions> {
        let mut wanted = vec![Vec::new(); self.spaces.len()];
        let mut walks = vec![Vec::new(); self.spaces.len()];
        for (index, extent) in extents.iter().enumerate() {
            let resident = extent.residency.nodes.values().map(NodeResidency::total_bytes);
            // Huge pages have an entry each, and what is not mapped has none.
            let has_entries = extent.hugetlb_bytes.is_none() && extent.pages != Pages::Unmapped;
            let bytes = if has_entries { resident.sum() } else { 0 };
            let is_away = self.is_away(extent);
            for &Mapping { process, start } in &extent.mappings {
                walks[process].push((start, bytes));
                if is_away {
                    wanted[process].push((index, start));
                }
            }
        }
        let both = wanted.into_iter().zip(walks);
        both.map(|(wanted, walks)| Questions { wanted, walks: walks.into_iter().collect() })
            .collect()
    }

    fn is_away(&self, extent: &Extent) -> bool {
        let claim = self.claims.on_extent(extent);
        let Claim { home, portions, in_tiers, .. } = &*claim;
        extent.residency.nodes.iter().any(|(&node, resident)| {
            // Where memory is placed by amounts, any page may have to go.
            (portions.is_some() || !home.contains(node))
                && (self.sources.contains(node) || in_tiers.contains_key(&node))
                && (resident.owned_bytes > 0 || self.options.include_shared)
        })
    }

    /// The first line of numa_maps, if its VMA has at most [`BRIEF_BYTES`].
    fn first(
        &self,
        questions: &Questions,
        space: &AddressSpace,
    ) -> Result<Option<Placement>, Error> {
        match questions.walks.first() {
            Some(bytes) if bytes <= BRIEF_BYTES => {
                Ok(space.read(FILE, numa_maps::first)?.flatten())
            }
            _ => Ok(None),
        }
    }

    /// Takes the policy of the process as a whole for that of each mapping. The first line shows it, unless the first
    /// mapping has a policy of its own; a program's code never has one. Without a first line, or the policy is the
    /// default, the mappings count as not asked ([`Mempolicy::Unasked`]).
    fn guess(
        &self,
        extents: &mut [Extent],
        questions: &Questions,
        space: &AddressSpace,
    ) -> Result<(), Error> {
        if self.options.include_bound {
            return Ok(());
        }
        let policy = match self.first(questions, space)?.map(|first| first.policy) {
            None | Some(Mempolicy::Default) => Mempolicy::Unasked,
            Some(policy) => policy,
        };
        for &(index, _) in &questions.wanted {
            wish(&mut extents[index], &policy);
        }
        Ok(())
    }
}

/// Fills in what is known of the mapping at `start`. Returns whether anything is.
fn fill(extent: &mut Extent, known: &[Placement], start: u64) -> bool {
    let Some(placement) = numa_maps::at(known, start) else { return false };
    extent.hugetlb_bytes = extent.hugetlb_bytes.or(placement.hugetlb_bytes);
    wish(extent, &placement.policy);
    true
}

/// Whether one answer holds for all processes that map the extent. A policy of shared memory belongs to the object
/// (mm/shmem.c, `shmem_get_policy`), but not with hugetlb pages. If the object has no policy, each process shows its
/// own policy as a whole, and the first line of its numa_maps is enough for that. So of very many processes that map a
/// segment, only one has all of it walked.
fn has_one_policy(extent: &Extent) -> bool {
    extent.kind == Kind::Shmem
        && matches!(extent.pages, Pages::All | Pages::Unmapped)
        && extent.hugetlb_bytes.is_none()
}

/// If several processes map the extent, the first policy found that is not the default decides.
fn wish(extent: &mut Extent, policy: &Mempolicy) {
    if matches!(extent.policy, Mempolicy::Default | Mempolicy::Unasked) {
        extent.policy = policy.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, anonymous};
    use numaloc_core::{Claim, NodeId, Process, Residency};
    use std::sync::Arc;

    /// The policy that is found for a segment that two processes map, with the numa_maps of each.
    fn policy_of(lines: [&str; 2]) -> Mempolicy {
        let fake = Fake::new();
        let spaces = [100, 101].map(|pid| {
            fake.process(pid, "app", &["0"]);
            let identity = Identity { pid, start_time: 1000 + pid as u64 };
            let process = Process { identity, comm: "app".into(), ..Process::default() };
            AddressSpace::open(&Arc::new(fake.roots()), process).unwrap().unwrap()
        });
        for (pid, lines) in [100, 101].iter().zip(lines) {
            fake.write(&format!("proc/{pid}/numa_maps"), lines);
        }
        let remote = NodeResidency { owned_bytes: 0x4000, ..NodeResidency::default() };
        let nodes = [(NodeId(1), remote)].into();
        let mut extents = [Extent {
            mappings: [0, 1].map(|process| Mapping { process, start: 0x5000 }).to_vec(),
            kind: Kind::Shmem,
            name: "/SYSV00000000".into(),
            residency: Residency { nodes, ..Residency::default() },
            ..anonymous(0x5000, 0x4000)
        }];
        let home: NodeSet = "0".parse().unwrap();
        let claim = Claim { home: home.clone(), allowed: home, ..Claim::default() };
        let placing = Placing {
            claims: &spaces.iter().map(|_| claim.clone()).collect(),
            spaces: &spaces,
            sources: &"1".parse().unwrap(),
            options: &Options::default(),
            policies: Policies::Ask,
            stop: &|| false,
        };
        placing.place(&mut extents, None).unwrap();
        let [extent] = extents;
        extent.policy
    }

    #[test]
    fn one_of_the_processes_that_map_a_segment_is_asked_for_its_policy() {
        let bind = |node: &str| Mempolicy::Bind(node.parse().unwrap());
        let lines = "1000 default N0=1\n5000 bind:0 file=/SYSV00000000 N1=4\n";
        let unread = "1000 default N0=1\n5000 bind:7 file=/SYSV00000000 N1=4\n";
        assert_eq!(policy_of([lines, unread]), bind("0"), "the second is not read so far");
        let none = "1000 default N0=1\n5000 default file=/SYSV00000000 N1=4\n";
        assert_eq!(policy_of([none, unread]), Mempolicy::Default);
        let wish = "1000 bind:1 N0=1\n5000 bind:7 file=/SYSV00000000 N1=4\n";
        assert_eq!(policy_of([none, wish]), bind("1"), "a process's policy is in its first line");
        let huge = none.replace("N1=4", "huge N1=4 kernelpagesize_kB=2048");
        assert_eq!(policy_of([&huge, unread]), bind("7"), "with huge pages each has its own");
        assert_eq!(policy_of(["", lines]), bind("0"), "the first has ended");
    }
}
