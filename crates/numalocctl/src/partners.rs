//! Those who make room for a run without the daemon.

use crate::{
    args::{ExchangeArgs, name_of},
    exit::Failure,
    output::complain,
};
use numaloc_api::value::Partner;
use numaloc_core::Topology;
use numaloc_executor::{Outcome, Partners, PlannedMigration, RunLimits, identities};
use numaloc_host::{Resolved, Roots, resolve};
use std::slice::from_ref;

/// Finds those whom the command line names. Leaves out, with a message, those that do not exist.
///
/// # Errors
/// The host cannot be read.
pub fn find(
    roots: &Roots,
    topology: &Topology,
    args: &ExchangeArgs,
    limits: RunLimits,
) -> Result<Partners<Resolved>, Failure> {
    let mut partners = Partners { parties: Vec::new(), limits, refused };
    for target in &args.exchange_with {
        match resolve(roots, from_ref(target), topology) {
            Err(error) if error.is_of_target() => refused(&target.to_string(), &error.to_string()),
            found => partners.parties.push(found?),
        }
    }
    Ok(partners)
}

fn refused(partner: &str, why: &str) {
    complain(&format!("makes no room: {partner}: {why}"));
}

/// What was moved of the partners in these runs.
pub fn moved(planned: &PlannedMigration<Resolved>, runs: &[Outcome]) -> Vec<Partner> {
    let known = |party: &Resolved| (name_of(&party.targets[0]), identities(party));
    Partner::of_runs(planned.partners().iter().map(known), runs)
}
