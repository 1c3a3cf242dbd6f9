//! Lists, one page at a time.

use super::{
    Begin, Listed, RecordChange, RecordChanges, RecordKind, Status,
    changes::{Changes, Told},
    dispatcher::Dispatcher,
    page::page,
    rest::AnyEvents,
    workloads::is_named,
};
use crate::{
    refusal::Refusal,
    store::{EventHead, Kept, Weight},
};
use numaloc_api::{
    encoded::ListedJob,
    value::{
        EventFilter, Job, JobFilter, JobId, JobState, ListEvents, ListJobs, ListSchedules,
        ListWorkloads, QosClass, Schedule, ScheduleFilter, ScheduleId, Target, Workload,
        WorkloadFilter, WorkloadId,
    },
};
use std::{collections::BTreeMap, hash::Hash, ops::Bound, sync::Arc, time::SystemTime};

/// About how many bytes of events or records are read for a watcher at once. The watcher holds them until its client has taken
/// them.
pub(super) const WATCHED_BYTES: usize = 1 << 20;

impl Dispatcher {
    pub(super) fn list_jobs(&self, request: &ListJobs) -> Result<Listed<ListedJob>, Refusal> {
        let filter = &request.filter;
        let workload = Named::by(self.records.workloads(), filter.workload.as_ref());
        let schedule = self.named(filter.schedule.as_ref());
        let schedule = schedule.as_ref();
        page(&request.page, &("jobs", filter), |before| {
            let end = before.map_or(Some(u64::MAX), |before| before.parse().ok())?;
            let older = self.records.jobs().range(..end).rev();
            let fitting = older.filter(move |(_, kept)| {
                fits(&kept.job, filter, schedule) && workload.is_in(&kept.job.spec.target)
            });
            Some(fitting.map(|(number, kept)| (number.to_string(), self.listed(kept))))
        })
    }

    /// The schedule that a filter names, with its number if it is there: the id may have been that of another one before.
    fn named(&self, id: Option<&ScheduleId>) -> Option<ScheduleId> {
        id.map(|id| self.records.schedule(id).map_or(id, |known| &known.id).clone())
    }

    fn listed(&self, kept: &Kept) -> ListedJob {
        let open = || ListedJob::from(&*self.with_progress(kept.job.clone()));
        kept.listed.clone().unwrap_or_else(open)
    }

    pub(super) fn list_schedules(
        &self,
        request: &ListSchedules,
    ) -> Result<Listed<Arc<Schedule>>, Refusal> {
        let filter = &request.filter;
        let workload = Named::by(self.records.workloads(), filter.workload.as_ref());
        page(&request.page, &("schedules", filter), |before| {
            let end = before.map_or(Some(u64::MAX), |before| before.parse().ok())?;
            let older = self.records.schedules().range(..end).rev();
            let fitting = older.filter(move |(_, schedule)| {
                is_among(schedule, filter) && workload.is_in(&schedule.spec.migration.target)
            });
            Some(fitting.map(|(number, schedule)| (number.to_string(), schedule.clone())))
        })
    }

    pub(super) fn list_workloads(
        &self,
        request: &ListWorkloads,
    ) -> Result<Listed<Arc<Workload>>, Refusal> {
        let filter = &request.filter;
        page(&request.page, &("workloads", filter), |after| {
            let prefix = filter.id_prefix.as_deref().unwrap_or_default();
            let begin = match after {
                Some(after) => Bound::Excluded(WorkloadId::new(after)?),
                None => WorkloadId::new(prefix).map_or(Bound::Unbounded, Bound::Included),
            };
            let rest = self.records.workloads().range((begin, Bound::Unbounded));
            let of_prefix = rest.take_while(move |(id, _)| id.id().starts_with(prefix));
            let selector = &filter.selector;
            let selected = (!selector.is_empty()).then(|| self.records.labels().select(selector));
            let fitting = of_prefix.filter(move |(id, workload)| {
                is_listed_if(workload, filter, || {
                    selected.as_ref().is_none_or(|selected| selected.has(id))
                })
            });
            Some(fitting.map(|(id, workload)| (id.id().to_owned(), self.with_lease(workload))))
        })
    }

