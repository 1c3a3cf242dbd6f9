//! Places for connections. Their number is bounded in all and for each peer. Some are kept for root and the daemon's own user, so
//! that nobody can lock root out.

use crate::access::is_host;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// One peer gets at most 1/8 of all places. A connection with a hundred open calls takes about 100 KiB: HTTP/2 keeps a record of each
/// call, and room for as many when they have ended.
const PER_PEER: usize = 8;
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
}

/// A place. It is taken until this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPlace {
    holder: Holder,
    taken: Arc<Mutex<TakenPlaces>>,
}

impl Places {
    pub fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// Takes a place for `holder`; `None`: the holder has as many as it may, or none are left.
    pub fn take(&self, holder: Holder) -> Option<ConnectionPlace> {
        let mut taken = lock(&self.taken);
        let (most, own) = match holder {
            Holder::Host => (self.most, self.most),
            _ => (self.most - self.most / KEPT, (self.most / PER_PEER).max(1)),
        };
        let has = taken.by.get(&holder).copied().unwrap_or_default();
        if taken.all >= most || has >= own {
            return None;
        }
        taken.all += 1;
        *taken.by.entry(holder).or_default() += 1;
        Some(ConnectionPlace { holder, taken: self.taken.clone() })
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.all -= 1;
        if let Some(has) = taken.by.get_mut(&self.holder) {
            *has -= 1;
            if *has == 0 {
                taken.by.remove(&self.holder);
            }
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
        std::iter::from_fn(|| places.take(holder)).collect()
    }

    #[test]
    fn one_peer_gets_a_part_and_all_together_leave_some_to_root() {
        let places = Places::new(64);
        let first = all(&places, Holder::User(7));
        assert_eq!(first.len(), 8);
        let others: Vec<ConnectionPlace> =
            (8..20).flat_map(|uid| all(&places, Holder::User(uid))).collect();
        assert_eq!(first.len() + others.len(), 56);
        assert!(places.take(Holder::Unknown).is_none());
        assert_eq!(all(&places, Holder::Host).len(), 8, "root is locked out");
    }

    #[test]
    fn a_place_is_given_back() {
        let places = Places::new(1);
        let place = places.take(Holder::User(7)).expect("it is free");
        assert!(places.take(Holder::Host).is_none());
        drop(place);
        let address = Holder::Address([127, 0, 0, 1].into());
        assert!(places.take(address).is_some());
        assert!(lock(&places.taken).by.is_empty(), "who has left is remembered");
    }

    #[test]
    fn the_daemons_own_user_counts_as_root() {
        assert_eq!(Holder::user(0), Holder::Host);
        assert_eq!(Holder::user(geteuid().as_raw()), Holder::Host);
        assert_eq!(Holder::user(u32::MAX - 1), Holder::User(u32::MAX - 1));
    }
}
