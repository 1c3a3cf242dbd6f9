//! The bound on threads that read page maps, and whose processes they may wait for.

use parking_lot::{Mutex, MutexGuard};
use std::{collections::BTreeMap, sync::Arc};

/// Most threads of this process that read page maps, or wait for them, at a time.
pub const MOST: usize = OF_USERS + OF_HOST;
/// Threads that ask, or wait for processes that any user could have started.
pub(super) const OF_USERS: usize = 48;
/// Further threads, which wait for processes of the host.
pub(super) const OF_HOST: usize = 16;
/// A user's processes have at most this part of the threads that those of others leave wait, and always one: a user that comes later finds
/// some, and it takes more than twenty to fill all.
const PART: usize = 8;

/// The user that a process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessOwner {
    /// Root, outside of containers: what no other user and no container can start.
    Host,
    /// The user with this real id, or root in a container.
    User(u32),
}

/// The threads in use.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<TakenPlaces>);

#[derive(Debug, Default)]
struct TakenPlaces {
    /// The number that was given last.
    last: u64,
    /// By their numbers whose process the thread waits for; `None`: it is not known to wait.
    owners: BTreeMap<u64, Option<ProcessOwner>>,
}

/// Room for a thread, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    pub(super) number: u64,
}

/// Owners whose processes keep as many threads waiting as they may.
#[derive(Debug)]
pub(super) struct FullOwners {
    host: bool,
    /// Whether the limit of all users together is reached.
    pub users: bool,
    each: Vec<u32>,
}

impl FullOwners {
    /// Whether any limit is reached.
    pub fn is_any(&self) -> bool {
        self.host || self.users || !self.each.is_empty()
    }

    pub fn has(&self, owner: ProcessOwner) -> bool {
        match owner {
            ProcessOwner::Host => self.host,
            ProcessOwner::User(user) => self.users || self.each.contains(&user),
        }
    }
}

impl TakenPlaces {
    /// The number of threads of the host, and of all others.
    fn sides(&self) -> [usize; 2] {
        let is_host = |owner: &&Option<ProcessOwner>| **owner == Some(ProcessOwner::Host);
        let host = self.owners.values().filter(is_host).count();
        [host, self.owners.len() - host]
    }

    fn full(&self) -> FullOwners {
        let [host, users] = self.sides();
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for owner in self.owners.values().flatten() {
            if let ProcessOwner::User(user) = owner {
                *counts.entry(*user).or_default() += 1;
            }
        }
        let wait: usize = counts.values().sum();
        let part = |has: usize| ((OF_USERS + has).saturating_sub(wait) / PART).max(1);
        let each = counts.into_iter().filter(|&(_, has)| has >= part(has));
        FullOwners {
            host: host >= OF_HOST,
            users: users >= OF_USERS,
            each: each.map(|(user, _)| user).collect(),
        }
    }
}

impl Places {
    /// Room for one more thread, if there is any: to ask processes of the host alone, or of all users.
    pub fn take(self: &Arc<Self>, is_host_alone: bool) -> Option<Place> {
        let mut taken = self.lock();
        let full = taken.full();
        let is_full = if is_host_alone { full.host } else { full.users };
        if is_full || taken.owners.len() >= MOST {
            return None;
        }
        taken.last += 1;
        let number = taken.last;
        taken.owners.insert(number, is_host_alone.then_some(ProcessOwner::Host));
        Some(Place { places: self.clone(), number })
    }

    /// Notes that the thread with this number waits for a process of this owner. It may have ended just now.
    pub fn charge(&self, number: u64, owner: ProcessOwner) {
        if let Some(charged) = self.lock().owners.get_mut(&number) {
            *charged = Some(owner);
        }
    }

    /// Owners whose processes keep the permitted number of threads waiting.
    pub fn full(&self) -> FullOwners {
        self.lock().full()
    }
    fn lock(&self) -> MutexGuard<'_, TakenPlaces> {
        self.0.lock()
    }
}

#[cfg(test)]
impl Places {
    pub(super) fn taken(&self) -> usize {
        self.lock().owners.len()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().owners.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::{ProcessOwner::*, *};

    /// Threads that wait for processes of this owner, until there is room for no more.
    fn fill(places: &Arc<Places>, owner: ProcessOwner) -> Vec<Place> {
        let take = || {
            let full = places.full();
            let place = places.take(full.users).filter(|_| !full.has(owner))?;
            places.charge(place.number, owner);
            Some(place)
        };
        std::iter::from_fn(take).collect()
    }

    #[test]
    fn each_further_user_gets_a_smaller_part_and_there_is_one_for_many() {
        let places = Arc::new(Places::default());
        let filled: Vec<_> = (1..100).map(|user| fill(&places, User(user))).collect();
        let parts: Vec<usize> = filled.iter().map(Vec::len).filter(|&part| part > 0).collect();
        assert_eq!(parts[..12], [6, 5, 4, 4, 3, 3, 2, 2, 2, 2, 1, 1]);
        assert_eq!((parts.len(), parts.iter().sum()), (25, OF_USERS));
    }

    #[test]
    fn no_users_fill_what_is_the_hosts_nor_the_host_what_is_theirs() {
        let places = Arc::new(Places::default());
        let users: Vec<_> = (1..100).map(|user| fill(&places, User(user))).collect();
        let host = fill(&places, Host);
        assert_eq!((host.len(), places.taken()), (OF_HOST, MOST));
        drop(users);
        assert!(places.full().has(Host) && fill(&places, Host).is_empty());
        assert_eq!(fill(&places, User(7)).len(), OF_USERS / PART);
    }

    #[test]
    fn threads_that_ask_are_charged_to_no_owner_and_counted() {
        let places = Arc::new(Places::default());
        let mut asking: Vec<Place> = std::iter::from_fn(|| places.take(false)).collect();
        assert_eq!(asking.len(), OF_USERS);
        assert!(places.full().has(User(7)) && !places.full().has(Host));
        let (ended, number) = (asking.remove(0), places.lock().last);
        drop(ended);
        assert!(!places.full().is_any());
        assert_eq!(places.take(false).map(|place| place.number), Some(number + 1));
        drop(asking);
        assert_eq!(places.taken(), 0);
    }
}
