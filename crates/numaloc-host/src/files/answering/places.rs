//! The bound on threads that read page maps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Most threads of this process that read page maps, or wait for them, at a time.
pub const MOST: usize = 64;
/// Most of them that processes of one user have wait. A user who may start processes can have some that do not answer.
pub(super) const OF_ONE_USER: usize = 8;

/// Which of the threads there are.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<TakenPlaces>);

#[derive(Debug, Default)]
struct TakenPlaces {
    /// The number that was given last.
    last: u64,
    /// By their numbers whose process the thread waits for; `None`: it is not known to wait.
    users: BTreeMap<u64, Option<u32>>,
}

/// Room for a thread, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    pub(super) number: u64,
}

impl Places {
    /// Room for one more thread, if there is any.
    pub(super) fn take(self: &Arc<Self>) -> Option<Place> {
        let mut taken = self.lock();
        if taken.users.len() >= MOST {
            return None;
        }
        taken.last += 1;
        let number = taken.last;
        taken.users.insert(number, None);
        Some(Place { places: self.clone(), number })
    }

    /// Notes that the thread with this number waits for a process of this user. It may have ended just now.
    pub(super) fn charge(&self, number: u64, user: u32) {
        if let Some(charged) = self.lock().users.get_mut(&number) {
            *charged = Some(user);
        }
    }

    /// Users whose processes have as many threads wait as they may.
    pub(super) fn full_users(&self) -> BTreeSet<u32> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for user in self.lock().users.values().flatten() {
            *counts.entry(*user).or_default() += 1;
        }
        counts
            .into_iter()
            .filter(|(_, count)| *count >= OF_ONE_USER)
            .map(|(user, _)| user)
            .collect()
    }

    /// A poisoned lock is used nevertheless: nothing panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, TakenPlaces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Places {
    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        self.lock().users.len()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().users.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_and_for_so_many_of_one_user() {
        let places = Arc::new(Places::default());
        let mut taken: Vec<Place> = std::iter::from_fn(|| places.take()).collect();
        assert_eq!((taken.len(), places.taken()), (MOST, MOST));
        taken.iter().take(OF_ONE_USER - 1).for_each(|place| places.charge(place.number, 7));
        assert!(places.full_users().is_empty());
        places.charge(taken[MOST - 1].number, 7);
        assert_eq!(places.full_users(), BTreeSet::from([7]));
        let (ended, number) = (taken.remove(0), places.lock().last);
        drop(ended);
        assert!(places.full_users().is_empty());
        assert_eq!(places.take().map(|place| place.number), Some(number + 1));
        drop(taken);
        assert_eq!(places.taken(), 0);
    }
}
