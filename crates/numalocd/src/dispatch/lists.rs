//! Lists, a page at a time.

use super::{Listed, Refusal, Status, dispatcher::Dispatcher, page::page, workloads::is_named};
use crate::store::{EventHead, Kept};
use numaloc_api::{
    encoded::ListedJob,
    value::{
        Event, EventFilter, Job, JobFilter, JobState, ListEvents, ListJobs, ListSchedules, Page,
        QosClass, Schedule, ScheduleFilter, Target, Workload, WorkloadId, WorkloadSpec,
    },
};
use std::{collections::BTreeMap, ops::Bound, sync::Arc, time::SystemTime};

/// Events of about so many bytes are read for a watcher at once, which holds them until its client has taken them.
pub(super) const WATCHED_BYTES: usize = 1 << 20;

impl Dispatcher {
    pub(super) fn list_jobs(&self, request: &ListJobs) -> Result<Listed<ListedJob>, Refusal> {
        let filter = &request.filter;
        let workload = Named::by(self.book.workloads(), filter.workload.as_ref());
        page(&request.page, &("jobs", filter), |before| {
            let end = before.map_or(Some(u64::MAX), |before| before.parse().ok())?;
            let older = self.book.jobs().range(..end).rev();
            let fitting = older.filter(move |(_, kept)| {
                fits(&kept.job, filter) && workload.is_in(&kept.job.spec.target)
            });
            Some(fitting.map(|(number, kept)| (number.to_string(), self.listed(kept))))
        })
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
        let workload = Named::by(self.book.workloads(), filter.workload.as_ref());
        page(&request.page, &("schedules", filter), |before| {
            let end = before.map_or(Some(u64::MAX), |before| before.parse().ok())?;
            let older = self.book.schedules().range(..end).rev();
            let fitting = older.filter(move |(_, schedule)| {
                is_among(schedule, filter) && workload.is_in(&schedule.spec.migration.target)
            });
            Some(fitting.map(|(number, schedule)| (number.to_string(), schedule.clone())))
        })
    }

    pub(super) fn list_workloads(&self, request: &Page) -> Result<Listed<Arc<Workload>>, Refusal> {
        page(request, &"workloads", |after| {
            let begin = match after {
                None => Bound::Unbounded,
                Some(after) => Bound::Excluded(WorkloadId::new(after)?),
            };
            let rest = self.book.workloads().range((begin, Bound::Unbounded));
            Some(rest.map(|(id, workload)| (id.id().to_owned(), workload.clone())))
        })
    }

    pub(super) fn list_events(
        &mut self,
        request: &ListEvents,
    ) -> Result<Listed<Arc<Event>>, Refusal> {
        // The token is checked before the store is read.
        let list = ("events", &request.filter);
        let mut after = 0;
        page(&request.page, &list, |position| {
            after = position.map_or(Some(0), |position| position.parse().ok())?;
            Some(std::iter::empty::<(String, Arc<Event>)>())
        })?;
        // One more than is shown tells whether there is a next page.
        let (events, _) =
            self.events_after(&request.filter, after, request.page.size + 1, usize::MAX)?;
        page(&request.page, &list, |_| {
            Some(events.into_iter().map(|event| (event.number.to_string(), event)))
        })
    }

    /// Events after a number, `most` at most and no more once they have `most_bytes`, and up to which number was looked.
    pub(super) fn events_after(
        &mut self,
        filter: &EventFilter,
        after: u64,
        most: usize,
        most_bytes: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), Refusal> {
        // Only those that are shown are read from the store.
        let heads = self.book.events();
        let first = heads.partition_point(|head| head.number <= after);
        let mut wanted = heads.range(first..).filter(|head| is_wanted(head, filter)).peekable();
        let (mut numbers, mut bytes) = (Vec::new(), 0);
        while numbers.len() < most
            && bytes < most_bytes
            && let Some(head) = wanted.next()
        {
            bytes += head.bytes;
            numbers.push(head.number);
        }
        let seen = match numbers.last() {
            Some(&last) if wanted.peek().is_some() => last,
            _ => self.book.last().event.max(after),
        };
        let store = &mut self.edges.store;
        let events = super::dispatcher::blocking(|| store.events(&numbers))?;
        Ok((events.into_iter().map(Arc::new).collect(), seen))
    }

    /// Whether all events after a number are kept; 0 stands for those that are.
    pub(super) fn check_cursor(&self, after: u64) -> Result<(), Refusal> {
        let last = self.book.last().event;
        let oldest = self.book.events().front().map_or(last + 1, |head| head.number);
        match after == 0 || (after <= last && after + 1 >= oldest) {
            true => Ok(()),
            false => Err(Refusal::Cursor { after, oldest, last }),
        }
    }

    /// When the oldest queued job of each class was made.
    fn oldest(&self) -> BTreeMap<QosClass, SystemTime> {
        let mut oldest = BTreeMap::new();
        for job in self.book.jobs_in(JobState::Queued) {
            // They come by number, and so by age.
            oldest.entry(job.spec.policy.class()).or_insert(job.created);
        }
        oldest
    }

    pub(super) fn status(&self) -> Status {
        let counts = self.book.counts().iter().filter(|(_, count)| **count > 0);
        Status {
            started: self.started,
            jobs: counts.map(|(state, count)| (*state, *count)).collect(),
            schedules: self.book.schedules().len(),
            workloads: self.book.workloads().len(),
            moved_bytes: self.moved_bytes,
            store_id: self.edges.store.id(),
            holds: self.book.holds(),
            oldest: self.oldest(),
            fights: self.fights.values().filter(|fight| fight.is_on()).count(),
            problems: self.problem.iter().cloned().collect(),
        }
    }
}

/// The workload that a filter names, if it does.
#[derive(Clone, Copy, Debug)]
enum Named<'a> {
    /// It names none.
    Any,
    /// Nothing of that name is registered.
    None,
    /// This one.
    Only(&'a WorkloadSpec),
}

impl<'a> Named<'a> {
    fn by(known: &'a BTreeMap<WorkloadId, Arc<Workload>>, id: Option<&WorkloadId>) -> Self {
        match id.map(|id| known.get(id)) {
            None => Self::Any,
            Some(None) => Self::None,
            Some(Some(workload)) => Self::Only(&workload.spec),
        }
    }

    fn is_in(self, target: &Target) -> bool {
        match self {
            Self::Any => true,
            Self::None => false,
            Self::Only(spec) => is_named(target, spec),
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

fn fits(job: &Job, filter: &JobFilter) -> bool {
    (filter.states.is_empty() || filter.states.contains(&job.state))
        && filter.schedule.as_ref().is_none_or(|schedule| job.schedule.as_ref() == Some(schedule))
        && filter.creator.as_ref().is_none_or(|creator| job.creator == *creator)
        && filter.created_since.is_none_or(|since| job.created >= since)
        && has_all(&job.labels, &filter.labels)
}

fn is_wanted(event: &EventHead, filter: &EventFilter) -> bool {
    (filter.types.is_empty() || filter.types.contains(&event.kind))
        && filter.job.as_ref().is_none_or(|job| event.job.as_ref() == Some(job))
        && filter.schedule.as_ref().is_none_or(|schedule| event.schedule.as_ref() == Some(schedule))
        && filter.since.is_none_or(|since| event.time >= since)
}
