//! Lists, one page at a time.

use super::{
    Begin, DaemonStatus, Listed, RecordChange, RecordChanges,
    book::Book,
    changes::ReportedChange,
    collection::{Collection, Record},
    dispatcher::Dispatcher,
    page::page,
    rest::AnyEvents,
    select::is_named,
};
use crate::{
    refusal::Refusal,
    store::{EventHead, Kept, Weight},
};
use numaloc_api::{
    encoded::ListedJob,
    value::{
        EventFilter, Job, JobFilter, JobId, JobState, ListEvents, ListOf, QosClass, Schedule,
        ScheduleFilter, ScheduleId, Target, Workload, WorkloadFilter, WorkloadId,
    },
};
use std::{
    collections::BTreeMap,
    fmt::{Debug, Display},
    ops::Bound,
    sync::Arc,
    time::SystemTime,
};

/// About how many bytes of events or records are read for a watcher at once. The watcher holds them until its client
/// has taken them.
pub(super) const WATCHED_BYTES: usize = 1 << 20;

/// Records in the order of a list.
type Rest<'a, R> = Box<dyn Iterator<Item = &'a <R as Record>::Kept> + 'a>;

/// A kind of record as clients list and watch it. A record's position in a list is its key.
pub trait Listable: Record<Key: Display> {
    /// Selects the records that a client asks for.
    type Filter: Debug + Send + 'static;
    /// A record as a client gets it.
    type Shown: Weight + Send + 'static;
    /// The name of the list, for page tokens.
    const LIST: &str;

    /// The records of the book.
    fn collection(book: &Book) -> &Collection<Self>;

    /// The records that may match the filter, in the order of the list, after this position; `None`: the list has no
    /// such position.
    fn after<'a>(
        book: &'a Book,
        filter: &'a Self::Filter,
        position: Option<&str>,
    ) -> Option<Rest<'a, Self>>;

    /// Whether a record matches the filter.
    fn matches<'a>(book: &'a Book, filter: &'a Self::Filter) -> Box<dyn Fn(&Self) -> bool + 'a>;

    /// Whether a record that does not match the filter, or is gone (`None`), has never matched it, by what does not
    /// change.
    fn never_matched(id: &Self::Id, known: Option<&Self>, filter: &Self::Filter) -> bool;

    /// The record as clients get it.
    fn shown(dispatcher: &Dispatcher, kept: &Self::Kept) -> Self::Shown;
}

impl Listable for Job {
    type Filter = JobFilter;
    type Shown = ListedJob;
    const LIST: &str = "jobs";

    fn collection(book: &Book) -> &Collection<Self> {
        book.jobs()
    }

    fn after<'a>(
        book: &'a Book,
        _: &'a JobFilter,
        position: Option<&str>,
    ) -> Option<Rest<'a, Self>> {
        older(book.jobs(), position)
    }

    fn matches<'a>(book: &'a Book, filter: &'a JobFilter) -> Box<dyn Fn(&Self) -> bool + 'a> {
        let workload = Named::by(book.workloads(), filter.workload.as_ref());
        // With its number if it exists: the id may have been that of another one before.
        let number = |id| book.schedule(id).map_or(id, |known| &known.id);
        let schedule = filter.schedule.as_ref().map(number);
        Box::new(move |job| fits(job, filter, schedule) && workload.is_in(&job.spec.target))
    }

    /// Under an id that a client has chosen there may have been another job, and a run whose schedule is removed
    /// becomes its owner's.
    fn never_matched(_: &JobId, known: Option<&Self>, filter: &JobFilter) -> bool {
        let Some(job) = known else { return false };
        let is_only = job.id.number().map(JobId::numbered).as_ref() == Some(&job.id);
        let is_others = |creator: &String| job.creator != *creator && creator != "schedule";
        let is_of_other =
            |of: &ScheduleId| job.schedule.as_ref().is_some_and(|schedule| schedule != of);
        is_only
            && (filter.creator.as_ref().is_some_and(is_others)
                || filter.schedule.as_ref().is_some_and(is_of_other)
                || filter.created_since.is_some_and(|since| job.created < since)
                || !has_all(&job.labels, &filter.labels))
    }

    fn shown(dispatcher: &Dispatcher, kept: &Kept) -> ListedJob {
        let open = || ListedJob::from(&*dispatcher.with_progress(kept.job.clone()));
        kept.listed.clone().unwrap_or_else(open)
    }
}

