//! The survey: where all memory of some processes is.

pub(crate) mod arrivals;
pub(crate) mod attached;
pub(crate) mod by_stripe;
mod cells;
pub(crate) mod crew;
#[cfg(test)]
pub(crate) mod crowd_tests;
mod dax;
mod early_read;
pub(crate) mod extents;
pub(crate) mod fixed;
pub(crate) mod folios;
mod growing;
mod held;
pub(crate) mod mappers;
pub(crate) mod merged;
pub(crate) mod mounts;
mod named;
pub(crate) mod neighbours;
pub(crate) mod newcomers;
pub(crate) mod outsiders;
pub(crate) mod page_access;
pub(crate) mod placement;
pub(crate) mod remapped;
pub(crate) mod reserved;
pub(crate) mod residency;
pub(crate) mod scan;
pub(crate) mod seen;
mod sharers;
pub(crate) mod space;
pub(crate) mod used_files;
pub(crate) mod vmas;
mod walks;
mod wide;

use crate::{
    Arrivals, Error, Roots,
    files::{maps::Vma, read},
    limits::probe,
    processes::devices::with_device_nodes,
    survey::{
        attached::{AttachedFiles, AttachedSearch, SharedObjects},
        by_stripe::ByStripe,
        crew::Growth,
        early_read::EarlyRead,
        extents::{Overlaps, Part},
        folios::Folios,
        mappers::MapperSearch,
        newcomers::Newcomers,
        page_access::PageAccess,
        placement::{KnownHost, Placements, Placing, Policies},
        reserved::Reserved,
        residency::{ExtentPages, Looker},
        scan::{Precision, Scanner},
        seen::{SeenPages, SeenStretch, StretchKeeper},
        space::{AddressSpace, check_answering, distinct},
    },
};
use numaloc_core::{
    Claims, Extent, Indexing, NodeId, Options, Pages, Process, Profile, Residency, Stripe,
    Topology,
    planner::{self, Surveyed},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    thread,
    time::Instant,
};

/// The part of a survey that the executor needs. The part for the planner is its [`Surveyed`].
#[derive(Debug)]
pub struct Survey {
    /// The processes that were still there, held open, one for each address space; extents refer to them by index.
    pub spaces: Vec<AddressSpace>,
    /// Their claims on the pages that they map.
    pub claims: Claims,
    /// The method by which page locations were found.
    pub page_access: PageAccess,
    /// The memory policies that were read.
    pub(crate) placements: Placements,
    /// The processes that the target has got since; none if it gets none.
    pub newcomers: Newcomers,
    /// Shared memory of which pages were found that no process maps ([`Pages::Unmapped`]), by the first mapping of their extent.
    pub attached: AttachedFiles,
    /// The remote pages that were seen, if a run follows ([`Policies::Ask`]).
    pub seen: SeenPages,
}

impl Survey {
    /// Facts that later surveys of the same processes need not read again.
    pub fn known(&self) -> Policies<'_> {
        Policies::Known(KnownHost { page_access: &self.page_access, placements: &self.placements })
    }

    /// The processes, in the order in which extents refer to them.
    pub fn processes(&self) -> Vec<Process> {
        self.spaces.iter().map(|space| space.process.clone()).collect()
    }

    /// The processes, with the ones that the target has got since.
    pub fn processes_now(&self) -> Vec<Process> {
        let mut processes = self.processes();
        processes.extend(self.newcomers.now());
        processes
    }
}

/// The way to make a survey.
#[derive(Clone, Copy)]
pub struct Surveyor<'a> {
    /// Where the host's files are read.
    pub roots: &'a Roots,
    /// The nodes that residency is attributed to.
    pub topology: &'a Topology,
    /// Memory policies are read only of processes with pages that these options would have moved, but all of them. The
    /// number of threads that scan is the number of workers in the pace of the options.
    pub options: &'a Options,
    /// The extent to which policies are read.
    pub policies: Policies<'a>,
    /// Ends the survey if it returns true between two steps.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> Surveyor<'a> {
    /// Reads all policies, and is not stopped.
    pub fn new(roots: &'a Roots, topology: &'a Topology, options: &'a Options) -> Self {
        Self { roots, topology, options, policies: Policies::Ask, stop: &|| false }
    }

    /// Finds where all memory of `processes` is. Moves and changes nothing. Processes that `arrivals` finds while
    /// they are surveyed and moved count as theirs.
    ///
    /// # Errors
    /// [`Error::NoRights`] if a process may not be read, [`Error::Silent`] if it cannot be read now, [`Error::Pages`] if its
    /// pages cannot be read, [`Error::FramesHidden`], [`Error::NodesForbidden`] or [`Error::NarrowPlacement`] if a placement of the
    /// options cannot be had, [`Error::NoMapping`] if one is for mappings that no process has, [`Error::Overlaps`] if its mappings cannot be compared, [`Error::Stopped`], and the errors of
    /// reading the host's page frames and the process's files.
    pub fn survey(
        self,
        processes: Vec<Process>,
        arrivals: Option<Arc<dyn Arrivals>>,
    ) -> Result<(Survey, Surveyed), Error> {
        let growth = arrivals.map(|arrivals| {
            let roots = Arc::new(self.roots.clone());
            let (topology, options) = (self.topology.clone(), self.options.clone());
            Arc::new(Growth { roots, topology, options, arrivals })
        });
        look(self, growth.as_ref(), processes)
    }
}

