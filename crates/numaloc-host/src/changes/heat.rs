//! Finds the most used memory: chooses a method, and measures just before the move.
//!
//! This module changes something on the host: it sets up DAMON for about a second and takes it down again, or it clears
//! Referenced bits. It does so only if a plan requests it ([`Plan::order`]).

mod damon;
mod referenced;
mod watched;

use crate::{Error, Roots, Survey, survey::space::AddressSpace};
use numaloc_core::{Heat, HeatSource, Order, Plan, Sightings, heat::MEASURING};

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
        Order::Probed if damon::check(roots).is_ok() => HeatSource::Damon,
        Order::Probed => HeatSource::Address,
    })
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
/// about a second. If `stop` returns true it ends early, with what has been seen so far.
///
/// # Errors
/// [`Error::NoDamon`], and errors of reading and writing the host's files. The setup is taken down first.
pub fn measure(
    roots: &Roots,
    plan: &Plan,
    survey: &Survey,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Heat>, Error> {
    let sample = match plan.order {
        HeatSource::Address => return Ok(None),
        HeatSource::Damon => damon::sample,
        HeatSource::Referenced => referenced::sample,
    };
    let living = || -> Vec<bool> { survey.spaces.iter().map(AddressSpace::is_alive).collect() };
    let pids: Vec<i32> = survey.spaces.iter().map(|space| space.tid()).collect();
    let mut watched = watched::watched(&plan.moves, &pids);
    let mut alive = living();
    loop {
        watched.retain(|watched| alive[watched.process]);
        if watched.is_empty() {
            return Ok(None);
        }
        let mut seen = Sightings::new(plan.processes.len());
        let sampled = sample(roots, &watched, stop, &mut seen);
        // A process that ends during the setup makes the kernel refuse all of them (mm/damon/sysfs.c,
        // `damon_sysfs_add_target`). Then the others are tried again.
        let before = std::mem::replace(&mut alive, living());
        match sampled {
            Err(_) if alive != before => {}
            sampled => return sampled.map(|()| Some(seen.into())),
        }
    }
}

#[cfg(test)]
mod tests;
