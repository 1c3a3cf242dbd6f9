//! The order in which records of a kind have changed, for clients that watch them; in memory only. Only the last change
//! of each record is kept, and its progress since. So memory is bounded by the number of records and by [`REMOVALS`]
//! removed ones. A watch reads what it has not sent yet, so nothing queues up for a slow client.

use crate::refusal::Refusal;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::Hash,
};
use tokio::sync::watch;

/// Number of removals that are remembered. A watcher that has missed an older one has to read all records again.
const REMOVALS: usize = 10_000;

/// The last change of each record, by numbers that rise.
#[derive(Debug)]
pub struct Changes<K> {
    /// Random id of this run of the daemon and this kind of record. Change numbers under another id mean other changes.
    run: u64,
    last: u64,
    changed: HashMap<K, u64>,
    /// Records that have come further since they changed.
    progressed: HashMap<K, u64>,
    order: BTreeMap<u64, (K, bool)>,
    removals: VecDeque<u64>,
    /// Number of the latest removal that has been forgotten.
    forgotten: u64,
    published: watch::Sender<u64>,
}

/// A change of a record that is reported.
#[derive(Debug)]
pub struct ReportedChange<'a, K> {
    /// The number of the change.
    pub number: u64,
    /// The id of the record that has changed.
    pub id: &'a K,
    /// Whether it has only come further, which takes it out of no filter.
    pub is_progress: bool,
}

/// The first part of a watch: records, or the changes after its token.
#[derive(Clone, Debug)]
pub struct Begin {
    /// The number of the last change that has been published. It is watched for as long as there is one of these.
    pub last: watch::Receiver<u64>,
    /// The change after which it continues; `None`: all records come first.
    pub after: Option<u64>,
}

/// The state of a record of which a watch shows `T`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange<T, K> {
    /// It exists: new, changed, or as it was before the watch.
    Present(T),
    /// It is not there, or not among the watched records.
    Removed(K),
    /// All records that were there before the watch have been sent.
    CaughtUp,
}

/// Changes of records that follow each other, as one answer has them.
#[derive(Clone, Debug)]
pub struct RecordChanges<T, K> {
    /// Each with its number and the resume token to continue after it.
    pub changes: Vec<(u64, RecordChange<T, K>, String)>,
    /// Number of the last change that was looked at.
    pub seen: u64,
    /// Resume token to continue after `seen`.
    pub token: String,
}

impl<K: Clone + Eq + Hash> Changes<K> {
    pub fn new(run: u64) -> Self {
        Self {
            run,
            last: 0,
            changed: HashMap::new(),
            progressed: HashMap::new(),
            order: BTreeMap::new(),
            removals: VecDeque::new(),
            forgotten: 0,
            published: watch::Sender::new(0),
        }
    }

    /// A record is new or has changed.
    pub fn put(&mut self, id: &K) {
        if let Some(before) = self.progressed.remove(id) {
            self.order.remove(&before);
        }
        self.last += 1;
        if let Some(before) = self.changed.insert(id.clone(), self.last) {
            self.order.remove(&before);
        }
        self.order.insert(self.last, (id.clone(), false));
    }

    /// An existing record has come further, or is shown in other words.
    pub fn progress(&mut self, id: &K) {
        self.last += 1;
        if let Some(before) = self.progressed.insert(id.clone(), self.last) {
            self.order.remove(&before);
        }
        self.order.insert(self.last, (id.clone(), true));
    }

    /// Notes that a record was removed.
    pub fn remove(&mut self, id: &K) {
        self.put(id);
        self.removals.push_back(self.last);
        let surplus = self.removals.len() > REMOVALS;
        let oldest = surplus.then(|| self.removals.pop_front()).flatten();
        // A record that was made again has a later number; then `order` has nothing under this one.
        if let Some(oldest) = oldest
            && let Some((id, _)) = self.order.remove(&oldest)
        {
            self.changed.remove(&id);
            self.forgotten = oldest;
        }
    }

