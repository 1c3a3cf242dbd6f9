//! Pending writes to the cluster. They do not grow with time: the newest status of each pod waits, and a bounded number
//! of events.

use crate::{facts::Facts, metrics::Waiting};
use numaloc_policy::PodEvent;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::SystemTime,
};
use tokio::sync::Notify;

/// Most events that wait. With more, the oldest are lost: the API server has not answered for long.
const POSTS_MAX: usize = 10_000;

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
    /// Events, each with the status that is written after it.
    posts: VecDeque<(Arc<Subject>, Post, Option<StatusPatch>)>,
    /// The statuses whose events have been posted, by the uid of their pod.
    patches: BTreeMap<String, (Arc<Subject>, StatusPatch)>,
    /// The uids of these pods, in the order in which they came.
    order: VecDeque<String>,
    lost: u64,
    /// The write that the API server refuses.
    refused: Option<String>,
}

impl Outbox {
    /// Adds the report about a pod.
    pub fn push(&self, subject: Subject, report: Report) {
        let subject = Arc::new(subject);
        let mut queue = self.queue.lock();
        let Report { posts, mut patch } = report;
        let last = posts.len().checked_sub(1);
        for (at, post) in posts.into_iter().enumerate() {
            // The status is a cursor: events that it has passed are not posted any more.
            let after = if Some(at) == last { patch.take() } else { None };
            queue.posts.push_back((Arc::clone(&subject), post, after));
        }
        if let Some(patch) = patch {
            let mut waiting = queue.posts.iter_mut().rev();
            match waiting.find(|(of, ..)| of.api_uid == subject.api_uid) {
                // Nor is it written before events that came earlier.
                Some((.., after)) => *after = Some(patch.over(after.take())),
                None => queue.patch(subject, patch),
            }
        }
        while queue.posts.len() > POSTS_MAX {
            queue.lost += 1;
            if let Some((subject, _, Some(patch))) = queue.posts.pop_front() {
                queue.patch(subject, patch);
            }
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Waits until there may be something new.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }

    /// The next write: events first, and if `may_patch`, statuses. It stays until it is done.
    pub fn next(&self, may_patch: bool) -> Option<Work> {
        let queue = self.queue.lock();
        if let Some((subject, post, _)) = queue.posts.front() {
            return Some(Work::Post(Arc::clone(subject), post.clone()));
        }
        let uid = queue.order.front().filter(|_| may_patch)?;
        let (subject, patch) = queue.patches.get(uid)?;
        Some(Work::Patch(Arc::clone(subject), patch.clone()))
    }

    /// This has been done, or will never be.
    pub fn done(&self, work: &Work) {
        let mut queue = self.queue.lock();
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
                // Meanwhile its pod may have gone.
                let Some(is_same) = queue.patches.get(uid).map(|(_, patch)| patch == done) else {
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
        let posts = queue.posts.iter_mut().filter(|(subject, ..)| subject.api_uid == api_uid);
        posts.for_each(|(.., patch)| *patch = None);
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
    pub fn counts(&self) -> Waiting {
        let queue = self.queue.lock();
        let (events, statuses) = (queue.posts.len(), queue.patches.len());
        Waiting { events, statuses, lost_events: queue.lost }
    }
}

impl Queue {
    /// The newest status of a pod takes the place of an older one, and its turn.
    fn patch(&mut self, subject: Arc<Subject>, patch: StatusPatch) {
        let uid = subject.api_uid.clone();
        let older = self.patches.remove(&uid).map(|(_, older)| older);
        if older.is_none() {
            self.order.push_back(uid.clone());
        }
        self.patches.insert(uid, (subject, patch.over(older)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use numaloc_policy::PodEvent;
    use proptest::prelude::*;

    fn waiting(outbox: &Outbox) -> (usize, usize, u64) {
        let Waiting { events, statuses, lost_events } = outbox.counts();
        (events, statuses, lost_events)
    }

    fn subject(pod: u8) -> Subject {
        let uid = pod.to_string();
        let name = format!("pod-{pod}");
        Subject { kind: "Pod", namespace: "shop".to_owned(), name, uid: uid.clone(), api_uid: uid }
    }

    fn post(number: usize) -> Post {
        Post { id: number.to_string(), event: PodEvent::conflict("x"), at: None }
    }

    /// Does all pending writes.
    fn drain(outbox: &Outbox) -> Vec<Work> {
        std::iter::from_fn(|| {
            let work = outbox.next(true)?;
            outbox.done(&work);
            Some(work)
        })
        .collect()
    }

    #[test]
    fn a_status_comes_after_its_events_and_the_newest_counts() {
        let outbox = Outbox::default();
        let patch = |status: Option<&str>, own: &str| {
            Some(StatusPatch { status: status.map(str::to_owned), own: own.to_owned() })
        };
        outbox.push(
            subject(1),
            Report { posts: vec![post(1), post(2)], patch: patch(Some("a"), "1") },
        );
        outbox.push(subject(2), Report { posts: vec![], patch: patch(Some("b"), "2") });
        assert_eq!(waiting(&outbox), (2, 1, 0), "the other one waits for its events");
        let first = outbox.next(false).expect("an event");
        outbox.done(&first);
        outbox.push(subject(1), Report { posts: vec![], patch: patch(None, "3") });
        outbox.push(subject(1), Report { posts: vec![post(3)], patch: None });
        let done = drain(&outbox);
        let patches: Vec<_> = done
            .into_iter()
            .filter_map(|work| match work {
                Work::Patch(subject, patch) => Some((subject.name.clone(), patch)),
                Work::Post(..) => None,
            })
            .collect();
        let one = |pod: &str, status: &str, own: &str| {
            let (status, own) = (Some(status.to_owned()), own.to_owned());
            (pod.to_owned(), StatusPatch { status, own })
        };
        assert_eq!(patches, [one("pod-2", "b", "2"), one("pod-1", "a", "3")]);
    }

    proptest! {
        /// In whatever order reports come, every event is posted once, the last status of each existing pod is written,
        /// and nothing is left.
        #[test]
        fn nothing_is_lost_or_done_twice(
            reports in prop::collection::vec((0u8..3, 0usize..3, any::<bool>(), 0usize..4, 0u8..8), 0..40),
        ) {
            let outbox = Outbox::default();
            let (mut number, mut done, mut last) = (0, Vec::new(), BTreeMap::new());
            for (pod, posts, has_patch, steps, gone) in reports {
                let posts: Vec<_> = (0..posts).map(|_| { number += 1; post(number) }).collect();
                let patch = has_patch.then(|| {
                    number += 1;
                    last.insert(format!("pod-{pod}"), number.to_string());
                    StatusPatch { status: Some(number.to_string()), own: String::new() }
                });
                outbox.push(subject(pod), Report { posts, patch });
                for _ in 0..steps {
                    if let Some(work) = outbox.next(true) {
                        outbox.done(&work);
                        done.push(work);
                    }
                }
                // In about half of the cases, while the first pending write is being done.
                let under_way = outbox.next(true);
                if gone < 3 {
                    outbox.gone(&gone.to_string());
                    last.remove(&format!("pod-{gone}"));
                    done.retain(|work| !matches!(work, Work::Patch(of, _) if of.uid == gone.to_string()));
                }
                if let Some(work) = under_way {
                    outbox.done(&work);
                    if !matches!(&work, Work::Patch(of, _) if of.uid == gone.to_string()) {
                        done.push(work);
                    }
                }
            }
            done.extend(drain(&outbox));
            let posted: Vec<_> = done.iter().filter_map(|work| match work {
                Work::Post(_, post) => Some(post.id.clone()),
                Work::Patch(..) => None,
            }).collect();
            let mut once = posted.clone();
            once.sort();
            once.dedup();
            prop_assert_eq!(once.len(), posted.len());
            let mut written = BTreeMap::new();
            for work in &done {
                if let Work::Patch(subject, patch) = work {
                    written.insert(subject.name.clone(), patch.status.clone().unwrap_or_default());
                }
            }
            prop_assert_eq!(written, last);
            prop_assert_eq!(waiting(&outbox), (0, 0, 0));
        }
    }
}
