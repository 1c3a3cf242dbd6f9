//! Pending writes to the cluster. They do not grow with time: the newest status of each pod waits, and a bounded number
//! of events.

use crate::{
    budget::Budget,
    facts::Facts,
    metrics::{Loss, Pending},
};
use numaloc_policy::PodEvent;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{sync::Notify, time::Instant};

/// Most events that wait. With more, the oldest are lost: the API server has not answered for long.
const POSTS_MAX: usize = 10_000;
/// Events of one object that may be posted at once, and the time after which it may have one more. Of further ones the
/// newest waits. The bounds are those of client-go's recorder (client-go/tools/record, `EventSourceObjectSpamFilter`).
const BURST: u32 = 25;
const INTERVAL: Duration = Duration::from_secs(300);

/// The report about a pod.
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
    /// Distinguishes the event from others of its pod. The same event has the same id after a restart, so it is posted
    /// once.
    pub id: String,
    pub event: PodEvent,
    /// When that was; `None`: now.
    pub at: Option<SystemTime>,
}

/// The status annotations of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPatch {
    /// Koordinator's; `None`: it stays as it is.
    pub status: Option<String>,
    /// Our annotation.
    pub own: String,
}

impl StatusPatch {
    /// This one in place of an older one: what it leaves as it is is what the older one would have written.
    fn over(self, older: Option<Self>) -> Self {
        Self { status: self.status.or(older.and_then(|older| older.status)), ..self }
    }
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
    /// The namespace of its events: those of an object of the cluster are in `default`
    /// (kubernetes/pkg/apis/core/validation/events.go).
    pub fn events_namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }

    /// What tells it from other objects.
    fn key(&self) -> String {
        format!("{} {}/{} {}", self.kind, self.namespace, self.name, self.api_uid)
    }

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

/// The next write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    Post(Arc<Subject>, Post),
    Patch(Arc<Subject>, StatusPatch),
}

/// The pending writes.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: Mutex<Queue>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    posts: VecDeque<Waiting>,
    /// The newest event of each object that has had too many, by the object.
    held: BTreeMap<String, (Arc<Subject>, Post, Instant)>,
    /// The budgets of objects that have had events, as long as they are not whole.
    budgets: BTreeMap<String, Budget>,
    /// The statuses whose events have been posted, by the uid of their pod, and since when each waits.
    patches: BTreeMap<String, (Arc<Subject>, StatusPatch, Instant)>,
    /// The uids of these pods, in the order in which they came.
    order: VecDeque<String>,
    lost: BTreeMap<Loss, u64>,
    /// The write that the API server refuses.
    refused: Option<String>,
}

/// An event that waits, with the status that is written after it.
#[derive(Debug)]
struct Waiting {
    subject: Arc<Subject>,
    post: Post,
    after: Option<StatusPatch>,
    since: Instant,
}

