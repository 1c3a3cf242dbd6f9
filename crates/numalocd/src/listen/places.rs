//! Places for connections. Their number is bounded in all, for each peer, and for peers that are very many: who may use a range of user ids
//! (subuid(5)) is a peer with each of them. Some are kept for root and the daemon's own user, so that nobody can lock root out.

use crate::access::{Cohort, is_host};
use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// One peer gets at most 1/8 of all places. A connection with a hundred open calls takes about 100 KiB: HTTP/2 keeps a record of each
/// call, and room for as many when they have ended.
const PER_PEER: usize = 8;
/// Peers without any role get at most 1/4 of all places together.
const WITHOUT_ROLE: usize = 4;
/// Members of the group of one grant get at most 1/2 of all places together.
const PER_GROUP: usize = 2;
/// 1/8 of all places is kept for root and the daemon's own user.
const KEPT: usize = 8;

/// Who holds a connection, as far as it is known when it is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    /// root, or the user that the daemon runs as.
    Host,
    /// Another user at the Unix socket.
    User(u32),
    /// A client at a TCP port.
    Address(IpAddr),
    /// The kernel does not say.
    Unknown,
}

impl Holder {
    /// A user at the Unix socket.
    pub fn user(uid: u32) -> Self {
        if is_host(uid) { Self::Host } else { Self::User(uid) }
    }
}

/// Hands out places. Clones share the same places.
#[derive(Clone, Debug)]
pub(super) struct Places {
    most: usize,
    taken: Arc<Mutex<TakenPlaces>>,
}

#[derive(Debug, Default)]
struct TakenPlaces {
    all: usize,
    by: HashMap<Holder, usize>,
    by_cohort: HashMap<Cohort, usize>,
}

/// A place. It is taken until this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPlace {
    holder: Holder,
    cohort: Option<Cohort>,
    taken: Arc<Mutex<TakenPlaces>>,
}

impl Places {
    pub fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// Takes a place for `holder`, which is one of `cohort`; `None`: one of both has as many as it may, or none are left.
    pub fn take(&self, holder: Holder, cohort: Option<Cohort>) -> Option<ConnectionPlace> {
        let mut taken = lock(&self.taken);
        let (most, own) = match holder {
            Holder::Host => (self.most, self.most),
            _ => (self.most - self.most / KEPT, (self.most / PER_PEER).max(1)),
        };
        let has = taken.by.get(&holder).copied().unwrap_or_default();
        let together =
            cohort.map_or(0, |cohort| taken.by_cohort.get(&cohort).copied().unwrap_or_default());
        let most_together = match cohort {
            Some(Cohort::WithoutRole) => (self.most / WITHOUT_ROLE).max(1),
            Some(Cohort::Group(_)) => (self.most / PER_GROUP).max(1),
            None => self.most,
        };
        if taken.all >= most || has >= own || together >= most_together {
            return None;
        }
        taken.all += 1;
        *taken.by.entry(holder).or_default() += 1;
        if let Some(cohort) = cohort {
            *taken.by_cohort.entry(cohort).or_default() += 1;
        }
        Some(ConnectionPlace { holder, cohort, taken: self.taken.clone() })
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.all -= 1;
        give_back(&mut taken.by, self.holder);
        if let Some(cohort) = self.cohort {
            give_back(&mut taken.by_cohort, cohort);
        }
    }
}

fn give_back<K: Eq + Hash>(taken: &mut HashMap<K, usize>, by: K) {
    if let Some(has) = taken.get_mut(&by) {
        *has -= 1;
        if *has == 0 {
            taken.remove(&by);
        }
    }
}

/// Nothing panics while holding the lock, so the contents of a poisoned lock are consistent.
fn lock(taken: &Mutex<TakenPlaces>) -> MutexGuard<'_, TakenPlaces> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::geteuid;

    /// All the places that `holder` can get.
    fn all(places: &Places, holder: Holder) -> Vec<ConnectionPlace> {
        all_of(places, holder, None)
    }

    fn all_of(places: &Places, by: Holder, cohort: Option<Cohort>) -> Vec<ConnectionPlace> {
        std::iter::from_fn(|| places.take(by, cohort)).collect()
    }

    /// With twenty users of each kind the others get in.
    #[test]
    fn users_that_are_very_many_get_a_part_together() {
        let places = Places::new(64);
        let held = |cohort, from: u32| -> Vec<ConnectionPlace> {
            let users = (from..from + 20).map(Holder::User);
            users.flat_map(|user| all_of(&places, user, Some(cohort))).collect()
        };
        let strangers = held(Cohort::WithoutRole, 1_000);
        assert_eq!(strangers.len(), 16);
        let members = held(Cohort::Group(7), 2_000);
        assert_eq!(members.len(), 32);
        let own = all(&places, Holder::User(7));
        assert_eq!(own.len(), 8, "a user with a grant of its own");
        assert_eq!(all(&places, Holder::Host).len(), 8, "root");
        drop((strangers, members));
        assert!(lock(&places.taken).by_cohort.is_empty(), "who has left is remembered");
    }

    #[test]
    fn one_peer_gets_a_part_and_all_together_leave_some_to_root() {
        let places = Places::new(64);
        let first = all(&places, Holder::User(7));
        assert_eq!(first.len(), 8);
        let others: Vec<ConnectionPlace> =
            (8..20).flat_map(|uid| all(&places, Holder::User(uid))).collect();
        assert_eq!(first.len() + others.len(), 56);
        assert!(places.take(Holder::Unknown, None).is_none());
        assert_eq!(all(&places, Holder::Host).len(), 8, "root is locked out");
    }

    #[test]
    fn a_place_is_given_back() {
        let places = Places::new(1);
        let place = places.take(Holder::User(7), None).expect("it is free");
        assert!(places.take(Holder::Host, None).is_none());
        drop(place);
        let address = Holder::Address([127, 0, 0, 1].into());
        assert!(places.take(address, None).is_some());
        assert!(lock(&places.taken).by.is_empty(), "who has left is remembered");
    }

    #[test]
    fn the_daemons_own_user_counts_as_root() {
        assert_eq!(Holder::user(0), Holder::Host);
        assert_eq!(Holder::user(geteuid().as_raw()), Holder::Host);
        assert_eq!(Holder::user(u32::MAX - 1), Holder::User(u32::MAX - 1));
    }
}