impl Listable for Schedule {
    type Filter = ScheduleFilter;
    type Shown = Arc<Self>;
    const LIST: &str = "schedules";

    fn collection(book: &Book) -> &Collection<Self> {
        book.schedules()
    }

    fn after<'a>(
        book: &'a Book,
        _: &'a ScheduleFilter,
        position: Option<&str>,
    ) -> Option<Rest<'a, Self>> {
        older(book.schedules(), position)
    }

    fn matches<'a>(book: &'a Book, filter: &'a ScheduleFilter) -> Box<dyn Fn(&Self) -> bool + 'a> {
        let workload = Named::by(book.workloads(), filter.workload.as_ref());
        Box::new(move |schedule| {
            (filter.states.is_empty() || filter.states.contains(&schedule.state))
                && filter.creator.as_ref().is_none_or(|creator| schedule.creator == *creator)
                && has_all(&schedule.spec.labels, &filter.labels)
                && workload.is_in(&schedule.spec.migration.target)
        })
    }

    /// A schedule's creator does not change, but under an id that a client has chosen there may have been another
    /// schedule.
    fn never_matched(_: &ScheduleId, known: Option<&Self>, filter: &ScheduleFilter) -> bool {
        let Some(schedule) = known else { return false };
        let numbered = schedule.id.number().map(ScheduleId::numbered);
        let is_only = numbered.as_ref() == Some(&schedule.id);
        is_only && filter.creator.as_ref().is_some_and(|creator| schedule.creator != *creator)
    }

    fn shown(_: &Dispatcher, kept: &Arc<Self>) -> Arc<Self> {
        kept.clone()
    }
}

impl Listable for Workload {
    type Filter = WorkloadFilter;
    type Shown = Arc<Self>;
    const LIST: &str = "workloads";

    fn collection(book: &Book) -> &Collection<Self> {
        book.workloads()
    }

    fn after<'a>(
        book: &'a Book,
        filter: &'a WorkloadFilter,
        position: Option<&str>,
    ) -> Option<Rest<'a, Self>> {
        let prefix = filter.id_prefix.as_deref().unwrap_or_default();
        let begin = match position {
            Some(after) => Bound::Excluded(WorkloadId::from_name(after)?),
            None => WorkloadId::new(prefix).map_or(Bound::Unbounded, Bound::Included),
        };
        let rest = book.workloads().range((begin, Bound::Unbounded));
        let of_prefix = rest.take_while(move |(id, _)| id.id().starts_with(prefix));
        // A list goes through all workloads, so the index selects them first.
        let selector = &filter.selector;
        let selected = (!selector.is_empty()).then(|| book.labels().select(selector));
        let is_selected = move |id| selected.as_ref().is_none_or(|selected| selected.has(id));
        Some(Box::new(of_prefix.filter(move |(id, _)| is_selected(id)).map(|(_, known)| known)))
    }

    fn matches<'a>(_: &'a Book, filter: &'a WorkloadFilter) -> Box<dyn Fn(&Self) -> bool + 'a> {
        Box::new(move |workload| {
            let spec = &workload.spec;
            filter.creator.as_ref().is_none_or(|creator| workload.creator == *creator)
                && (filter.source.is_none() || spec.source == filter.source)
                && filter.id_prefix.as_ref().is_none_or(|prefix| spec.id.id().starts_with(prefix))
                && spec.is_selected(&filter.selector)
        })
    }

    fn never_matched(id: &WorkloadId, _: Option<&Self>, filter: &WorkloadFilter) -> bool {
        filter.id_prefix.as_ref().is_some_and(|prefix| !id.id().starts_with(prefix))
    }

    fn shown(dispatcher: &Dispatcher, kept: &Arc<Self>) -> Arc<Self> {
        dispatcher.with_lease(kept)
    }
}

/// Records with numbers, the newest first, that are older than the one at this position.
fn older<'a, R: Record<Key = u64>>(
    all: &'a Collection<R>,
    position: Option<&str>,
) -> Option<Rest<'a, R>> {
    let end = position.map_or(Some(u64::MAX), |position| position.parse().ok())?;
    Some(Box::new(all.range(..end).rev().map(|(_, kept)| kept)))
}