fn look(
    Surveyor { roots, topology, options, policies, stop }: Surveyor<'_>,
    growth: Option<&Arc<Growth>>,
    processes: Vec<Process>,
) -> Result<(Survey, Surveyed), Error> {
    let check_stop = || if stop() { Err(Error::Stopped) } else { Ok(()) };
    let mut page_access = match policies {
        Policies::Known(before) => before.page_access.again(roots)?,
        _ => PageAccess::new(roots)?,
    };
    let mut spaces = Vec::new();
    let shared_roots = Arc::new(roots.clone());
    for process in processes {
        check_stop()?;
        let process = with_device_nodes(roots, options, process);
        spaces.extend(AddressSpace::open(&shared_roots, process)?);
    }
    check_answering(roots, &spaces)?;
    let spaces = distinct(spaces);
    page_access.remapped = (spaces.len() > 1).then(Arc::default);
    let (mut all, mut common) = (Vec::new(), vmas::Common::default());
    let mut reserved = Reserved::default();
    for (process, space) in spaces.iter().enumerate() {
        check_stop()?;
        let vmas = vmas::read_all(space, &mut common)?;
        if !page_access.can_scan {
            reserved.count(process, space, &vmas, stop)?;
        }
        all.push(vmas);
    }
    let fixed_parts = fixed::take(&mut all);
    let arrivals = growth.map(|growth| &*growth.arrivals);
    let tells_shared_tables = page_access.tells_shared_tables;
    let search = MapperSearch { roots, spaces: &spaces, arrivals, tells_shared_tables, stop };
    search.fill(&mut all)?;
    let processes: Vec<Process> = spaces.iter().map(|space| space.process.clone()).collect();
    let users = match (named::name(&options.maps, &mut all), policies) {
        // A mapping that an earlier survey has found may be unmapped by now.
        (Err(Error::NoMapping { .. }), Policies::Known(_)) => {
            vec![BTreeSet::new(); options.maps.len()]
        }
        (users, _) => users?,
    };
    wide::check(topology, page_access.source, options, &processes, &users)?;
    cells::name(options, &processes, &mut all);
    let claims = planner::claims(topology, &processes, options);
    // Only the fastest run is worth it that threads which map memory wait for it.
    let is_fastest = options.pacing.profile == Profile::Fast
        && matches!(policies, Policies::Ask | Policies::Known(_));
    let small_folios = OnceLock::new();
    let looker = || {
        let scanner = Scanner::new(roots, &page_access, Precision::Sampled);
        let scanner = if is_fastest { scanner } else { scanner.with_gaps() };
        let (folios, include_shared) = (Folios::new(roots), options.include_shared);
        let follows = matches!(policies, Policies::Ask);
        // The sizes of folios are read once for all threads.
        let has_small_folios = || *small_folios.get_or_init(|| probe::small_folios(roots));
        let keeper = follows.then(|| StretchKeeper::new(roots, has_small_folios())).flatten();
        Looker { scanner, folios, include_shared, keeper }
    };
    let threads = options.pacing.pace().workers;
    let refused = |Overlaps { process, mappings, name }: Overlaps| {
        let Process { identity, comm, .. } = &processes[process];
        let (pid, comm, name) = (identity.pid, comm.clone(), name.to_string());
        Error::Overlaps { pid, comm, name, mappings }
    };
    let find = |parts: &[Part]| {
        residency::find(parts, &reserved, &spaces, &claims, threads, &looker, stop)
    };
    let look_again = || page_access.remapped.as_ref().is_some_and(|remapped| remapped.assign());
    let newcomers = match growth {
        Some(growth) => Newcomers::new(growth.clone(), &spaces, &claims),
        None => Newcomers::default(),
    };
    check_stop()?;
    let objects = SharedObjects::of(&all);
    let since = Instant::now();
    let (extents, stretches, placements, attached) = thread::scope(|scope| {
        let early = match policies {
            Policies::Ask => EarlyRead::begin(scope, &spaces, &all, threads, stop),
            _ => None,
        };
        let stripes = Stripes { claims: &claims, indexing: page_access.indexing };
        let (mut extents, stretches) = find_extents(all, &stripes, refused, find, look_again)?;
        growing::count(&newcomers, &mut extents, &looker, stop)?;
        let search = AttachedSearch { roots, spaces: &spaces, mappers: &search, stop };
        let mut attached = search.find(objects, &extents)?;
        extents.append(&mut attached.extents);
        check_stop()?;
        let placing = Placing {
            spaces: &spaces,
            claims: &claims,
            sources: &options.sources(topology),
            options,
            policies,
            stop,
        };
        let placements = placing.place(&mut extents, early)?;
        Ok::<_, Error>((extents, stretches, placements, attached))
    })?;
    let caller_mems = read::mems_allowed(roots)?;
    let fixed = fixed::sum(&fixed_parts, roots, |parts| {
        residency::find(parts, &reserved, &spaces, &claims, threads, &looker, stop)
    })?;
    let surveyed = Surveyed {
        processes,
        caller_mems,
        extents,
        unseen_bytes: attached.unseen_bytes,
        swapped_shared_bytes: attached.swapped_bytes,
        frames_hidden: page_access.source == page_access::Source::Query,
        fixed,
    };
    let (attached, seen) = (attached.files, SeenPages::new(stretches, since));
    Ok((Survey { spaces, claims, page_access, placements, newcomers, attached, seen }, surveyed))
}

