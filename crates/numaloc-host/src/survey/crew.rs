//! The processes of a target at one time, and the processes that it gets while it is looked at and moved.
//!
//! Whether a page belongs to the target alone is decided by comparing the mappings that are known with the number that
//! the kernel counts. So in a server that forks, the mappings of processes that were born meanwhile have to be known as
//! well. They are looked for where a page has more mappings than are known.

use crate::{
    Arrivals, Roots,
    files::maps::{Object, Vma},
    processes::devices::with_device_nodes,
    survey::{
        space::{AddressSpace, open_answering},
        vmas,
    },
};
use numaloc_core::{ClaimSet, Claims, Kind, Mapping, Options, Pages, Process, Topology, planner};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

/// Most processes that one look takes in. A target that gets more between two looks keeps what those map.
const MOST: usize = 1024;

/// The data that taking in new processes of a target needs.
#[derive(Debug)]
pub struct Growth {
    /// Where the host's files are read.
    pub roots: Arc<Roots>,
    /// The nodes of the survey.
    pub topology: Topology,
    /// The options of the survey.
    pub options: Options,
    /// Lists the processes that the target has now.
    pub arrivals: Arc<dyn Arrivals>,
}

/// The processes of a target at one time: the processes of the survey, and the ones that it has got since.
#[derive(Debug)]
pub struct Crew {
    /// Their memory. The memory of the survey comes first, and its indices stay. The index of a newcomer that has
    /// ended leads to memory that no longer exists, until a later look gives it to another newcomer: forget indices
    /// of newcomers before you take a later crew.
    pub spaces: Vec<AddressSpace>,
    /// Where the pages of each process belong, by the index of `spaces`.
    pub claims: Claims,
    surveyed: usize,
    newcomers: Vec<Newcomer>,
    /// Stands for all newcomers that have ended, so that these take next to no memory.
    ended: Option<AddressSpace>,
    /// VMAs of processes of the survey, read when they are first needed. `None`: the process has ended.
    layouts: Mutex<BTreeMap<usize, Option<Arc<Vec<Vma>>>>>,
}

/// A process that a target has got since the survey, and that was alive at the last look.
#[derive(Clone, Debug)]
struct Newcomer {
    process: usize,
    vmas: Arc<Vec<Vma>>,
}

/// A part of an extent, with all mappings that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes from the extent's start.
    pub range: Range<u64>,
    /// The mappings of the extent, and then those of newcomers. Offsets are counted from the extent's start.
    pub mappings: Vec<Mapping>,
    /// Whether it is mapped shared and surely the same object, so that a page which newcomers alone map is a page of the extent. Otherwise such a
    /// page is a copy of their own.
    pub is_shared: bool,
}

impl Crew {
    /// The processes of a survey.
    pub(super) fn new(spaces: &[AddressSpace], claims: &Claims) -> Self {
        Self {
            spaces: spaces.to_vec(),
            claims: claims.clone(),
            surveyed: spaces.len(),
            newcomers: Vec::new(),
            ended: None,
            layouts: Mutex::default(),
        }
    }

    /// Whether it has processes that the survey does not know.
    pub fn has_newcomers(&self) -> bool {
        !self.newcomers.is_empty()
    }

    /// The processes that were alive at the last look and that the survey does not know.
    pub fn newcomers(&self) -> impl Iterator<Item = &Process> {
        self.newcomers.iter().map(|newcomer| &self.spaces[newcomer.process].process)
    }

    /// Divides `range`, in bytes from the start of an extent with these `mappings`, where the newcomers that map it
    /// change. A newcomer counts only if its pages belong where those of the extent belong: if its claim is one of
    /// theirs.
    pub fn cuts(&self, mappings: &[Mapping], pages: &Pages, range: Range<u64>) -> Vec<Cut> {
        let (others, is_shared) = self.pieces(mappings, pages, &range);
        let inside = |at: &u64| range.start < *at && *at < range.end;
        let ends = others.iter().flat_map(|(piece, _)| [piece.start, piece.end]).filter(inside);
        let ends: BTreeSet<u64> = ends.chain([range.end]).collect();
        let mut cuts: Vec<Cut> = Vec::new();
        let mut start = range.start;
        for end in ends {
            let all = others.iter().filter(|(piece, _)| piece.start <= start && end <= piece.end);
            let all: Vec<Mapping> =
                mappings.iter().copied().chain(all.map(|(_, mapping)| *mapping)).collect();
            match cuts.last_mut() {
                Some(last) if last.mappings == all => last.range.end = end,
                _ => cuts.push(Cut { range: start..end, mappings: all, is_shared }),
            }
            start = end;
        }
        cuts
    }