    /// The number of the last change.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Changes with numbers above `after`. 0: all present records, and the removals that are remembered. `None`: some
    /// changes after it have been forgotten, or no change has the number `after`.
    pub fn after(&self, after: u64) -> Option<impl Iterator<Item = ReportedChange<'_, K>>> {
        let known = after == 0 || (self.forgotten..=self.last).contains(&after);
        known.then(|| {
            let rest = self.order.range(after + 1..);
            rest.map(|(&number, (id, is_progress))| ReportedChange {
                number,
                id,
                is_progress: *is_progress,
            })
        })
    }

    /// The resume token with which a client continues after this change.
    pub fn token(&self, number: u64) -> String {
        format!("{:016x}.{number}", self.run)
    }

    /// The number in a token of this run of the daemon; `None` for any other token.
    fn number(&self, token: &str) -> Option<u64> {
        let (run, number) = token.split_once('.')?;
        let number = number.parse().ok()?;
        (u64::from_str_radix(run, 16) == Ok(self.run)).then_some(number)
    }

    /// Begins a watch with all records, or after the change of a token.
    ///
    /// # Errors
    /// [`Refusal::ResumeToken`]: it is of another run or kind, or not all changes after it are known.
    pub fn begin(&self, token: Option<&str>) -> Result<Begin, Refusal> {
        let number = |token| {
            let number = self.number(token).filter(|&number| self.after(number).is_some());
            number.ok_or(Refusal::ResumeToken)
        };
        let after = token.map(number).transpose()?;
        Ok(Begin { last: self.published.subscribe(), after })
    }

    /// Notifies watchers that changes are stored.
    pub fn publish(&self) {
        self.published.send_replace(self.last);
    }

    /// Whether any watch is under way.
    pub fn is_watched(&self) -> bool {
        self.published.receiver_count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_api::value::WorkloadId;

    fn id(number: usize) -> WorkloadId {
        WorkloadId::new(&format!("w{number}")).expect("an id")
    }

    fn after(changes: &Changes<WorkloadId>, after: u64) -> Option<Vec<(u64, &str)>> {
        Some(changes.after(after)?.map(|told| (told.number, told.id.id())).collect())
    }

    #[test]
    fn of_each_record_the_last_change_is_told() {
        let mut changes = Changes::new(7);
        assert_eq!(after(&changes, 0), Some(Vec::new()));
        [0, 1, 0].into_iter().for_each(|number| changes.put(&id(number)));
        assert_eq!(after(&changes, 0), Some(vec![(2, "w1"), (3, "w0")]));
        changes.remove(&id(1));
        assert_eq!(after(&changes, 0), Some(vec![(3, "w0"), (4, "w1")]));
        assert_eq!(after(&changes, 3), Some(vec![(4, "w1")]));
        assert_eq!(after(&changes, 4), Some(Vec::new()));
        assert_eq!(after(&changes, 5), None, "there was no such change");
        changes.put(&id(1));
        assert_eq!(after(&changes, 3), Some(vec![(5, "w1")]));
    }

    #[test]
    fn what_has_gone_takes_no_more_room_than_it_may() {
        let mut changes = Changes::new(7);
        changes.put(&id(0));
        for number in 1..=REMOVALS + 2 {
            changes.put(&id(number));
            changes.remove(&id(number));
        }
        // Each was put and removed: 1 + 2 * n; the first two removals are forgotten.
        assert_eq!((changes.forgotten, changes.order.len()), (5, REMOVALS + 1));
        assert_eq!(changes.changed.len(), changes.order.len());
        assert!(after(&changes, 4).is_none() && after(&changes, 1).is_none());
        assert_eq!(after(&changes, 5).map(|told| told.len()), Some(REMOVALS));
        let resumed = |number| changes.begin(Some(&changes.token(number))).map(|begin| begin.after);
        assert_eq!((resumed(4), resumed(5)), (Err(Refusal::ResumeToken), Ok(Some(5))));
        // A watcher that begins again does not need the forgotten removals.
        assert_eq!(after(&changes, 0).map(|told| told[0]), Some((1, "w0")));
        // A workload that was registered again is not forgotten.
        changes.put(&id(3));
        changes.remove(&id(REMOVALS + 3));
        assert!(after(&changes, 0).expect("all is known").iter().any(|(_, id)| *id == "w3"));
    }

    #[test]
    fn progress_hides_no_change_and_takes_bounded_room() {
        let mut changes = Changes::new(7);
        changes.put(&id(0));
        changes.put(&id(1));
        (0..1000).for_each(|_| changes.progress(&id(0)));
        let told = |changes: &Changes<WorkloadId>| -> Vec<_> {
            let all = changes.after(0).expect("all is known");
            all.map(|told| (told.number, told.id.id().to_owned(), told.is_progress)).collect()
        };
        let entry = |number, id: &str, is_progress| (number, id.to_owned(), is_progress);
        // Watchers that have not seen its change are notified as well: it may have left a filter.
        let both = [entry(1, "w0", false), entry(2, "w1", false), entry(1002, "w0", true)];
        assert_eq!(told(&changes), both);
        // A change covers the progress before it.
        changes.put(&id(0));
        assert_eq!(told(&changes), [entry(2, "w1", false), entry(1003, "w0", false)]);
        changes.progress(&id(0));
        changes.remove(&id(0));
        assert_eq!(told(&changes), [entry(2, "w1", false), entry(1005, "w0", false)]);
        assert!(changes.progressed.is_empty());
    }

    #[test]
    fn tokens_are_of_their_run() {
        let mut changes = Changes::new(7);
        (0..12).for_each(|number| changes.put(&id(number)));
        let begin = |token: &str| changes.begin(Some(token)).map(|begin| begin.after);
        assert_eq!(begin(&changes.token(12)), Ok(Some(12)));
        assert_eq!(changes.begin(None).map(|begin| begin.after), Ok(None));
        let other = Changes::<WorkloadId>::new(8).token(12);
        for token in ["", "7", "7.", "7.x", "8.12", ".12", &changes.token(13), &other] {
            assert_eq!(begin(token), Err(Refusal::ResumeToken), "{token}");
        }
    }

    #[test]
    fn a_watch_lasts_as_long_as_its_receiver() {
        let mut changes = Changes::new(7);
        assert!(!changes.is_watched());
        let begin = changes.begin(None).expect("there is no token");
        changes.put(&id(0));
        assert!(changes.is_watched() && !begin.last.has_changed().expect("it is there"));
        changes.publish();
        assert!(begin.last.has_changed().expect("it is there"));
        drop(begin);
        assert!(!changes.is_watched());
    }
}
