//! Connections that a server has at a time, and the choice of the ones to close for others. Any user of a machine can
//! connect to its TCP ports: clients that the server does not trust yet take the places of one another, and never one
//! of a client that it trusts.

use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tokio::task::AbortHandle;

/// The connections of a server, by their numbers, which are in the order in which they came.
#[derive(Debug)]
pub struct Places {
    untrusted_max: usize,
    trusted_max: usize,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    last: u64,
    open: BTreeMap<u64, OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    /// `None`: it has only just come.
    task: Option<AbortHandle>,
    is_trusted: bool,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    /// This many places for clients that the server does not trust yet, and for clients that it trusts.
    pub fn new(untrusted_max: usize, trusted_max: usize) -> Arc<Self> {
        Arc::new(Self { untrusted_max, trusted_max, open: Mutex::default() })
    }

    /// A place for a new connection. The oldest one of a client that is not trusted makes room for it.
    pub fn take(self: &Arc<Self>) -> Place {
        let mut all = self.open.lock();
        all.last += 1;
        let number = all.last;
        all.open.insert(number, OpenConnection { task: None, is_trusted: false });
        all.make_room(false, self.untrusted_max);
        Place { places: self.clone(), number }
    }

    /// Notes what serves the connection with this number. It is ended if it has to make room.
    pub fn served_by(&self, number: u64, task: AbortHandle) {
        match self.open.lock().open.get_mut(&number) {
            Some(connection) => connection.task = Some(task),
            // It has ended already.
            None => task.abort(),
        }
    }
}

impl Place {
    /// Its number: what serves the connection gets it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Notes that the client has shown that it may be trusted.
    pub fn trust(&self) {
        let mut all = self.places.open.lock();
        if let Some(connection) = all.open.get_mut(&self.number).filter(|one| !one.is_trusted) {
            connection.is_trusted = true;
            all.make_room(true, self.places.trusted_max);
        }
    }

    /// Whether the client is trusted.
    pub fn is_trusted(&self) -> bool {
        self.places.open.lock().open.get(&self.number).is_some_and(|one| one.is_trusted)
    }
}

impl OpenConnections {
    /// Ends the oldest connections of a kind, until there are no more than `most`.
    fn make_room(&mut self, is_trusted: bool, most: usize) {
        let of_kind = self.open.iter().filter(|(_, one)| one.is_trusted == is_trusted);
        let numbers: Vec<u64> = of_kind.map(|(number, _)| *number).collect();
        for number in &numbers[..numbers.len().saturating_sub(most)] {
            if let Some(OpenConnection { task: Some(task), .. }) = self.open.remove(number) {
                task.abort();
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.open.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    const STRANGERS: usize = 16;
    const OWNERS: usize = 48;

    struct Host {
        places: Arc<Places>,
        tasks: Vec<tokio::task::JoinHandle<()>>,
        taken: Vec<Arc<Place>>,
    }

    impl Host {
        fn connect(&mut self) -> usize {
            let place = Arc::new(self.places.take());
            let theirs = place.clone();
            let task = tokio::spawn(async move {
                let _theirs = theirs;
                pending::<()>().await;
            });
            self.places.served_by(place.number(), task.abort_handle());
            self.tasks.push(task);
            self.taken.push(place);
            self.tasks.len() - 1
        }

        async fn open(&self) -> Vec<usize> {
            tokio::task::yield_now().await;
            (0..self.tasks.len()).filter(|at| !self.tasks[*at].is_finished()).collect()
        }
    }

    #[tokio::test]
    async fn the_oldest_one_without_the_token_makes_room() {
        let mut host =
            Host { places: Places::new(STRANGERS, OWNERS), tasks: Vec::new(), taken: Vec::new() };
        let owner = host.connect();
        host.taken[owner].trust();
        for _ in 0..STRANGERS {
            host.connect();
        }
        assert_eq!(host.open().await.len(), 1 + STRANGERS);
        let newest = host.connect();
        let open = host.open().await;
        assert!(open.contains(&owner) && open.contains(&newest) && !open.contains(&(owner + 1)));
        assert_eq!(open.len(), 1 + STRANGERS);
        host.taken[newest].trust();
        assert_eq!(host.connect(), newest + 1);
        assert_eq!(host.open().await.len(), 2 + STRANGERS, "two have the token");
    }

    #[tokio::test]
    async fn those_with_the_token_are_bounded_too_and_keep_the_newest() {
        let mut host =
            Host { places: Places::new(STRANGERS, OWNERS), tasks: Vec::new(), taken: Vec::new() };
        for _ in 0..OWNERS + 2 {
            let at = host.connect();
            host.taken[at].trust();
        }
        assert_eq!(host.open().await, (2..OWNERS + 2).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_has_ended_leaves_its_place() {
        let places = Places::new(STRANGERS, OWNERS);
        drop(places.take());
        assert!(places.open.lock().open.is_empty());
    }
}