    /// Where newcomers map an extent, and whether the extent is mapped shared.
    fn pieces(
        &self,
        mappings: &[Mapping],
        pages: &Pages,
        range: &Range<u64>,
    ) -> (Vec<(Range<u64>, Mapping)>, bool) {
        let claims = match pages {
            Pages::Common(claims) => claims.clone(),
            Pages::All | Pages::Own | Pages::Unmapped => {
                self.claims.of(mappings.iter().map(|mapping| mapping.process))
            }
        };
        let newcomers: Vec<&Newcomer> =
            self.newcomers.iter().filter(|newcomer| self.is_of(newcomer, &claims)).collect();
        let known =
            || mappings.iter().find_map(|known| Some((*known, self.layout(known.process)?)));
        let Some((known, layout)) = (!newcomers.is_empty()).then(known).flatten() else {
            return (Vec::new(), false);
        };
        let (mut pieces, mut is_shared) = (Vec::new(), true);
        let addresses = known.start + range.start..known.start + range.end;
        for vma in layout.iter().filter(|vma| overlap(&(vma.start..vma.end), &addresses).is_some())
        {
            is_shared &= vma.shared && vma.object.is_proved();
            for Newcomer { process, vmas } in &newcomers {
                let theirs = vmas.iter().filter(|theirs| theirs.object.may_share(vma.object));
                pieces.extend(theirs.filter_map(|theirs| {
                    let shown = overlap(&bytes(vma), &bytes(theirs))?;
                    let address = vma.start + (shown.start - vma.offset);
                    // A mapping that begins before the extent counts with its part in the extent.
                    let before = known.start.saturating_sub(address);
                    let at = (address + before).checked_sub(known.start)?;
                    let end = at + (shown.end - shown.start).checked_sub(before)?;
                    let start = theirs.start + (shown.start + before - theirs.offset);
                    let mapping = Mapping { process: *process, start: start.checked_sub(at)? };
                    (at < end).then_some((at..end, mapping))
                }));
            }
        }
        (pieces, is_shared)
    }

    /// The objects of the VMAs of an extent with these `mappings`; `None`: none that is worth a search in all
    /// processes, such as the code of programs.
    pub(super) fn objects(
        &self,
        mappings: &[Mapping],
        range: &Range<u64>,
    ) -> Option<BTreeSet<Object>> {
        let known =
            |known: &Mapping| Some((known.start + range.start, self.layout(known.process)?));
        let (start, layout) = mappings.iter().find_map(known)?;
        let addresses = start..start + (range.end - range.start);
        let of_extent =
            layout.iter().filter(|vma| overlap(&(vma.start..vma.end), &addresses).is_some());
        let mut objects = BTreeSet::new();
        for vma in of_extent {
            if !vma.object.is_proved() || vma.kind == Kind::File && !vma.shared {
                return None;
            }
            objects.extend(Some(vma.object).filter(|&object| object != Object::Anonymous));
        }
        Some(objects)
    }

    /// The objects that processes of the survey map shared, as far as their maps were read.
    pub(super) fn shared_objects(&self) -> BTreeSet<Object> {
        let layouts = self.layouts.lock();
        let vmas = layouts.values().flatten().flat_map(|vmas| vmas.iter());
        let is_shared = |vma: &&Vma| vma.shared && vma.object.is_proved();
        let objects = vmas.filter(is_shared).map(|vma| vma.object);
        objects.filter(|&object| object != Object::Anonymous).collect()
    }

    /// The processes that are the target's, as far as they live.
    pub(super) fn living(&self) -> Vec<AddressSpace> {
        let newcomers = self.newcomers.iter().map(|newcomer| &self.spaces[newcomer.process]);
        let all = self.spaces[..self.surveyed].iter().chain(newcomers);
        all.filter(|space| space.is_alive()).cloned().collect()
    }

