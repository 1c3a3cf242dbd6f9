//! The processes that a target gets after its survey, and what is known of those outside of it while it gets some.

use crate::{
    Arrivals,
    survey::{
        crew::{Crew, Growth},
        outsiders::{Outsiders, RuledOut},
        space::AddressSpace,
    },
};
use numaloc_core::{Claims, Mapping, Process};
use parking_lot::Mutex;
use std::{ops::Range, sync::Arc};

/// The processes that a target gets after its survey. By default it gets none.
#[derive(Debug, Default)]
pub struct Newcomers(Option<Growing>);

#[derive(Debug)]
struct Growing {
    growth: Arc<Growth>,
    crew: Mutex<Arc<Crew>>,
    outsiders: Mutex<Outsiders>,
}

impl Newcomers {
    /// The newcomers that `growth` finds, beside the processes of a survey.
    pub(crate) fn new(growth: Arc<Growth>, spaces: &[AddressSpace], claims: &Claims) -> Self {
        let crew = Mutex::new(Arc::new(Crew::new(spaces, claims)));
        Self(Some(Growing { growth, crew, outsiders: Mutex::default() }))
    }

    /// The search for newcomers; `None`: the target gets no processes.
    pub fn arrivals(&self) -> Option<Arc<dyn Arrivals>> {
        self.0.as_ref().map(|growing| growing.growth.arrivals.clone())
    }

    /// The processes at the last look; `None`: those of the survey, and the target gets no others.
    pub fn crew(&self) -> Option<Arc<Crew>> {
        self.0.as_ref().map(|growing| growing.crew.lock().clone())
    }

    /// The processes now. `seen` is the result of an earlier look: if another thread has looked since, its result is
    /// given; if no process has come or ended, `seen` itself.
    pub fn look(&self, seen: &Arc<Crew>) -> Arc<Crew> {
        let Some(Growing { growth, crew, .. }) = &self.0 else { return seen.clone() };
        let mut crew = crew.lock();
        if Arc::ptr_eq(&crew, seen)
            && let Some(grown) = crew.grown(growth)
        {
            *crew = Arc::new(grown);
        }
        crew.clone()
    }

    /// The pages of an extent with these `mappings` that no process outside the target can map; nothing is ruled out
    /// for a target that gets no processes. Looks at all processes of the host if the last look is too old, unless
    /// `stop` returns true.
    pub fn ruled_out(
        &self,
        crew: &Crew,
        mappings: &[Mapping],
        range: &Range<u64>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> RuledOut {
        let Some(Growing { growth, outsiders, .. }) = &self.0 else { return RuledOut::default() };
        let objects = crew.objects(mappings, range);
        let rule_out = |objects| outsiders.lock().rule_out(objects, growth, crew, stop);
        objects.map(rule_out).unwrap_or_default()
    }

    /// The processes that the target has got by now, without the processes of the survey.
    pub fn now(&self) -> Vec<Process> {
        let crew = self.crew().map(|crew| self.look(&crew));
        crew.iter().flat_map(|crew| crew.newcomers()).cloned().collect()
    }
}
