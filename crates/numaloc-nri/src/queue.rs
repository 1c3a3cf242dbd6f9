//! Changes that the runtime has reported and the keeper has not taken yet. Pure. At most one change for each container.

use crate::facts::Facts;
use std::collections::BTreeMap;

/// Most containers that have a change waiting. Far more than a host has: when there are more, something is wrong, and
/// the runtime is asked for all of them again.
pub const MOST: usize = 16_384;

/// The last change of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerChange {
    Started(Box<Facts>),
    /// It has got other resources. It makes nothing known: the container may have stopped meanwhile.
    Updated(Box<Facts>),
    /// It has stopped, so it is forgotten.
    Gone,
}

/// The changes that the keeper has not taken yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingChanges {
    /// All containers that run, if the runtime has listed them. Earlier facts do not count any more.
    pub all: Option<BTreeMap<String, Facts>>,
    /// Later changes, by container.
    pub changes: BTreeMap<String, ContainerChange>,
}

impl PendingChanges {
    /// Makes these changes to the known containers. Returns the ids of the containers that have changed.
    pub fn apply(self, known: &mut BTreeMap<String, Facts>) -> Vec<String> {
        let Self { all, changes } = self;
        all.into_iter().for_each(|all| *known = all);
        let mut changed = Vec::new();
        for (id, change) in changes {
            match change {
                ContainerChange::Started(facts) => drop(known.insert(id.clone(), *facts)),
                ContainerChange::Updated(facts) => match known.get_mut(&id) {
                    Some(known) => *known = *facts,
                    None => continue,
                },
                ContainerChange::Gone => drop(known.remove(&id)),
            }
            changed.push(id);
        }
        changed
    }
}

#[derive(Debug)]
pub struct ChangeQueue {
    batch: PendingChanges,
    most: usize,
    is_lost: bool,
}

impl ChangeQueue {
    /// An empty queue with room for changes of `most` containers.
    pub fn new(most: usize) -> Self {
        Self { batch: PendingChanges::default(), most, is_lost: false }
    }

    /// Replaces everything that waits by the containers that run.
    pub fn synchronize(&mut self, all: BTreeMap<String, Facts>) {
        self.batch = PendingChanges { all: Some(all), changes: BTreeMap::new() };
        self.is_lost = false;
    }

    /// A container has changed. If there is no room, all changes are dropped, and [`ChangeQueue::is_lost`] until the
    /// next [`ChangeQueue::synchronize`].
    pub fn push(&mut self, id: String, change: ContainerChange) {
        let changes = &mut self.batch.changes;
        if self.is_lost || (changes.len() >= self.most && !changes.contains_key(&id)) {
            self.is_lost = true;
            changes.clear();
            return;
        }
        let change = match (changes.remove(&id), change) {
            // It is still to be made known.
            (Some(ContainerChange::Started(_)), ContainerChange::Updated(facts)) => {
                ContainerChange::Started(facts)
            }
            (Some(ContainerChange::Gone), ContainerChange::Updated(_)) => ContainerChange::Gone,
            (_, change) => change,
        };
        changes.insert(id, change);
    }

    /// Whether changes were dropped. Only the runtime can then list the containers.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Takes everything that waits; `None`: nothing.
    pub fn take(&mut self) -> Option<PendingChanges> {
        let batch = std::mem::take(&mut self.batch);
        (batch != PendingChanges::default()).then_some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts(id: u8, cpus: u8) -> Facts {
        Facts { id: id.to_string(), cpus: cpus.to_string(), ..Facts::default() }
    }

    /// A runtime's report about a container.
    #[derive(Clone, Debug)]
    enum ReportedContainer {
        All(Vec<u8>),
        Change(u8, ContainerChange),
    }

    fn told() -> impl Strategy<Value = ReportedContainer> {
        let change = (0u8..4, 0u8..3, 0u8..6).prop_map(|(id, what, cpus)| {
            let facts = Box::new(facts(id, cpus));
            let change = match what {
                0 => ContainerChange::Started(facts),
                1 => ContainerChange::Updated(facts),
                _ => ContainerChange::Gone,
            };
            ReportedContainer::Change(id, change)
        });
        prop_oneof![9 => change, 1 => prop::collection::vec(0u8..4, 0..4).prop_map(ReportedContainer::All)]
    }

    fn all(ids: &[u8]) -> BTreeMap<String, Facts> {
        ids.iter().map(|&id| (id.to_string(), facts(id, 9))).collect()
    }

    proptest! {
        /// However rarely the keeper takes what waits, it knows the same in the end.
        #[test]
        fn collapsed_changes_come_to_the_same(
            told in prop::collection::vec(told(), 0..40), takes in prop::collection::vec(any::<bool>(), 40),
        ) {
            let (mut rarely, mut always) = (BTreeMap::new(), BTreeMap::new());
            let (mut queue, mut every) = (ChangeQueue::new(8), ChangeQueue::new(8));
            for (told, takes) in told.into_iter().zip(takes) {
                for queue in [&mut queue, &mut every] {
                    match told.clone() {
                        ReportedContainer::All(ids) => queue.synchronize(all(&ids)),
                        ReportedContainer::Change(id, change) => queue.push(id.to_string(), change),
                    }
                }
                every.take().into_iter().for_each(|batch| drop(batch.apply(&mut always)));
                if takes {
                    queue.take().into_iter().for_each(|batch| drop(batch.apply(&mut rarely)));
                }
            }
            queue.take().into_iter().for_each(|batch| drop(batch.apply(&mut rarely)));
            prop_assert_eq!(rarely, always);
            prop_assert!(!queue.is_lost() && queue.take().is_none());
        }

        #[test]
        fn it_never_keeps_more_than_its_bound(ids in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut queue = ChangeQueue::new(5);
            for &id in &ids {
                queue.push(id.to_string(), ContainerChange::Gone);
                prop_assert!(queue.batch.changes.len() <= 5);
            }
            let different: std::collections::BTreeSet<_> = ids.iter().collect();
            prop_assert_eq!(queue.is_lost(), different.len() > 5);
        }
    }

    #[test]
    fn a_queue_that_has_lost_something_knows_again_when_it_is_told_all() {
        let mut queue = ChangeQueue::new(1);
        queue.push("1".to_owned(), ContainerChange::Gone);
        queue.push("2".to_owned(), ContainerChange::Gone);
        queue.push("1".to_owned(), ContainerChange::Gone);
        assert!(queue.is_lost());
        assert_eq!(queue.take(), None);
        queue.synchronize(all(&[3]));
        queue.push("3".to_owned(), ContainerChange::Gone);
        assert!(!queue.is_lost());
        let mut known = all(&[7]);
        let changed = queue.take().expect("there is something").apply(&mut known);
        assert_eq!((known, changed), (BTreeMap::new(), vec!["3".to_owned()]));
    }
}
