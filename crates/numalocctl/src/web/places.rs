//! Connections that the page has at a time, and the choice of the ones to close for others. Any user of this machine
//! can connect to a TCP port of it: clients that have not shown the token take the places of one another, and never one
//! of a client that has.

use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tokio::task::AbortHandle;

/// Most connections of clients that have not shown the token, in this connection. A browser opens six for a page.
const STRANGERS: usize = 16;
/// Most connections of clients that have.
const OWNERS: usize = 48;

/// The connections that there are, by their numbers, which are in the order in which they came.
#[derive(Debug, Default)]
pub struct Places(Mutex<OpenConnections>);

#[derive(Debug, Default)]
struct OpenConnections {
    last: u64,
    open: BTreeMap<u64, OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    /// `None`: it has only just come.
    task: Option<AbortHandle>,
    has_token: bool,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    /// A place for a new connection. The oldest one of a client that has not shown the token makes room for it.
    pub fn take(self: &Arc<Self>) -> Place {
        let mut all = self.0.lock();
        all.last += 1;
        let number = all.last;
        all.open.insert(number, OpenConnection { task: None, has_token: false });
        all.make_room(false, STRANGERS);
        Place { places: self.clone(), number }
    }

    /// Notes what serves the connection with this number. It is ended if it has to make room.
    pub fn served_by(&self, number: u64, task: AbortHandle) {
        match self.0.lock().open.get_mut(&number) {
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

    /// Notes that the client has shown the token.
    pub fn has_token(&self) {
        let mut all = self.places.0.lock();
        if let Some(connection) = all.open.get_mut(&self.number).filter(|one| !one.has_token) {
            connection.has_token = true;
            all.make_room(true, OWNERS);
        }
    }

    /// Whether the client has shown the token.
    pub fn is_owner(&self) -> bool {
        self.places.0.lock().open.get(&self.number).is_some_and(|one| one.has_token)
    }
}

impl OpenConnections {
    /// Ends the oldest connections of a kind, until there are no more than `most`.
    fn make_room(&mut self, has_token: bool, most: usize) {
        let of_kind = self.open.iter().filter(|(_, one)| one.has_token == has_token);
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
        self.places.0.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

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
        let mut host = Host { places: Arc::default(), tasks: Vec::new(), taken: Vec::new() };
        let owner = host.connect();
        host.taken[owner].has_token();
        for _ in 0..STRANGERS {
            host.connect();
        }
        assert_eq!(host.open().await.len(), 1 + STRANGERS);
        let newest = host.connect();
        let open = host.open().await;
        assert!(open.contains(&owner) && open.contains(&newest) && !open.contains(&(owner + 1)));
        assert_eq!(open.len(), 1 + STRANGERS);
        host.taken[newest].has_token();
        assert_eq!(host.connect(), newest + 1);
        assert_eq!(host.open().await.len(), 2 + STRANGERS, "two have the token");
    }

    #[tokio::test]
    async fn those_with_the_token_are_bounded_too_and_keep_the_newest() {
        let mut host = Host { places: Arc::default(), tasks: Vec::new(), taken: Vec::new() };
        for _ in 0..OWNERS + 2 {
            let at = host.connect();
            host.taken[at].has_token();
        }
        assert_eq!(host.open().await, (2..OWNERS + 2).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_has_ended_leaves_its_place() {
        let places: Arc<Places> = Arc::default();
        drop(places.take());
        assert!(places.0.lock().open.is_empty());
    }
}
