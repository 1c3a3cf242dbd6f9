//! The participants of a migration.

use crate::limits::RunLimits;
use numaloc_core::{Identity, Process, planner::Surveyed};
use numaloc_host::{Arrivals, Error, Groups, Resolved, Survey, Surveyor, Target};
use std::{collections::BTreeSet, fmt, sync::Arc};

/// Takes part in a migration: the target, or a partner that makes room. Decides which of its processes do.
pub trait Party: Send {
    /// Why it takes no part.
    type Error: From<Error> + fmt::Display;

    /// The name in messages, such as the text of its target.
    fn name(&self) -> String;

    /// The processes that take part, each once.
    fn processes(&self) -> impl Iterator<Item = &Process>;

    /// Surveys their memory.
    ///
    /// # Errors
    /// None of them takes part by now, or they cannot be surveyed.
    fn survey(&mut self, surveyor: Surveyor<'_>) -> Result<(Survey, Surveyed), Self::Error>;
}

/// All processes take part: a caller that may read them may have them moved.
impl Party for Resolved {
    type Error = Error;

    fn name(&self) -> String {
        Target::several(&self.targets)
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter()
    }

    fn survey(&mut self, surveyor: Surveyor<'_>) -> Result<(Survey, Surveyed), Error> {
        let groups = Groups::of(surveyor.roots, surveyor.topology, &self.found_targets());
        let arrivals = groups.map(|groups| -> Arc<dyn Arrivals> { Arc::new(groups) });
        surveyor.survey(self.processes.clone(), arrivals)
    }
}

/// The identities of the processes of a party.
pub fn identities<P: Party>(party: &P) -> BTreeSet<Identity> {
    party.processes().map(|process| process.identity).collect()
}

/// The partners that make room for a run.
#[derive(Debug)]
pub struct Partners<P> {
    /// In the order in which they are preferred.
    pub parties: Vec<P>,
    /// Bounds of the runs that move their memory.
    pub limits: RunLimits,
    /// Is called with the name of one that makes no room, and why.
    pub refused: fn(&str, &str),
}

impl<P> Default for Partners<P> {
    fn default() -> Self {
        Self { parties: Vec::new(), limits: RunLimits::default(), refused: |_, _| {} }
    }
}
