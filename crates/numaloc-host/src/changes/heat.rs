//! Finds the most used memory: chooses a method, and measures just before the move.
//!
//! This module changes something on the host: it sets up DAMON for a while and takes it down again, or it clears Referenced bits. It does
//! so only if a plan requests it ([`Plan::order`], [`Tiers`]).

mod damon;
mod intervals;
mod referenced;
mod watched;

use crate::{Error, Roots, Survey, survey::space::AddressSpace};
use intervals::Intervals;
use numaloc_core::{
    Extent, Heat, HeatSource, NodeSet, Order, Pages, Plan, Sights, Temperatures, Tiers, Watch,
};
use watched::Watchable;

/// The method by which the most used memory can be found on this host. With [`Order::Probed`] it is DAMON if this
/// process may use it and no other program uses it; whether a plan is worth that, the plan knows
/// ([`Plan::hottest_first`]). Changes nothing.
///
/// # Errors
/// [`Error::NoDamon`] if it was asked for and cannot be used.
pub fn choose(roots: &Roots, order: Order) -> Result<HeatSource, Error> {
    Ok(match order {
        Order::Address => HeatSource::Address,
        Order::Damon => damon::check(roots).map(|()| HeatSource::Damon)?,
        Order::Referenced => HeatSource::Referenced,
        // Runs that watch for longer are not waited for.
        Order::Probed if damon::check(roots).is_ok() && damon::has_slot(roots) => HeatSource::Damon,
        Order::Probed => HeatSource::Address,
    })
}

/// Checks that the use of memory can be watched in this way. Changes nothing.
///
/// # Errors
/// [`Error::NoDamon`].
pub fn check_watch(roots: &Roots, watch: Watch) -> Result<(), Error> {
    match watch {
        Watch::Damon => damon::check(roots),
        Watch::Referenced => Ok(()),
    }
}

/// Takes down the DAMON setup of a run that was killed. Returns whether there was one. A setup of another program
/// stays.
///
/// # Errors
/// If it cannot be taken down.
pub fn recover(roots: &Roots) -> Result<bool, Error> {
    damon::recover(roots)
}

/// Measures in the way that the plan names. `None` if the plan says by address, or if there is nothing to watch. Takes
/// about a second. If `stop` returns true it ends early, and what it returns is incomplete.
///
/// # Errors
/// [`Error::NoDamon`], and errors of reading and writing the host's files. The setup is taken down first.
pub fn measure(
    roots: &Roots,
    plan: &Plan,
    survey: &Survey,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Heat>, Error> {
    let watch = match plan.order {
        HeatSource::Address => return Ok(None),
        HeatSource::Damon => Watch::Damon,
        HeatSource::Referenced => Watch::Referenced,
    };
    let ranges: Vec<Watchable<'_>> = plan.moves.iter().map(Watchable::from).collect();
    let seen = sights(roots, survey, &ranges, (watch, Intervals::BRIEF), stop)?;
    Ok(seen.map(Sights::into_heat))
}

/// Watches the memory of a survey that is on these nodes, to find what is used and what is not. Takes a little longer than the time
/// without use after which memory is cold. If `stop` returns true it ends early, and what it returns is incomplete.
///
/// # Errors
/// [`Error::NoDamon`], and errors of reading and writing the host's files. The setup is taken down first.
pub fn watch(
    roots: &Roots,
    survey: &Survey,
    extents: &[Extent],
    nodes: &NodeSet,
    tiers: &Tiers,
    stop: &dyn Fn() -> bool,
) -> Result<Temperatures, Error> {
    let weight = |extent: &Extent| -> u64 {
        let of_nodes = extent.residency.nodes.iter().filter(|(node, _)| nodes.contains(**node));
        of_nodes.map(|(_, resident)| resident.total_bytes()).sum()
    };
    // What forked processes still share, and what no process maps, is not placed by use.
    let placed = extents.iter().filter(|extent| matches!(extent.pages, Pages::All | Pages::Own));
    let ranges = placed.map(|extent| Watchable {
        mappings: &extent.mappings,
        bytes: extent.bytes,
        weight_bytes: weight(extent),
    });
    let ranges: Vec<Watchable<'_>> = ranges.filter(|range| range.weight_bytes > 0).collect();
    let way = (tiers.watch, Intervals::covering(tiers));
    let seen = sights(roots, survey, &ranges, way, stop)?.unwrap_or_default();
    let identities = survey.spaces.iter().map(|space| space.process.identity);
    Ok(Temperatures::new(identities, seen))
}

/// What is seen of these ranges; `None`: there is nothing to watch.
fn sights(
    roots: &Roots,
    survey: &Survey,
    ranges: &[Watchable<'_>],
    (watch, intervals): (Watch, Intervals),
    stop: &dyn Fn() -> bool,
) -> Result<Option<Sights>, Error> {
    let sample = match watch {
        Watch::Damon => damon::sample,
        Watch::Referenced => referenced::sample,
    };
    let living = || -> Vec<bool> { survey.spaces.iter().map(AddressSpace::is_alive).collect() };
    let pids: Vec<i32> = survey.spaces.iter().map(|space| space.tid()).collect();
    let mut watched = watched::watched(ranges, &pids);
    let mut alive = living();
    loop {
        watched.retain(|watched| alive[watched.process]);
        if watched.is_empty() {
            return Ok(None);
        }
        let mut seen = Sights::new(pids.len());
        let sampled = sample(roots, &watched, intervals, stop, &mut seen);
        // A process that ends during the setup makes the kernel refuse all of them (mm/damon/sysfs.c,
        // `damon_sysfs_add_target`). Then the others are tried again.
        let before = std::mem::replace(&mut alive, living());
        match sampled {
            Err(_) if alive != before => {}
            sampled => return sampled.map(|()| Some(seen)),
        }
    }
}

#[cfg(test)]
mod tests;