    /// At most `most` changes of jobs after a number. A job that does not match the filter counts as removed.
    pub(super) fn jobs_after(
        &self,
        filter: &JobFilter,
        after: u64,
        most: usize,
    ) -> Result<RecordChanges<ListedJob, JobId>, Refusal> {
        let workload = Named::by(self.records.workloads(), filter.workload.as_ref());
        let schedule = self.named(filter.schedule.as_ref());
        changes_after(self.records.jobs().changes(), after, most, |id| {
            let Some(kept) = self.records.jobs().by_id(id) else { return Sight::Hidden };
            match fits(&kept.job, filter, schedule.as_ref())
                && workload.is_in(&kept.job.spec.target)
            {
                true => Sight::Shown(self.listed(kept)),
                false if never_fitted(&kept.job, filter) => Sight::Never,
                false => Sight::Hidden,
            }
        })
    }

    /// The same for schedules.
    pub(super) fn schedules_after(
        &self,
        filter: &ScheduleFilter,
        after: u64,
        most: usize,
    ) -> Result<RecordChanges<Arc<Schedule>, ScheduleId>, Refusal> {
        let workload = Named::by(self.records.workloads(), filter.workload.as_ref());
        changes_after(self.records.schedules().changes(), after, most, |id| {
            let Some(schedule) = self.records.schedule(id) else { return Sight::Hidden };
            let target = &schedule.spec.migration.target;
            match is_among(schedule, filter) && workload.is_in(target) {
                true => Sight::Shown(schedule.clone()),
                false if never_was_among(schedule, filter) => Sight::Never,
                false => Sight::Hidden,
            }
        })
    }

    /// The same for workloads.
    pub(super) fn workloads_after(
        &self,
        filter: &WorkloadFilter,
        after: u64,
        most: usize,
    ) -> Result<RecordChanges<Arc<Workload>, WorkloadId>, Refusal> {
        let prefix = filter.id_prefix.as_deref().unwrap_or_default();
        changes_after(self.records.workloads().changes(), after, most, |id| {
            match self.records.workloads().get(id) {
                _ if !id.id().starts_with(prefix) => Sight::Never,
                Some(known) if is_listed(known, filter) => Sight::Shown(self.with_lease(known)),
                _ => Sight::Hidden,
            }
        })
    }

