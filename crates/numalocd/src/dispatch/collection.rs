//! All records of one kind (jobs, schedules or workloads), with what is known of all of them whatever their kind: who
//! made them by which request, what they count for, and in which order they have changed.

use super::{
    changes::Changes,
    used::{Amount, Counted, CountedKind, Used},
};
use crate::{
    accounts::Client,
    config::Quota,
    refusal::Refusal,
    store::{Kept, Weight},
};
use numaloc_api::value::{Job, JobId, Schedule, ScheduleId, Workload, WorkloadId};
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Display,
    hash::Hash,
    ops::Deref,
    sync::Arc,
};

/// A client, and the id that it has given one of its requests.
pub type RequestKey = (String, String);

/// A kind of record: jobs, schedules, workloads.
pub trait Record: Weight + Sized + 'static {
    type Id: Clone + Display + Eq + Hash + Send + 'static;
    /// Its place among the others.
    type Key: Clone + Ord;
    /// The form of the record that memory keeps.
    type Kept: AsRef<Self> + Clone + From<Arc<Self>>;

    fn id(&self) -> &Self::Id;
    /// Whether this id is its own: an id that a client has chosen may be chosen again once the record is gone.
    fn has_id(&self, id: &Self::Id) -> bool;
    fn key(&self) -> Self::Key;
    /// The requests that made it or have joined it, as far as they can be recognized.
    fn requests(&self) -> Vec<RequestKey>;
    /// The kind that it counts as in the quota of its owner; `None`: it does not count.
    fn sort(&self) -> Option<CountedKind>;
}

/// Records of a kind, by key.
#[derive(Debug)]
pub struct Collection<R: Record> {
    kept: BTreeMap<R::Key, R::Kept>,
    keys: HashMap<R::Id, R::Key>,
    requests: HashMap<RequestKey, R::Key>,
    counted: BTreeMap<R::Key, Counted>,
    changes: Changes<R::Id>,
}

impl<R: Record> Default for Collection<R> {
    fn default() -> Self {
        Self {
            kept: BTreeMap::new(),
            keys: HashMap::new(),
            requests: HashMap::new(),
            counted: BTreeMap::new(),
            changes: Changes::new(fastrand::u64(..)),
        }
    }
}

impl<R: Record> Deref for Collection<R> {
    type Target = BTreeMap<R::Key, R::Kept>;

    fn deref(&self) -> &Self::Target {
        &self.kept
    }
}

impl<R: Record> Collection<R> {
    /// Takes over a record that is new or has changed, and counts for `owner`. Gives back the one that it replaces.
    pub fn put(&mut self, kept: R::Kept, owner: Client, used: &mut Used) -> Option<R::Kept> {
        let record = kept.as_ref();
        let key = record.key();
        self.changes.put(record.id());
        self.keys.insert(record.id().clone(), key.clone());
        // A record forgets the first ones that have joined it.
        let before = self.kept.get(&key).map_or(Vec::new(), |kept| kept.as_ref().requests());
        self.forget(before, &key);
        for request in record.requests() {
            self.requests.insert(request, key.clone());
        }
        let counted = record.sort().map(|sort| {
            let counted = Counted { owner, sort, bytes: record.weight() };
            used.add(&counted);
            counted
        });
        let before = match counted {
            Some(counted) => self.counted.insert(key.clone(), counted),
            None => self.counted.remove(&key),
        };
        before.iter().for_each(|before| used.take(before));
        self.kept.insert(key, kept)
    }

    pub fn remove(&mut self, id: &R::Id, used: &mut Used) -> Option<R::Kept> {
        self.changes.remove(id);
        let key = self.by_id(id)?.as_ref().key();
        self.keys.remove(id);
        self.counted.remove(&key).iter().for_each(|before| used.take(before));
        let removed = self.kept.remove(&key)?;
        self.forget(removed.as_ref().requests(), &key);
        Some(removed)
    }

    /// Forgets requests of the record with this key.
    fn forget(&mut self, requests: Vec<RequestKey>, key: &R::Key) {
        for request in requests {
            if self.requests.get(&request) == Some(key) {
                self.requests.remove(&request);
            }
        }
    }

