//! The known containers of containerd, so that events and lists become changes. Pure.

use crate::{facts::Facts, queue::ContainerChange};
use std::collections::{BTreeMap, BTreeSet};

/// A list of the containers that run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerList {
    /// The facts found about each.
    pub found: BTreeMap<String, Facts>,
    /// Containers that run, and of which no facts were found.
    pub unclear: BTreeSet<String>,
}

/// The containers that are known to run, joined from lists and events.
#[derive(Clone, Debug, Default)]
pub struct KnownContainers {
    known: BTreeMap<String, Facts>,
    /// Containers whose end was reported. Lists have them as running for a moment longer: the CRI learns by the same
    /// event.
    ended: BTreeSet<String>,
}

impl KnownContainers {
    /// The containers by id, with the facts about each.
    pub fn known(&self) -> &BTreeMap<String, Facts> {
        &self.known
    }

    /// A container is reported as started. No container of the CRI starts twice, but one that did would run again.
    pub fn started(&mut self, facts: Facts) -> Option<ContainerChange> {
        self.ended.remove(&facts.id);
        self.is(facts)
    }

    /// A container is like this now. `None`: it was like that before, or has ended.
    pub fn is(&mut self, facts: Facts) -> Option<ContainerChange> {
        if self.ended.contains(&facts.id) || self.known.get(&facts.id) == Some(&facts) {
            return None;
        }
        let boxed = Box::new(facts.clone());
        Some(match self.known.insert(facts.id.clone(), facts) {
            Some(_) => ContainerChange::Updated(boxed),
            None => ContainerChange::Started(boxed),
        })
    }

    /// A container is reported as ended. `None`: it was not known.
    pub fn ended(&mut self, id: &str) -> Option<ContainerChange> {
        self.ended.insert(id.to_owned());
        self.known.remove(id).map(|_| ContainerChange::Gone)
    }

    /// These containers run. Returns the changes, by container.
    pub fn look(&mut self, look: ContainerList) -> BTreeMap<String, ContainerChange> {
        let ContainerList { found, unclear } = look;
        let runs = |id: &String| found.contains_key(id) || unclear.contains(id);
        self.ended.retain(runs);
        let gone: Vec<_> = self.known.keys().filter(|id| !runs(id)).cloned().collect();
        let mut changes = BTreeMap::new();
        for id in gone {
            self.known.remove(&id);
            changes.insert(id, ContainerChange::Gone);
        }
        for (id, facts) in found {
            changes.extend(self.is(facts).map(|change| (id, change)));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(id: &str, cpus: &str) -> Facts {
        Facts { id: id.to_owned(), cpus: cpus.to_owned(), ..Facts::default() }
    }

    fn look(found: &[(&str, &str)], unclear: &[&str]) -> ContainerList {
        let found = found.iter().map(|&(id, cpus)| (id.to_owned(), facts(id, cpus)));
        let unclear = unclear.iter().map(|&id| id.to_owned());
        ContainerList { found: found.collect(), unclear: unclear.collect() }
    }

    fn changes(seen: &mut KnownContainers, look: ContainerList) -> Vec<(String, ContainerChange)> {
        seen.look(look).into_iter().collect()
    }

    #[test]
    fn lists_and_events_that_say_the_same_are_one_change() {
        let mut seen = KnownContainers::default();
        let started =
            |id: &str, cpus| (id.to_owned(), ContainerChange::Started(Box::new(facts(id, cpus))));
        assert_eq!(changes(&mut seen, look(&[("a", "0")], &[])), [started("a", "0")]);
        assert_eq!(seen.started(facts("b", "1")), Some(started("b", "1").1));
        assert_eq!(changes(&mut seen, look(&[("a", "0"), ("b", "1")], &[])), []);
        let updated = |id, cpus| Some(ContainerChange::Updated(Box::new(facts(id, cpus))));
        assert_eq!(seen.is(facts("a", "2")), updated("a", "2"));
        assert_eq!(seen.is(facts("a", "2")), None);
        let told = changes(&mut seen, look(&[("a", "3"), ("c", "4")], &[]));
        let expected = [("a", updated("a", "3").expect("just made")), ("b", ContainerChange::Gone)];
        let expected = expected.map(|(id, change)| (id.to_owned(), change));
        assert_eq!(told, [&expected[..], &[started("c", "4")]].concat());
        assert_eq!(seen.known().keys().collect::<Vec<_>>(), ["a", "c"]);
    }

    /// The CRI learns of an end by the same event, and may be later.
    #[test]
    fn what_has_ended_stays_so_while_lists_still_have_it() {
        let mut seen = KnownContainers::default();
        seen.look(look(&[("a", "0")], &[]));
        assert_eq!(seen.ended("a"), Some(ContainerChange::Gone));
        assert_eq!(seen.ended("a"), None);
        assert_eq!(changes(&mut seen, look(&[("a", "0")], &[])), []);
        assert_eq!(seen.is(facts("a", "1")), None);
        assert_eq!(changes(&mut seen, look(&[], &["a"])), []);
        assert!(seen.known().is_empty() && seen.ended.contains("a"));
        seen.look(look(&[], &[]));
        assert!(seen.ended.is_empty(), "it is forgotten");
        // A container that was never reported.
        assert_eq!(seen.ended("sandbox"), None);
    }

    #[test]
    fn a_container_of_which_nothing_can_be_found_out_stays_as_it_was() {
        let mut seen = KnownContainers::default();
        seen.look(look(&[("a", "0"), ("b", "0")], &[]));
        let told = changes(&mut seen, look(&[], &["a", "z"]));
        assert_eq!(told, [("b".to_owned(), ContainerChange::Gone)]);
        assert_eq!(seen.known().keys().collect::<Vec<_>>(), ["a"]);
    }
}
