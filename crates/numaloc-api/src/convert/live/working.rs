//! The jobs that work on processes of a live view.

use super::super::names::{int, int32};
use crate::{
    v1,
    value::{JobId, JobProgress, JobState},
};
use numaloc_core::{Identity, live::Snapshot};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// Most jobs of a view.
const MOST_JOBS: usize = 512;
/// Most jobs that a row names.
const MOST_OF_ROW: usize = 8;
/// Most bytes of the message of a job: with [`MOST_JOBS`] of them less than an answer has room for.
const MOST_MESSAGE: usize = 256;
/// Upper bound of the size that jobs add to a row, in bytes.
pub(super) const ROW_BYTES: usize = 32;

/// A job that works on processes, waits to, or has ended lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkingJob {
    /// Id of the job; `None` for work of the process that looks, which has no records.
    pub id: Option<JobId>,
    /// The state that it is in.
    pub state: JobState,
    /// Why it is in this state, as text for people.
    pub state_message: String,
    /// Progress of the job; `None` before it has moved, and if it has ended.
    pub progress: Option<JobProgress>,
    /// Bytes that it has moved in all of its runs.
    pub moved_bytes: u64,
    /// Its processes, as far as they are known.
    pub processes: Arc<BTreeSet<Identity>>,
}

/// Bytes that jobs which have ended have moved, for each process that one of them worked on: those of all processes of the job.
#[must_use]
pub fn moved_of(jobs: &[WorkingJob]) -> BTreeMap<Identity, u64> {
    let mut moved = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.state.is_end() && job.moved_bytes > 0) {
        for process in job.processes.iter() {
            *moved.entry(*process).or_default() += job.moved_bytes;
        }
    }
    moved
}

/// The work of jobs on one row.
#[derive(Clone, Debug, Default)]
struct OnRow {
    /// By their indexes, in ascending order.
    jobs: Vec<usize>,
    moved_bytes: u64,
}

/// The work of jobs on the processes and cgroups of a host.
#[derive(Debug)]
pub(super) struct Work<'a> {
    jobs: Vec<&'a WorkingJob>,
    processes: HashMap<Identity, OnRow>,
    groups: HashMap<&'a str, OnRow>,
}

impl OnRow {
    /// Adds a job that works on the row; `index` is its index if it is open.
    fn add(&mut self, index: Option<usize>, job: &WorkingJob) {
        self.moved_bytes += job.moved_bytes;
        self.jobs.extend(index.filter(|_| self.jobs.len() < MOST_OF_ROW));
    }

    fn told(&self) -> (Vec<i32>, i64) {
        (self.jobs.iter().copied().map(int32).collect(), int(self.moved_bytes))
    }
}

impl<'a> Work<'a> {
    /// The work of these jobs on the processes of a snapshot.
    pub fn of(snapshot: &'a Snapshot, jobs: &'a [WorkingJob]) -> Self {
        let cgroups: HashMap<Identity, Option<&str>> = match jobs {
            [] => HashMap::new(),
            _ => {
                let all = snapshot.processes.iter();
                all.map(|process| (process.identity, process.cgroup.as_deref())).collect()
            }
        };
        let mut work = Self { jobs: Vec::new(), processes: HashMap::new(), groups: HashMap::new() };
        for job in jobs {
            let here = job.processes.iter().filter_map(|it| Some((*it, *cgroups.get(it)?)));
            let on: BTreeMap<Identity, Option<&str>> = here.collect();
            let is_shown = !job.state.is_end() && !on.is_empty() && work.jobs.len() < MOST_JOBS;
            let index = is_shown.then_some(work.jobs.len());
            work.jobs.extend(is_shown.then_some(job));
            let groups: BTreeSet<&str> = on.values().copied().flatten().collect();
            for process in on.into_keys() {
                work.processes.entry(process).or_default().add(index, job);
            }
            for group in groups {
                work.groups.entry(group).or_default().add(index, job);
            }
        }
        work
    }

    /// The indexes of the jobs on a process, and the bytes that these and the ended ones have moved.
    pub fn on_process(&self, process: Identity) -> (Vec<i32>, i64) {
        self.processes.get(&process).map(OnRow::told).unwrap_or_default()
    }

    /// The same of the processes directly in a cgroup.
    pub fn on_group(&self, path: &str) -> (Vec<i32>, i64) {
        self.groups.get(path).map(OnRow::told).unwrap_or_default()
    }

    /// The jobs that rows name by their indexes.
    pub fn jobs(&self) -> Vec<v1::LiveJob> {
        self.jobs.iter().copied().map(job).collect()
    }
}

fn job(job: &WorkingJob) -> v1::LiveJob {
    let progress = job.progress.clone().map(|mut progress| {
        progress.held_back = cut(&progress.held_back);
        progress.into()
    });
    v1::LiveJob {
        job: job.id.as_ref().map_or_else(String::new, ToString::to_string),
        state: v1::JobState::from(job.state).into(),
        state_message: cut(&job.state_message),
        progress,
    }
}