impl Outbox {
    /// Adds the report about a pod.
    pub fn push(&self, subject: Subject, report: Report) {
        let (subject, now) = (Arc::new(subject), Instant::now());
        let mut queue = self.queue.lock();
        let Report { posts, mut patch } = report;
        let posts: Vec<Post> =
            posts.into_iter().filter_map(|post| queue.within_budget(&subject, post, now)).collect();
        let last = posts.len().checked_sub(1);
        for (at, post) in posts.into_iter().enumerate() {
            // The status is a cursor: events that it has passed are not posted any more.
            let after = if Some(at) == last { patch.take() } else { None };
            let subject = Arc::clone(&subject);
            queue.posts.push_back(Waiting { subject, post, after, since: now });
        }
        if let Some(patch) = patch {
            let mut waiting = queue.posts.iter_mut().rev();
            match waiting.find(|waiting| waiting.subject.api_uid == subject.api_uid) {
                // Nor is it written before events that came earlier.
                Some(waiting) => waiting.after = Some(patch.over(waiting.after.take())),
                None => queue.patch(subject, patch, now),
            }
        }
        while queue.posts.len() > POSTS_MAX {
            queue.lose(Loss::Overflow);
            if let Some(Waiting { subject, after: Some(patch), .. }) = queue.posts.pop_front() {
                queue.patch(subject, patch, now);
            }
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Waits until there may be something new.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }

    /// The next write: an event if `may_post`, else a status if `may_patch`, of which `is_open` says that the API server may
    /// take it now. It stays until it is done.
    pub fn next(
        &self,
        may_post: bool,
        may_patch: bool,
        is_open: impl Fn(&Work) -> bool,
    ) -> Option<Work> {
        let mut queue = self.queue.lock();
        queue.release(Instant::now());
        let post =
            |waiting: &Waiting| Work::Post(Arc::clone(&waiting.subject), waiting.post.clone());
        let mut posts = queue.posts.iter().filter(|_| may_post).map(post);
        if let Some(work) = posts.find(&is_open) {
            return Some(work);
        }
        let patches = queue.order.iter().filter(|_| may_patch).filter_map(|uid| {
            let (subject, patch, _) = queue.patches.get(uid)?;
            Some(Work::Patch(Arc::clone(subject), patch.clone()))
        });
        patches.into_iter().find(is_open)
    }

    /// When an event that is held back for its object's budget may be posted; `None`: none is.
    pub fn next_release(&self) -> Option<Instant> {
        let (queue, now) = (self.queue.lock(), Instant::now());
        queue.held.keys().filter_map(|key| Some(queue.budgets.get(key)?.next(now))).min()
    }

    /// This has been done, or will never be.
    pub fn done(&self, work: &Work) {
        let mut queue = self.queue.lock();
        match work {
            Work::Post(of, done) => {
                let is_done = |waiting: &Waiting| {
                    waiting.post == *done && waiting.subject.api_uid == of.api_uid
                };
                // Meanwhile it may have been lost.
                let Some(at) = queue.posts.iter().position(is_done) else { return };
                if let Some(Waiting { subject, after: Some(patch), .. }) = queue.posts.remove(at) {
                    queue.patch(subject, patch, Instant::now());
                }
            }
            Work::Patch(subject, done) => {
                let uid = &subject.api_uid;
                // Meanwhile its pod may have gone.
                let Some(is_same) = queue.patches.get(uid).map(|(_, patch, _)| patch == done)
                else {
                    return;
                };
                // A status that came meanwhile is written later.
                queue.order.retain(|waiting| waiting != uid);
                match is_same {
                    true => drop(queue.patches.remove(uid)),
                    false => queue.order.push_back(uid.clone()),
                }
            }
        }
    }

    /// Drops the status of a pod that is gone: it is useless, and would use up the budget of the others. Its events
    /// stay.
    pub fn gone(&self, api_uid: &str) {
        let mut queue = self.queue.lock();
        queue.patches.remove(api_uid);
        queue.order.retain(|waiting| waiting != api_uid);
        let posts = queue.posts.iter_mut().filter(|waiting| waiting.subject.api_uid == api_uid);
        posts.for_each(|waiting| waiting.after = None);
    }

    /// Counts an event that is given up.
    pub fn lost(&self, why: Loss) {
        self.queue.lock().lose(why);
    }

    /// The API server refuses these writes now, for this reason; `None`: it takes all.
    pub fn refused(&self, problem: Option<String>) {
        self.queue.lock().refused = problem;
    }

    /// The write that the API server refuses.
    pub fn problem(&self) -> Option<String> {
        self.queue.lock().refused.clone()
    }

    /// What waits now.
    pub fn counts(&self) -> Pending {
        let (queue, now) = (self.queue.lock(), Instant::now());
        let posts = queue.posts.iter().map(|waiting| waiting.since);
        let oldest = posts.chain(queue.patches.values().map(|(_, _, since)| *since)).min();
        Pending {
            events: queue.posts.len() + queue.held.len(),
            statuses: queue.patches.len(),
            oldest: oldest.map(|since| now - since).unwrap_or_default(),
            lost: queue.lost.clone(),
        }
    }
}

impl Queue {
    /// The newest status of a pod takes the place of an older one, and its turn.
    fn patch(&mut self, subject: Arc<Subject>, patch: StatusPatch, now: Instant) {
        let uid = subject.api_uid.clone();
        let (older, since) = match self.patches.remove(&uid) {
            Some((_, older, since)) => (Some(older), since),
            None => (None, now),
        };
        if older.is_none() {
            self.order.push_back(uid.clone());
        }
        self.patches.insert(uid, (subject, patch.over(older), since));
    }

    fn lose(&mut self, why: Loss) {
        *self.lost.entry(why).or_default() += 1;
    }

    /// The event, if its object may have one now. Else it is held back, in place of an older one.
    fn within_budget(&mut self, subject: &Arc<Subject>, post: Post, now: Instant) -> Option<Post> {
        let key = subject.key();
        let budget = self.budgets.entry(key.clone());
        let budget = budget.or_insert_with(|| Budget::new(BURST, INTERVAL, now));
        if budget.next(now) <= now {
            budget.take(now);
            return Some(post);
        }
        if self.held.insert(key, (Arc::clone(subject), post, now)).is_some() {
            self.lose(Loss::Replaced);
        }
        None
    }

    /// Has held events wait with the others, as far as their objects may have some again.
    fn release(&mut self, now: Instant) {
        self.budgets.retain(|_, budget| !budget.is_full(now));
        let is_due = |key: &String| self.budgets.get(key).is_none_or(|of| of.next(now) <= now);
        let due: Vec<String> = self.held.keys().filter(|key| is_due(key)).cloned().collect();
        for key in due {
            if let Some((subject, post, since)) = self.held.remove(&key) {
                let budget = self.budgets.entry(key);
                budget.or_insert_with(|| Budget::new(BURST, INTERVAL, now)).take(now);
                self.posts.push_back(Waiting { subject, post, after: None, since });
            }
        }
    }
}

#[cfg(test)]
mod tests;