impl Dispatcher {
    pub(super) fn list<R: Listable>(
        &self,
        request: &ListOf<R::Filter>,
    ) -> Result<Listed<R::Shown>, Refusal> {
        let ListOf { filter, page } = request;
        let matches = R::matches(&self.records, filter);
        self::page(page, &(R::LIST, filter), |position| {
            let rest = R::after(&self.records, filter, position)?;
            let matching = rest.filter(move |kept| matches((*kept).as_ref()));
            Some(matching.map(|kept| (kept.as_ref().key().to_string(), R::shown(self, kept))))
        })
    }

    /// Changes after a number, `most` at most and no more once their records have [`WATCHED_BYTES`]. A record that does
    /// not match the filter counts as removed.
    pub(super) fn changes_after<R: Listable>(
        &self,
        filter: &R::Filter,
        after: u64,
        most: usize,
    ) -> Result<RecordChanges<R::Shown, R::Id>, Refusal> {
        let all = R::collection(&self.records);
        let known = all.changes();
        let matches = R::matches(&self.records, filter);
        let mut rest = known.after(after).ok_or(Refusal::ResumeToken)?.peekable();
        let (mut changes, mut bytes, mut seen) = (Vec::new(), 0, after);
        while changes.len() < most
            && bytes < WATCHED_BYTES
            && let Some(ReportedChange { number, id, is_progress }) = rest.next()
        {
            seen = number;
            let kept = all.by_id(id);
            let change = match kept.filter(|kept| matches((*kept).as_ref())) {
                Some(kept) => {
                    let shown = R::shown(self, kept);
                    bytes += shown.weight();
                    RecordChange::Present(shown)
                }
                // If it matched before, its change has reported its removal.
                None if is_progress => continue,
                None if R::never_matched(id, kept.map(AsRef::as_ref), filter) => continue,
                None => RecordChange::Removed(id.clone()),
            };
            changes.push((number, change, known.token(number)));
        }
        if rest.peek().is_none() {
            seen = known.last();
        }
        Ok(RecordChanges { changes, seen, token: known.token(seen) })
    }

    /// Begins a watch of the records of a kind: with all of them, or after the change of a token.
    pub(super) fn begin_watch<R: Listable>(&self, token: Option<&str>) -> Result<Begin, Refusal> {
        R::collection(&self.records).changes().begin(token)
    }

    pub(super) fn list_events(
        &mut self,
        request: &ListEvents,
    ) -> Result<(AnyEvents, Option<String>), Refusal> {
        // The events' parts in memory say where the page ends, so only its events are read from the store.
        let listed = page(&request.page, &("events", &request.filter), |after| {
            let after = after.map_or(Some(0), |after| after.parse().ok())?;
            let wanted = self.wanted(&request.filter, after);
            Some(wanted.map(|head| (head.number.to_string(), head)))
        })?;
        let numbers: Vec<u64> = listed.entries.iter().map(|head| head.number).collect();
        let next = listed.next;
        Ok((self.any_events(&numbers)?, next))
    }

