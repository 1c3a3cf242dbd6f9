//! What is used most: chooses how to find out, and finds out just before the move.
//!
//! Here alone is something of the host changed: DAMON is set up for about a second and taken down again, or Referenced bits
//! are cleared. Nothing is done unless a plan says so ([`Plan::order`]).

mod damon;
mod lease;
mod referenced;
mod watched;

use crate::{Error, Roots, Survey, space::AddressSpace};
use numaloc_core::{Heat, HeatSource, Order, Plan, Profile, Sightings};
use std::{
    thread,
    time::{Duration, Instant},
};

/// About how long it takes to find out.
const TAKES: Duration = Duration::from_secs(1);

/// Unasked, it is found out only for moves that take so many times as long: so nothing is late by more than a tenth of them.
const WORTH: u32 = 10;

/// How long it takes at most until a wait is broken off.
const NAP: Duration = Duration::from_millis(5);

/// How what comes first in a plan is to be found out here: as asked, and else with DAMON where this process may use it, nobody
/// else does, and the move takes long enough. Changes nothing.
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

/// Whether an order can be had here.
///
/// # Errors
/// [`Error::NoDamon`] if DAMON is asked for and cannot be used.
pub fn check(roots: &Roots, order: Order) -> Result<(), Error> {
    if order == Order::Damon { damon::check(roots) } else { Ok(()) }
}

/// Takes down what a run left behind that was killed while it had DAMON set up; says whether there was something. What
/// somebody else has set up stays.
///
/// # Errors
/// It could not be taken down.
pub fn recover(roots: &Roots) -> Result<bool, Error> {
    damon::recover(roots)
}

/// Finds out as the plan says; `None` if it says by address. Takes about a second, or until `stop` says that it is wanted no
/// more: then with what has been seen so far.
///
/// # Errors
/// [`Error::NoDamon`], and what writing to the host's files can give. What was set up is taken down first.
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
        // One that ends while it is set up makes the kernel refuse them all (mm/damon/sysfs.c, `damon_sysfs_add_target`).
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

/// Waits; no longer than until `stop`.
fn rest(time: Duration, stop: &dyn Fn() -> bool) {
    let begin = Instant::now();
    while !stop()
        && let Some(left) = time.checked_sub(begin.elapsed()).filter(|left| !left.is_zero())
    {
        thread::sleep(left.min(NAP));
    }
}

#[cfg(test)]
mod tests;
