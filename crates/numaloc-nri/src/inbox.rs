//! The queue between the task that answers the runtime and the one that speaks to numalocd. Its lock is never held for
//! longer than one change takes.

use crate::{
    facts::Facts,
    queue::{ChangeQueue, ContainerChange, PendingChanges},
};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use tokio::sync::Notify;

#[derive(Debug)]
pub struct Inbox {
    queue: Mutex<ChangeQueue>,
    filled: Notify,
    lost: Notify,
}

impl Inbox {
    /// An empty one with room for changes of `most` containers.
    pub fn new(most: usize) -> Self {
        Self {
            queue: Mutex::new(ChangeQueue::new(most)),
            filled: Notify::new(),
            lost: Notify::new(),
        }
    }

    /// Replaces everything that waits by the containers that run.
    pub fn synchronize(&self, all: BTreeMap<String, Facts>) {
        self.queue().synchronize(all);
        self.filled.notify_one();
    }

    /// Adds the change of a container, in place of an earlier one.
    pub fn push(&self, id: String, change: ContainerChange) {
        let mut queue = self.queue();
        let was_lost = queue.is_lost();
        queue.push(id, change);
        if queue.is_lost() && !was_lost {
            self.lost.notify_one();
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Waits until there may be something to take.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Waits until changes were dropped.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }

    /// Whether changes were dropped, and not all containers were listed since.
    pub fn is_lost(&self) -> bool {
        self.queue().is_lost()
    }

    /// Takes everything that waits; `None` if nothing does.
    pub fn take(&self) -> Option<PendingChanges> {
        self.queue().take()
    }

    fn queue(&self) -> MutexGuard<'_, ChangeQueue> {
        // The queue is consistent between any two statements of its functions that can panic: there are none.
        self.queue.lock()
    }
}