    /// The parts in memory of those events after a number that match the filter.
    fn wanted<'a>(
        &'a self,
        filter: &'a EventFilter,
        after: u64,
    ) -> impl Iterator<Item = &'a EventHead> {
        let heads = self.records.events();
        let first = heads.partition_point(|head| head.number <= after);
        heads.range(first..).filter(move |head| is_wanted(head, filter))
    }

    fn any_events(&mut self, numbers: &[u64]) -> Result<AnyEvents, Refusal> {
        let recent = |&number: &u64| self.records.recent_event(number).cloned().ok_or(number);
        let events: Vec<_> = numbers.iter().map(recent).collect();
        let has_all = events.iter().all(Result::is_ok);
        let reader = if has_all { None } else { Some(self.records.reader()?) };
        Ok(AnyEvents { events, reader })
    }

    /// Events after a number, and the number of the last event that was looked at. At most `most` events, and no more
    /// once they have `most_bytes`.
    pub(super) fn events_after(
        &mut self,
        filter: &EventFilter,
        after: u64,
        most: usize,
        most_bytes: usize,
    ) -> Result<(AnyEvents, u64), Refusal> {
        // Only events to be shown are read from the store.
        let mut wanted = self.wanted(filter, after).peekable();
        let (mut numbers, mut bytes) = (Vec::new(), 0);
        while numbers.len() < most
            && bytes < most_bytes
            && let Some(head) = wanted.next()
        {
            bytes += head.bytes;
            numbers.push(head.number);
        }
        let is_all = wanted.peek().is_none();
        drop(wanted);
        let seen = match numbers.last() {
            Some(&last) if !is_all => last,
            _ => self.records.last().event.max(after),
        };
        Ok((self.any_events(&numbers)?, seen))
    }

    /// Whether all events after a number are kept. 0 is always allowed: it means those events that are kept.
    pub(super) fn check_cursor(&self, after: u64) -> Result<(), Refusal> {
        let (last, oldest) = (self.records.last().event, self.whole_from());
        if after == 0 || (after <= last && after + 1 >= oldest) {
            Ok(())
        } else {
            Err(Refusal::Cursor { after, oldest, last })
        }
    }

    /// Creation time of the oldest queued job of each class.
    pub(super) fn oldest(&self) -> BTreeMap<QosClass, SystemTime> {
        let mut oldest = BTreeMap::new();
        for job in self.records.jobs_in(JobState::Queued) {
            // Jobs come by number, so the oldest comes first.
            oldest.entry(job.spec.policy.class()).or_insert(job.created);
        }
        oldest
    }

    /// Number of the oldest event after which no event has been forgotten. If the last event has been forgotten, the
    /// next number.
    fn whole_from(&self) -> u64 {
        let (events, last) = (self.records.events(), self.records.last().event);
        // Whether all events from index `at` on are kept: their numbers have no gap. If so, that also holds for each
        // later index.
        let is_whole = |at: usize| last - events[at].number == (events.len() - 1 - at) as u64;
        let (mut low, mut high) = (0, events.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if is_whole(middle) { high = middle } else { low = middle + 1 }
        }
        events.get(low).map_or(last + 1, |head| head.number)
    }

    pub(super) fn status(&self) -> DaemonStatus {
        let counts = self.records.counts().iter().filter(|(_, count)| **count > 0);
        DaemonStatus {
            started: self.started,
            jobs: counts.map(|(state, count)| (*state, *count)).collect(),
            schedules: self.records.schedules().len(),
            workloads: self.records.workloads().len(),
            moved_bytes: self.moved_bytes,
            store_id: self.records.store_id(),
            holds: self.records.holds(),
            contests: self.agenda.contests(),
            problems: self.problems(),
        }
    }

    /// Problems of the store and of grants, for people.
    fn problems(&self) -> Vec<String> {
        let config = self.config();
        let missing = config.missing_accounts.iter().map(|missing| {
            format!("a grant has no effect: {missing}; create the account, or remove the grant")
        });
        self.records.problem().map(str::to_owned).into_iter().chain(missing).collect()
    }
}

/// The workload that a filter names, if it does.
#[derive(Clone, Copy, Debug)]
enum Named<'a> {
    /// The filter names no workload.
    Any,
    /// No workload with this name is registered.
    None,
    /// The workload with this name.
    Only(&'a Workload),
}

impl<'a> Named<'a> {
    fn by(known: &'a Collection<Workload>, id: Option<&WorkloadId>) -> Self {
        match id.map(|id| known.get(id)) {
            None => Self::Any,
            Some(None) => Self::None,
            Some(Some(workload)) => Self::Only(workload),
        }
    }

    fn is_in(self, target: &Target) -> bool {
        match self {
            Self::Any => true,
            Self::None => false,
            Self::Only(workload) => is_named(target, workload),
        }
    }
}

fn has_all(labels: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Whether a job meets a filter, which names `schedule`.
fn fits(job: &Job, filter: &JobFilter, schedule: Option<&ScheduleId>) -> bool {
    let is_of =
        |schedule: &ScheduleId| job.schedule.as_ref().is_some_and(|of| of.is_same(schedule));
    (filter.states.is_empty() || filter.states.contains(&job.state))
        && schedule.is_none_or(is_of)
        && filter.creator.as_ref().is_none_or(|creator| job.creator == *creator)
        && filter.created_since.is_none_or(|since| job.created >= since)
        && has_all(&job.labels, &filter.labels)
}

fn is_wanted(event: &EventHead, filter: &EventFilter) -> bool {
    (filter.types.is_empty() || filter.types.contains(&event.kind))
        && filter.job.as_ref().is_none_or(|job| event.job.as_ref() == Some(job))
        && filter.schedule.as_ref().is_none_or(|schedule| event.schedule.as_ref() == Some(schedule))
        && filter.since.is_none_or(|since| event.time >= since)
        && filter.creator.as_ref().is_none_or(|creator| *event.creator == **creator)
        && event.labels.has_all(&filter.labels)
}