    /// Begins a watch of the records of a kind: with all of them, or after the change of a token.
    pub(super) fn begin_watch(
        &self,
        of: RecordKind,
        token: Option<&str>,
    ) -> Result<Begin, Refusal> {
        match of {
            RecordKind::Job => self.records.jobs().changes().begin(token),
            RecordKind::Schedule => self.records.schedules().changes().begin(token),
            RecordKind::Workload => self.records.workloads().changes().begin(token),
        }
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

    /// Events after a number, and the number of the last event that was looked at. At most `most` events, and no more once
    /// they have `most_bytes`.
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
        match after == 0 || (after <= last && after + 1 >= oldest) {
            true => Ok(()),
            false => Err(Refusal::Cursor { after, oldest, last }),
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

    /// Number of the oldest event after which no event has been forgotten. If the last event has been forgotten, the next
    /// number.
    fn whole_from(&self) -> u64 {
        let (events, last) = (self.records.events(), self.records.last().event);
        // Whether all events from index `at` on are kept: as many as their numbers say. If so, that also holds for each
        // later index.
        let is_whole = |at: usize| last - events[at].number == (events.len() - 1 - at) as u64;
        let (mut low, mut high) = (0, events.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match is_whole(middle) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        events.get(low).map_or(last + 1, |head| head.number)
    }

    pub(super) fn status(&self) -> Status {
        let counts = self.records.counts().iter().filter(|(_, count)| **count > 0);
        Status {
            started: self.started,
            jobs: counts.map(|(state, count)| (*state, *count)).collect(),
            schedules: self.records.schedules().len(),
            workloads: self.records.workloads().len(),
            moved_bytes: self.moved_bytes,
            store_id: self.records.store_id(),
            holds: self.records.holds(),
            fights: self.agenda.fights(),
            problems: self.records.problem().into_iter().map(str::to_owned).collect(),
        }
    }
}

/// What a watch shows of a record.
#[derive(Debug)]
enum Sight<T> {
    /// It is among those that are watched.
    Shown(T),
    /// It is not, and may have been.
    Hidden,
    /// It never was.
    Never,
}

/// Changes after a number, `most` at most and no more once their records have [`WATCHED_BYTES`]. What is hidden has gone, for
/// who watches.
fn changes_after<K: Clone + Eq + Hash, T: Weight>(
    known: &Changes<K>,
    after: u64,
    most: usize,
    sight: impl Fn(&K) -> Sight<T>,
) -> Result<RecordChanges<T, K>, Refusal> {
    let mut rest = known.after(after).ok_or(Refusal::ResumeToken)?.peekable();
    let (mut changes, mut bytes, mut seen) = (Vec::new(), 0, after);
    while changes.len() < most
        && bytes < WATCHED_BYTES
        && let Some(Told { number, id, is_progress }) = rest.next()
    {
        seen = number;
        let change = match sight(id) {
            Sight::Shown(record) => {
                bytes += record.weight();
                RecordChange::Present(record)
            }
            Sight::Never => continue,
            // Its change has said so.
            Sight::Hidden if is_progress => continue,
            Sight::Hidden => RecordChange::Removed(id.clone()),
        };
        changes.push((number, change, known.token(number)));
    }
    if rest.peek().is_none() {
        seen = known.last();
    }
    Ok(RecordChanges { changes, seen, token: known.token(seen) })
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
    fn by(known: &'a BTreeMap<WorkloadId, Arc<Workload>>, id: Option<&WorkloadId>) -> Self {
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

fn is_among(schedule: &Schedule, filter: &ScheduleFilter) -> bool {
    (filter.states.is_empty() || filter.states.contains(&schedule.state))
        && filter.creator.as_ref().is_none_or(|creator| schedule.creator == *creator)
        && has_all(&schedule.spec.labels, &filter.labels)
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

/// Whether a job has never met a filter, by what of it does not change. Under an id that a client has chosen there may have been
/// another job, and a run whose schedule is removed becomes its owner's.
fn never_fitted(job: &Job, filter: &JobFilter) -> bool {
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

/// The same of a schedule: its creator does not change.
fn never_was_among(schedule: &Schedule, filter: &ScheduleFilter) -> bool {
    let is_only = schedule.id.number().map(ScheduleId::numbered).as_ref() == Some(&schedule.id);
    is_only && filter.creator.as_ref().is_some_and(|creator| schedule.creator != *creator)
}

fn is_listed(workload: &Workload, filter: &WorkloadFilter) -> bool {
    is_listed_if(workload, filter, || workload.spec.is_selected(&filter.selector))
}

/// The same, if `is_selected` says whether the filter's selector selects it.
fn is_listed_if(
    workload: &Workload,
    filter: &WorkloadFilter,
    is_selected: impl FnOnce() -> bool,
) -> bool {
    filter.creator.as_ref().is_none_or(|creator| workload.creator == *creator)
        && (filter.source.is_none() || workload.spec.source == filter.source)
        && is_selected()
}

fn is_wanted(event: &EventHead, filter: &EventFilter) -> bool {
    (filter.types.is_empty() || filter.types.contains(&event.kind))
        && filter.job.as_ref().is_none_or(|job| event.job.as_ref() == Some(job))
        && filter.schedule.as_ref().is_none_or(|schedule| event.schedule.as_ref() == Some(schedule))
        && filter.since.is_none_or(|since| event.time >= since)
        && filter.creator.as_ref().is_none_or(|creator| *event.creator == **creator)
}
