//! Memory of a target that no process outside of it can map, although its pages have more mappings than are known.
//!
//! In a server that forks, processes come and go between two reads: a page map shows no page of a process that is born later, and the
//! kernel counts the pages of one that ends until it has unmapped them all. So such counts never fit. The mappers of
//! an object change far more slowly, and the maps of all processes tell it. Copies of private memory are inherited:
//! only processes that were forked from the same program, without an exec since, have common ones, and these have its
//! layout ([`Layout`](crate::processes::thread::Layout)).
//!
//! A process that maps an object, or leaves the target, after a look is noticed by the next one.

#[cfg(test)]
mod tests;

use super::{
    crew::{Crew, Growth},
    mappers::{Asked, MapperSearch, Others},
    mounts::internal_device,
};
use crate::files::maps::Object;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    time::{Duration, Instant},
};

/// Shortest time for which a look is good.
const FRESH: Duration = Duration::from_secs(1);
/// Looks take at most one part in this many of the time.
const PART: u32 = 20;

/// Pages that no process outside the target can map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuledOut {
    /// The pages of files and of shared memory.
    pub file: bool,
    /// The pages of private memory.
    pub anonymous: bool,
}

/// The findings of the last look.
#[derive(Debug, Default)]
pub(super) struct Outsiders {
    /// Until when it is good, and whether kin of the target were found.
    seen: Option<(Instant, bool)>,
    /// Whether others map an object, for the objects that were asked for.
    objects: BTreeMap<Object, bool>,
}

impl Outsiders {
    /// The part that is ruled out of memory of these objects.
    pub(super) fn rule_out(
        &mut self,
        objects: BTreeSet<Object>,
        growth: &Growth,
        crew: &Crew,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> RuledOut {
        let is_fresh = self.seen.is_some_and(|(until, _)| Instant::now() < until);
        if !is_fresh || objects.iter().any(|object| !self.objects.contains_key(object)) {
            self.look(&objects, growth, crew, stop);
        }
        let (_, has_kin) = self.seen.unwrap_or((Instant::now(), true));
        let is_theirs = |object| self.objects.get(object).copied().unwrap_or(true);
        RuledOut { file: !objects.iter().any(is_theirs), anonymous: !has_kin }
    }

    /// Looks at all processes, for these objects and those of earlier looks.
    fn look(
        &mut self,
        objects: &BTreeSet<Object>,
        growth: &Growth,
        crew: &Crew,
        stop: &(dyn Fn() -> bool + Sync),
    ) {
        let begin = Instant::now();
        let objects: BTreeSet<Object> =
            self.objects.keys().chain(objects).chain(&crew.shared_objects()).copied().collect();
        let spaces = crew.living();
        let search = MapperSearch {
            roots: &growth.roots,
            spaces: &spaces,
            arrivals: Some(&*growth.arrivals),
            tells_shared_tables: true,
            stop,
        };
        let layouts: HashSet<_> = spaces.iter().map(|space| space.layout()).collect();
        let asked = Asked { objects, layouts, internal: internal_device() };
        let others = search.others(&asked).ok().flatten();
        let is_mapped = |object: &Object| match &others {
            Some(Others { mappings, .. }) => mappings.iter().any(|other| other.object == *object),
            None => true,
        };
        let has_kin = others.as_ref().is_none_or(|others| !others.kin.is_empty());
        self.objects = asked.objects.iter().map(|object| (*object, is_mapped(object))).collect();
        self.seen = Some((Instant::now() + FRESH.max(begin.elapsed() * PART), has_kin));
    }
}