    fn is_of(&self, newcomer: &Newcomer, claims: &ClaimSet) -> bool {
        claims.numbers().any(|number| number == self.claims.number(newcomer.process))
    }

    /// The VMAs of a process of the survey.
    fn layout(&self, process: usize) -> Option<Arc<Vec<Vma>>> {
        let mut layouts = self.layouts.lock();
        let read = || {
            let vmas = vmas::read(&self.spaces[process], &mut vmas::Common::default()).ok()?;
            Some(vmas).filter(|vmas| !vmas.is_empty()).map(Arc::new)
        };
        layouts.entry(process).or_insert_with(read).clone()
    }

    /// Looks for processes that have come or ended. `None`: there is no change.
    pub(super) fn grown(&self, growth: &Growth) -> Option<Self> {
        let is_alive = |newcomer: &Newcomer| self.spaces[newcomer.process].is_alive();
        let (living, gone): (Vec<Newcomer>, Vec<Newcomer>) =
            self.newcomers.iter().cloned().partition(is_alive);
        let surveyed = self.spaces[..self.surveyed].iter();
        let known: Vec<&AddressSpace> =
            surveyed.chain(living.iter().map(|newcomer| &self.spaces[newcomer.process])).collect();
        let pids: BTreeSet<i32> = known.iter().flat_map(|space| space.pids()).collect();
        let mut fresh: Vec<(AddressSpace, Vec<Vma>)> = Vec::new();
        let arrived = growth.arrivals.arrived(&|pid| pids.contains(&pid)).into_iter().take(MOST);
        let arrived =
            arrived.map(|process| with_device_nodes(&growth.roots, &growth.options, process));
        let mut common = vmas::Common::default();
        for space in open_answering(&growth.roots, arrived) {
            let same = |other: &AddressSpace| other.may_be_same(&space);
            let is_known = known.iter().any(|&other| same(other))
                || fresh.iter().any(|(other, _)| same(other));
            if is_known || !growth.arrivals.admits(&space.process) {
                continue;
            }
            let vmas = vmas::read(&space, &mut common);
            fresh.extend(vmas.ok().filter(|vmas| !vmas.is_empty()).map(|vmas| (space, vmas)));
        }
        if fresh.is_empty() && gone.is_empty() {
            return None;
        }
        let mut grown = Self { newcomers: living, ..Self::new(&self.spaces, &self.claims) };
        (grown.surveyed, grown.ended) = (self.surveyed, self.ended.clone());
        for Newcomer { process, .. } in gone {
            let ended = grown.ended.get_or_insert_with(|| self.spaces[process].clone());
            grown.spaces[process] = ended.clone();
        }
        let living: BTreeSet<usize> =
            grown.newcomers.iter().map(|newcomer| newcomer.process).collect();
        let mut free = (grown.surveyed..grown.spaces.len()).filter(|slot| !living.contains(slot));
        let mut slot = free.next();
        for (space, vmas) in fresh {
            if grown.add(slot, space, vmas, growth) {
                slot = free.next();
            }
        }
        Some(grown)
    }

    /// Takes a process in, if another one has the same claim: the plan has no routes for others. It gets the place of one that has
    /// ended, or a new one. Returns whether it was taken in.
    fn add(
        &mut self,
        slot: Option<usize>,
        space: AddressSpace,
        vmas: Vec<Vma>,
        growth: &Growth,
    ) -> bool {
        let Growth { topology, options, .. } = growth;
        let claims = planner::claims(topology, std::slice::from_ref(&space.process), options);
        let process = slot.unwrap_or(self.spaces.len());
        if !self.claims.admit(process, claims.of_process(0)) {
            return false;
        }
        match self.spaces.get_mut(process) {
            Some(ended) => *ended = space,
            None => self.spaces.push(space),
        }
        self.newcomers.push(Newcomer { process, vmas: Arc::new(vmas) });
        true
    }
}

/// The bytes of its object that a VMA shows.
fn bytes(vma: &Vma) -> Range<u64> {
    vma.offset..vma.offset + (vma.end - vma.start)
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> Option<Range<u64>> {
    let both = a.start.max(b.start)..a.end.min(b.end);
    (!both.is_empty()).then_some(both)
}
