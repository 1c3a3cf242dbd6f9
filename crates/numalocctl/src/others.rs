//! Those who make room for a run without the daemon.

use crate::{args::ExchangeArgs, exit::Failure, output::complain};
use numaloc_api::value::{Partner, Target};
use numaloc_core::{Identity, Options, Process, Topology, exchange};
use numaloc_executor::{InOrder, Outcome, RunLimits, homes};
use numaloc_host::{Policies, Roots, Survey, resolve_each, survey_unless};
use std::collections::BTreeSet;

/// Those whom the command line names, with their processes.
#[derive(Debug, Default)]
pub struct Others {
    names: Vec<Target>,
    processes: Vec<Vec<Process>>,
}

impl Others {
    /// Finds the processes of the partners. Leaves out, with a message, those that do not exist and those that have processes of
    /// the target, of which this is the survey, or of a partner before them.
    ///
    /// # Errors
    /// The host cannot be read.
    pub fn find(
        roots: &Roots,
        topology: &Topology,
        args: &ExchangeArgs,
        survey: &Survey,
    ) -> Result<Self, Failure> {
        let mut taken: BTreeSet<Identity> =
            survey.spaces.iter().map(|space| space.process.identity).collect();
        let mut others = Self::default();
        let found = resolve_each(roots, &args.exchange_with, topology);
        for (name, found) in args.names().into_iter().zip(found) {
            let found = match found {
                Err(error) if error.is_of_target() => {
                    complain(&format!("makes no room: {error}"));
                    continue;
                }
                found => found?,
            };
            let own = found.processes.iter().map(|process| process.identity).collect();
            if exchange::enlist(&mut taken, own) {
                others.names.push(name);
                others.processes.push(found.processes);
            } else {
                complain(&format!(
                    "makes no room: {name}: the target or another partner has processes of it, too"
                ));
            }
        }
        Ok(others)
    }

    /// Asks them one after the other, for a run with these options and limits.
    pub fn in_order<'a>(
        &'a self,
        roots: &'a Roots,
        topology: &'a Topology,
        options: &Options,
        limits: &RunLimits,
        policies: Policies<'a>,
    ) -> InOrder<'a> {
        let homes = self.processes.iter().map(|processes| homes(topology, processes)).collect();
        let inspected = move |index: usize, options: &Options| {
            let processes = self.processes[index].clone();
            let seen = survey_unless(&|| false, policies, roots, topology, processes, options);
            seen.inspect_err(|error| complain(&format!("makes no room: {error}"))).ok()
        };
        InOrder::new(topology, options, homes, limits.best_effort(&options.pacing), inspected)
    }

    /// What was moved of them in these runs.
    pub fn moved(&self, runs: &[Outcome]) -> Vec<Partner> {
        let identities = |processes: &Vec<Process>| -> BTreeSet<Identity> {
            processes.iter().map(|process| process.identity).collect()
        };
        let processes: Vec<_> = self.processes.iter().map(identities).collect();
        Partner::of_runs(self.names.iter().zip(&processes), runs)
    }
}
