//! Finds the most used memory: chooses a method, and measures just before the move.
//!
//! This module changes something on the host: it sets up DAMON for about a second and takes it down again, or it clears
//! Referenced bits. It does so only if a plan says so ([`Plan::order`]).

mod damon;
mod referenced;
mod watched;

use crate::{Error, Roots, Survey, space::AddressSpace};
use numaloc_core::{Heat, HeatSource, Order, Plan, Profile, Sightings};
use std::time::Duration;

/// About how long a measurement takes.
const TAKES: Duration = Duration::from_secs(1);

/// With [`Order::Probed`], measure only if the move takes at least this many times as long. So the measurement delays a
/// move by at most a tenth.
const WORTH: u32 = 10;

/// How the most used memory is to be found for this plan on this host. An order that was requested is taken. With
/// [`Order::Probed`] it is DAMON if this process may use it, nobody else uses it, the profile is not `fast` and the
/// move takes long enough; else memory is moved by address. Changes nothing.
///
/// # Errors
/// [`Error::NoDamon`] if it was asked for and cannot be used.
pub fn choose(roots: &Roots, plan: &Plan) -> Result<HeatSource, Error> {
    check(roots, plan.options.order)?;
    Ok(match plan.options.order {
        Order::Address => HeatSource::Address,
        Order::Damon => HeatSource::Damon,
        Order::Referenced => HeatSource::Referenced,
        Order::Probed if is_worth_it(plan) && damon::check(roots).is_ok() => HeatSource::Damon,
        Order::Probed => HeatSource::Address,
    })
}

/// Checks that an order can be used on this host.
///
/// # Errors
/// [`Error::NoDamon`] if DAMON is asked for and cannot be used.
pub fn check(roots: &Roots, order: Order) -> Result<(), Error> {
    if order == Order::Damon { damon::check(roots) } else { Ok(()) }
}

/// Takes down the DAMON setup of a run that was killed. Returns whether there was one. What somebody else has set up
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
/// [`Error::NoDamon`], and errors of reading and writing the host's files. What was set up is taken down first.
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

fn is_worth_it(plan: &Plan) -> bool {
    let takes = f64::from(WORTH) * TAKES.as_secs_f64();
    plan.options.pacing.profile != Profile::Fast && plan.paced_seconds() >= takes
}

#[cfg(test)]
mod tests;