/// All extents that have pages, in the order of processes and addresses, and the stretches whose remote pages were kept. They are
/// found once more if `look_again` returns true after that, because pages have been assigned to other extents.
fn find_extents(
    vmas: Vec<Vec<Vma>>,
    stripes: &Stripes<'_>,
    refused: impl Fn(Overlaps) -> Error,
    find: impl Fn(&[Part]) -> Result<Vec<ExtentPages>, Error>,
    look_again: impl Fn() -> bool,
) -> Result<(Vec<Extent>, Vec<SeenStretch>), Error> {
    let mut parts = stripes.begin(extents::parts(vmas).map_err(&refused)?);
    let mut found = find(&parts)?;
    begin_elsewhere(&mut parts, &mut found, &find)?;
    let several = parts.iter().zip(&found).map(|(part, found)| {
        found.several.ranges(part.offset, part.extent.bytes).collect::<Vec<_>>()
    });
    let several: Vec<_> = several.collect();
    let common = stripes.begin(extents::common(&parts, &several).map_err(refused)?);
    let mut found_common = find(&common)?;
    if look_again() {
        (found, found_common) = (find(&parts)?, find(&common)?);
    }
    let (mut extents, mut seen) = (Vec::new(), Vec::new());
    for (part, found) in parts.into_iter().zip(found) {
        seen.extend(found.seen);
        let pages = part.extent.pages.clone();
        extents.extend(stripes.extents(&part, &pages, found.own));
    }
    for (part, found) in common.into_iter().zip(found_common) {
        for (claims, found) in found.common {
            extents.extend(stripes.extents(&part, &Pages::Common(claims), found));
        }
    }
    extents
        .retain(|extent| !extent.residency.nodes.is_empty() || extent.residency.unplaced_bytes > 0);
    extents.sort_by_key(|extent| (extent.mappings[0].process, extent.mappings[0].start));
    Ok((extents, seen))
}

/// Has parts begin where most of their pages do, if that is not at their addresses, and finds the pages of these again.
fn begin_elsewhere(
    parts: &mut [Part],
    found: &mut [ExtentPages],
    find: &impl Fn(&[Part]) -> Result<Vec<ExtentPages>, Error>,
) -> Result<(), Error> {
    let (mut indices, mut again) = (Vec::new(), Vec::new());
    for (index, (part, found)) in parts.iter_mut().zip(&*found).enumerate() {
        if let Some(first_page) = found.phases.first_page(part.origin) {
            part.origin.first_page = first_page;
            indices.push(index);
            again.push(part.clone());
        }
    }
    if again.is_empty() {
        return Ok(());
    }
    for (index, pages) in indices.into_iter().zip(find(&again)?) {
        found[index] = pages;
    }
    Ok(())
}

/// Divides extents into stripes.
struct Stripes<'a> {
    claims: &'a Claims,
    indexing: Indexing,
}

impl Stripes<'_> {
    /// Parts with origins as this kernel counts.
    fn begin(&self, mut parts: Vec<Part>) -> Vec<Part> {
        parts.iter_mut().for_each(|part| part.origin.indexing = self.indexing);
        parts
    }

    /// An extent for each stripe that has pages, or a single one without a stripe.
    fn extents(&self, part: &Part, pages: &Pages, found: ByStripe) -> impl Iterator<Item = Extent> {
        let cycle = self.claims.on(&part.extent.mappings, pages, part.extent.rule);
        let cycle = cycle.cycle.clone().map(Arc::new);
        let extent = move |(node, residency): (Option<NodeId>, Residency)| {
            let stripe = cycle.clone().zip(node).map(|(cycle, node)| {
                let origin = part.origin;
                Stripe { cycle, origin, node }
            });
            Extent { pages: pages.clone(), stripe, residency, ..part.extent.clone() }
        };
        found.into_iter().map(extent)
    }
}