    /// The record with this id.
    pub fn by_id(&self, id: &R::Id) -> Option<&R::Kept> {
        let kept = self.kept.get(self.keys.get(id)?)?;
        Some(kept).filter(|kept| kept.as_ref().has_id(id))
    }

    /// The record with this id.
    ///
    /// # Errors
    /// Not found.
    pub fn known(&self, id: &R::Id) -> Result<&R::Kept, Refusal> {
        self.by_id(id).ok_or_else(|| Refusal::NotFound { name: id.to_string() })
    }

    /// The record that a request of this client made.
    pub fn of_request(&self, client: &str, request_id: &str) -> Option<&R::Kept> {
        self.kept.get(self.requests.get(&(client.to_owned(), request_id.to_owned()))?)
    }

    /// The keys of the records that count for a client, in order.
    pub fn counted(&self) -> impl Iterator<Item = &R::Key> {
        self.counted.keys()
    }

    /// Checks whether the quota of `owner` allows a record that is new or has changed.
    ///
    /// # Errors
    /// As [`Used::check`].
    pub fn check(
        &self,
        record: &R,
        owner: &Client,
        used: &Used,
        quota: &Quota,
    ) -> Result<(), Refusal> {
        let Some(sort) = record.sort() else { return Ok(()) };
        let one = |bytes| Amount { records: 1, bytes };
        let before = self.counted.get(&record.key());
        let before = before.map_or_else(Amount::default, |counted| one(counted.bytes));
        used.check(owner, sort, one(record.weight()), before, quota)
    }

    /// The last change of each record, in order.
    pub fn changes(&self) -> &Changes<R::Id> {
        &self.changes
    }

    /// Notes that a record has come further, or is shown in other words.
    pub fn progress(&mut self, id: &R::Id) {
        self.changes.progress(id);
    }

    /// Notifies clients that watch these records that all changes are stored.
    pub fn publish(&self) {
        self.changes.publish();
    }
}

/// For the two kinds of record that have numbers.
macro_rules! is_numbered {
    () => {
        type Key = u64;

        fn id(&self) -> &Self::Id {
            &self.id
        }
        fn has_id(&self, id: &Self::Id) -> bool {
            self.id.is_same(id)
        }
        fn key(&self) -> u64 {
            // The store takes no record without a number.
            self.id.number().unwrap_or_default()
        }
    };
}

impl Record for Job {
    type Id = JobId;
    type Kept = Kept;

    is_numbered!();

    fn requests(&self) -> Vec<RequestKey> {
        // Its creator has asked for it, or the client that has had its schedule run.
        let client = self.requester.as_ref().unwrap_or(&self.creator);
        let own = self.request_id.iter().map(|id| (client.clone(), id.clone()));
        let joined = self.joined.iter().map(|it| (it.client.clone(), it.request_id.clone()));
        joined.chain(own).collect()
    }
    fn sort(&self) -> Option<CountedKind> {
        let sort = if self.schedule.is_some() { CountedKind::Run } else { CountedKind::OpenJob };
        (!self.state.is_end()).then_some(sort)
    }
}

impl Record for Schedule {
    type Id = ScheduleId;
    type Kept = Arc<Self>;

    is_numbered!();

    fn requests(&self) -> Vec<RequestKey> {
        self.request_id.iter().map(|id| (self.creator.clone(), id.clone())).collect()
    }
    fn sort(&self) -> Option<CountedKind> {
        Some(CountedKind::Schedule)
    }
}

impl Record for Workload {
    type Id = WorkloadId;
    type Key = WorkloadId;
    type Kept = Arc<Self>;

    fn id(&self) -> &WorkloadId {
        &self.spec.id
    }
    fn has_id(&self, id: &WorkloadId) -> bool {
        self.spec.id == *id
    }
    fn key(&self) -> WorkloadId {
        self.spec.id.clone()
    }
    /// A request is recognized by what is registered under its name.
    fn requests(&self) -> Vec<RequestKey> {
        Vec::new()
    }
    fn sort(&self) -> Option<CountedKind> {
        Some(CountedKind::Workload)
    }
}
