//! What is to be written into the cluster and has not been yet. Nothing in it grows with time: of each pod the newest status waits, and
//! of the events at most so many.

use crate::facts::Facts;
use numaloc_policy::PodEvent;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};
use tokio::sync::Notify;

/// Most events that wait. With more, the oldest are lost: the API server has not answered for long.
const POSTS_MAX: usize = 10_000;

/// What is to be said about a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Events, oldest first.
    pub posts: Vec<Post>,
    /// Its status, which is written after them.
    pub patch: Option<StatusPatch>,
}

/// An event that is to be posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// What tells it from the others of its pod. The same thing has the same id after a restart, so it is posted once.
    pub id: String,
    /// What it says.
    pub event: PodEvent,
    /// When that was; `None`: now.
    pub at: Option<SystemTime>,
}

/// The status annotations of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPatch {
    /// Koordinator's; `None`: it stays as it is.
    pub status: Option<String>,
    /// Ours.
    pub own: String,
}

/// The object that events and annotations are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// The uid that events are found by.
    pub uid: String,
    /// The uid that the API has it under.
    pub api_uid: String,
}

impl Subject {
    /// A pod.
    pub fn pod(facts: &Facts) -> Self {
        Self {
            kind: "Pod",
            namespace: facts.pod.namespace.clone(),
            name: facts.pod.name.clone(),
            uid: facts.pod.uid.clone(),
            api_uid: facts.api_uid.clone(),
        }
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Post this event.
    Post(Arc<Subject>, Post),
    /// Write this status.
    Patch(Arc<Subject>, StatusPatch),
}

/// What waits.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: Mutex<Queue>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    /// Events, each with the status that is written after it.
    posts: VecDeque<(Arc<Subject>, Post, Option<StatusPatch>)>,
    /// The statuses whose events have been posted, by the uid of their pod.
    patches: BTreeMap<String, (Arc<Subject>, StatusPatch)>,
    /// The uids of these pods, in the order in which they came.
    order: VecDeque<String>,
    lost: u64,
}

impl Outbox {
    /// Adds what is to be said about a pod.
    pub fn push(&self, subject: Subject, report: Report) {
        let subject = Arc::new(subject);
        let mut queue = self.queue();
        let Report { posts, mut patch } = report;
        let last = posts.len().checked_sub(1);
        for (at, post) in posts.into_iter().enumerate() {
            // The status is a cursor: what it has passed is not posted any more.
            let after = if Some(at) == last { patch.take() } else { None };
            queue.posts.push_back((Arc::clone(&subject), post, after));
        }
        if let Some(patch) = patch {
            queue.patch(subject, patch);
        }
        while queue.posts.len() > POSTS_MAX {
            queue.posts.pop_front();
            queue.lost += 1;
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Waits until there may be something new.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }

    /// What is to be done first: events, and if `may_patch`, statuses. It stays until it is done.
    pub fn next(&self, may_patch: bool) -> Option<Work> {
        let queue = self.queue();
        if let Some((subject, post, _)) = queue.posts.front() {
            return Some(Work::Post(Arc::clone(subject), post.clone()));
        }
        let uid = queue.order.front().filter(|_| may_patch)?;
        let (subject, patch) = queue.patches.get(uid)?;
        Some(Work::Patch(Arc::clone(subject), patch.clone()))
    }

    /// This has been done, or will never be.
    pub fn done(&self, work: &Work) {
        let mut queue = self.queue();
        match work {
            Work::Post(_, done) => {
                // Meanwhile it may have been lost.
                let is_first = queue.posts.front().is_some_and(|(_, post, _)| post == done);
                if let Some((subject, _, Some(patch))) =
                    is_first.then(|| queue.posts.pop_front()).flatten()
                {
                    queue.patch(subject, patch);
                }
            }
            Work::Patch(subject, done) => {
                let uid = &subject.api_uid;
                // Of one that came meanwhile the turn comes later.
                let is_same = queue.patches.get(uid).is_some_and(|(_, patch)| patch == done);
                queue.order.retain(|waiting| waiting != uid);
                match is_same {
                    true => drop(queue.patches.remove(uid)),
                    false => queue.order.push_back(uid.clone()),
                }
            }
        }
    }

    /// How many events and statuses wait, and how many events were lost.
    pub fn counts(&self) -> (usize, usize, u64) {
        let queue = self.queue();
        (queue.posts.len(), queue.patches.len(), queue.lost)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The newest status of a pod takes the place of an older one, and its turn.
    fn patch(&mut self, subject: Arc<Subject>, patch: StatusPatch) {
        let uid = subject.api_uid.clone();
        let patch = match self.patches.remove(&uid) {
            // What the newer one leaves as it is is what the older one would have written.
            Some((_, older)) => StatusPatch { status: patch.status.or(older.status), ..patch },
            None => {
                self.order.push_back(uid.clone());
                patch
            }
        };
        self.patches.insert(uid, (subject, patch));
    }
}