/// As much of a text as there is room for.
fn cut(text: &str) -> String {
    let ends = (0..=MOST_MESSAGE.min(text.len())).rev();
    let end = ends.into_iter().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SnapshotView;
    use numaloc_core::live::{ProcessNow, Seen};
    use prost::Message;
    use std::time::{Duration, SystemTime};

    fn process(pid: i32, cgroup: Option<&str>) -> ProcessNow {
        ProcessNow {
            identity: Identity { pid, start_time: 7 },
            comm: "app".to_owned(),
            cgroup: cgroup.map(str::to_owned),
            home: Default::default(),
            near: Default::default(),
            resident_bytes: 4096,
            cpu_percent: None,
            threads: 1,
            seen: Seen::Never,
        }
    }

    fn job(number: u64, state: JobState, moved_bytes: u64, pids: &[i32]) -> WorkingJob {
        let progress = (state == JobState::Running).then(|| JobProgress {
            planned_bytes: 100,
            moved_bytes,
            settled_bytes: 50,
            held_back: "node 0 is busy".to_owned(),
            measured: SystemTime::UNIX_EPOCH,
        });
        let identities = pids.iter().map(|&pid| Identity { pid, start_time: 7 });
        WorkingJob {
            id: Some(JobId::numbered(number)),
            state,
            state_message: "é".repeat(200),
            progress,
            moved_bytes,
            processes: Arc::new(identities.collect()),
        }
    }

    fn view(processes: Vec<ProcessNow>, jobs: &[WorkingJob]) -> v1::LiveView {
        let snapshot = Snapshot { processes, ..Snapshot::default() };
        let (up, time, flows) = (Duration::from_secs(9), SystemTime::UNIX_EPOCH, &BTreeMap::new());
        let (detail, is_bounded) = (None, true);
        SnapshotView { snapshot: &snapshot, jobs, detail, up, time, flows, is_bounded }.into()
    }

    #[test]
    fn rows_name_the_jobs_on_their_processes_whatever_the_targets_name() {
        let processes = vec![
            process(1, Some("/a")),
            process(2, Some("/a")),
            process(3, None),
            process(4, Some("/b")),
        ];
        let jobs = [
            job(7, JobState::Running, 40, &[1, 2, 99]),
            job(8, JobState::Queued, 0, &[99]),
            job(9, JobState::Queued, 3, &[2, 3]),
            job(6, JobState::Succeeded, 1000, &[2]),
        ];
        let view = view(processes, &jobs);
        let names: Vec<_> = view.jobs.iter().map(|job| (job.job.as_str(), job.state())).collect();
        let expected = [("jobs/7", v1::JobState::Running), ("jobs/9", v1::JobState::Queued)];
        assert_eq!(names, expected, "no job works on 99, which does not exist, and 6 has ended");
        assert_eq!(view.jobs[0].state_message.len(), 256);
        assert_eq!(view.jobs[0].progress.as_ref().unwrap().held_back, "node 0 is busy");
        let rows: Vec<_> =
            view.processes.iter().map(|row| (row.job_indexes.clone(), row.moved_bytes)).collect();
        assert_eq!(rows, [(vec![0], 40), (vec![0, 1], 1043), (vec![1], 3), (vec![], 0)]);
        let groups: Vec<_> =
            view.groups.iter().map(|row| (row.job_indexes.clone(), row.moved_bytes)).collect();
        assert_eq!(groups, [(vec![0, 1], 1043), (vec![], 0)], "each job once");
    }

    #[test]
    fn ended_jobs_have_moved_memory_of_their_processes() {
        let jobs = [
            job(5, JobState::Running, 40, &[1]),
            job(6, JobState::Succeeded, 1000, &[1, 2]),
            job(7, JobState::Failed, 20, &[2]),
            job(8, JobState::Succeeded, 0, &[3]),
        ];
        let moved = moved_of(&jobs).into_iter().map(|(process, bytes)| (process.pid, bytes));
        assert_eq!(moved.collect::<Vec<_>>(), [(1, 1000), (2, 1020)]);
    }

    #[test]
    fn a_later_process_with_the_same_pid_has_no_job() {
        let mut later = process(1, None);
        later.identity.start_time = 8;
        let view = view(vec![later], &[job(7, JobState::Running, 40, &[1])]);
        assert_eq!((view.jobs.len(), view.processes[0].moved_bytes), (0, 0));
    }

    #[test]
    fn many_jobs_have_bounds() {
        let processes = (1..=40_000).map(|pid| process(pid, None)).collect();
        let pids: Vec<i32> = (1..=200).collect();
        let jobs: Vec<_> =
            (1..=2000).map(|number| job(number, JobState::Queued, 1, &pids)).collect();
        let view = view(processes, &jobs);
        assert_eq!((view.jobs.len(), view.processes[0].job_indexes.len()), (512, 8));
        assert_eq!(view.processes[0].moved_bytes, 2000);
        assert!(view.encoded_len() < 4 << 20, "{}", view.encoded_len());
    }
}
