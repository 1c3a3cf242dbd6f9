//! The survey: where all memory of some processes is.

use crate::{
    Error, Roots,
    extents::{self, Part},
    maps::{self, Names, Vma},
    placement::{Known, Placements, Placing, Policies},
    read,
    residency::{self, Found},
    scan::{Precision, Scanner},
    sight::Sight,
    space::{AddressSpace, distinct},
};
use numaloc_core::{
    Claims, Extent, NodeSet, Options, Pages, Process, Topology,
    planner::{self, Seen},
};
use std::sync::Arc;

/// Everything that the planner and the executor need to know.
#[derive(Debug)]
pub struct Survey {
    /// The processes that were still there, held open, one for each address space; extents refer to them by index.
    pub spaces: Vec<AddressSpace>,
    /// Their claims on the pages that they map.
    pub claims: Claims,
    /// Their memory.
    pub extents: Vec<Extent>,
    /// Nodes on which this process may allocate.
    pub caller_mems: NodeSet,
    /// How page locations were found.
    pub sight: Sight,
    /// What was read about memory policies.
    pub(crate) placements: Placements,
}

impl Survey {
    /// Takes the extents out, for the planner. The survey keeps the processes open.
    pub fn take_seen(&mut self) -> Seen {
        let (processes, caller_mems) = (self.processes(), self.caller_mems.clone());
        Seen { processes, caller_mems, extents: std::mem::take(&mut self.extents) }
    }

    /// What later surveys of the same processes need not ask again.
    pub fn known(&self) -> Policies<'_> {
        Policies::Known(Known { sight: &self.sight, placements: &self.placements })
    }

    /// The processes, in the order in which extents refer to them.
    pub fn processes(&self) -> Vec<Process> {
        self.spaces.iter().map(|space| space.process.clone()).collect()
    }
}

/// Finds where all memory of `processes` is. Moves and changes nothing. Memory policies are read only of processes with
/// pages that `options` would have moved, but all of them. As many threads scan as the pace of `options` has workers.
///
/// # Errors
/// [`Error::NoRights`] if a process may not be read, [`Error::Pages`] if its pages cannot be read, and the errors of
/// reading the host's page frames and the process's files.
pub fn survey(
    roots: &Roots,
    topology: &Topology,
    processes: Vec<Process>,
    options: &Options,
) -> Result<Survey, Error> {
    survey_unless(&|| false, Policies::Ask, roots, topology, processes, options)
}

/// As [`survey`], with policies read as far as `policies` says. Ends with an error if `stop` returns true between two
/// steps.
///
/// # Errors
/// As [`survey`]; [`Error::Stopped`].
pub fn survey_unless(
    stop: &(dyn Fn() -> bool + Sync),
    policies: Policies<'_>,
    roots: &Roots,
    topology: &Topology,
    processes: Vec<Process>,
    options: &Options,
) -> Result<Survey, Error> {
    let go_on = || if stop() { Err(Error::Stopped) } else { Ok(()) };
    let sight = match policies {
        Policies::Known(before) => before.sight.again(roots)?,
        _ => Sight::new(roots)?,
    };
    let mut spaces = Vec::new();
    let shared_roots = Arc::new(roots.clone());
    for process in processes {
        go_on()?;
        spaces.extend(AddressSpace::open(&shared_roots, process)?);
    }
    let spaces = distinct(spaces);
    let (mut vmas, mut names) = (Vec::new(), Names::default());
    for space in &spaces {
        go_on()?;
        vmas.push(read_vmas(space, &mut names)?);
    }
    let processes: Vec<Process> = spaces.iter().map(|space| space.process.clone()).collect();
    let claims = planner::claims(topology, &processes, options);
    let scanner = || Scanner::new(roots, &sight, Precision::Sampled);
    let threads = options.pacing.pace().workers;
    let find = |parts: &[Part]| residency::find(parts, &spaces, &claims, threads, &scanner, stop);
    let mut extents = find_extents(vmas, find)?;
    go_on()?;
    let placing = Placing {
        spaces: &spaces,
        claims: &claims,
        sources: &options.sources(topology),
        options,
        policies,
        stop,
    };
    let placements = placing.place(&mut extents)?;
    let caller_mems = read::mems_allowed(roots)?;
    Ok(Survey { spaces, claims, extents, caller_mems, sight, placements })
}

/// All extents that have pages, in the order of processes and addresses.
fn find_extents(
    vmas: Vec<Vec<Vma>>,
    find: impl Fn(&[Part]) -> Result<Vec<Found>, Error>,
) -> Result<Vec<Extent>, Error> {
    let parts = extents::parts(vmas);
    let found = find(&parts)?;
    let several = parts.iter().zip(&found).map(|(part, found)| {
        found.several.ranges(part.offset, part.extent.bytes).collect::<Vec<_>>()
    });
    let several: Vec<_> = several.collect();
    let common = extents::common(&parts, &several);
    let found_common = find(&common)?;
    let own = parts.into_iter().zip(found);
    let mut extents: Vec<Extent> =
        own.map(|(part, found)| Extent { residency: found.residency, ..part.extent }).collect();
    for (part, found) in common.into_iter().zip(found_common) {
        for (claims, residency) in found.common {
            let pages = Pages::Common(claims);
            extents.push(Extent { pages, residency, ..part.extent.clone() });
        }
    }
    extents
        .retain(|extent| !extent.residency.nodes.is_empty() || extent.residency.unplaced_bytes > 0);
    extents.sort_by_key(|extent| (extent.mappings[0].process, extent.mappings[0].start));
    Ok(extents)
}

/// The VMAs of a process; none if it has ended.
pub(crate) fn read_vmas(space: &AddressSpace, names: &mut Names) -> Result<Vec<Vma>, Error> {
    let text = space.read("maps", read::text)?.unwrap_or_default();
    let vmas = text.lines().filter_map(maps::parse_line);
    Ok(vmas.map(|vma| Vma { name: names.once(vma.name), ..vma }).collect())
}
