//! Migrations that this process carries out itself, for its views.

use numaloc_api::{
    WorkingJob,
    value::{JobProgress, JobState},
};
use numaloc_core::{Flows, Identity};
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

/// Ended migrations that are remembered.
const REMEMBERED: usize = 100;

/// The migrations of this process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct OwnWork(Arc<Mutex<Runs>>);

#[derive(Debug, Default)]
struct Runs {
    /// The number of the next one.
    next: u64,
    /// By their numbers, in ascending order.
    runs: VecDeque<(u64, WorkingJob)>,
    flows: Flows,
}

/// A migration that is under way. It ends when this value is dropped.
#[derive(Debug)]
pub struct OwnRun {
    work: OwnWork,
    number: u64,
}

impl OwnWork {
    /// A migration of these processes begins.
    pub fn begin(&self, processes: Arc<BTreeSet<Identity>>) -> OwnRun {
        let mut runs = self.0.lock();
        let number = runs.next;
        runs.next += 1;
        let job = WorkingJob {
            id: None,
            state: JobState::Running,
            state_message: String::new(),
            progress: None,
            moved_bytes: 0,
            processes,
        };
        runs.runs.push_back((number, job));
        if runs.runs.len() > REMEMBERED {
            runs.runs.pop_front();
        }
        OwnRun { work: self.clone(), number }
    }

    /// The migrations, those under way first, and the bytes that ended ones have moved by nodes.
    pub fn now(&self) -> (Vec<WorkingJob>, Flows) {
        let runs = self.0.lock();
        let mut jobs: Vec<_> = runs.runs.iter().map(|(_, job)| job.clone()).collect();
        jobs.sort_by_key(|job| job.state.is_end());
        (jobs, runs.flows.clone())
    }
}

impl OwnRun {
    /// Notes how far it is.
    pub fn reach(&self, progress: JobProgress) {
        self.change(|job| {
            job.moved_bytes = progress.moved_bytes;
            job.progress = Some(progress);
        });
    }

    /// Notes what it has moved in the end.
    pub fn moved(&self, moved_bytes: u64, flows: &Flows) {
        self.change(|job| job.moved_bytes = moved_bytes);
        let all = &mut self.work.0.lock().flows;
        flows.iter().for_each(|(nodes, bytes)| *all.entry(*nodes).or_default() += bytes);
    }

    fn change(&self, change: impl FnOnce(&mut WorkingJob)) {
        let mut runs = self.work.0.lock();
        // It may have made room for later ones.
        let own = runs.runs.iter_mut().find(|(number, _)| *number == self.number);
        if let Some((_, job)) = own {
            change(job);
        }
    }
}

impl Drop for OwnRun {
    fn drop(&mut self) {
        self.change(|job| (job.state, job.progress) = (JobState::Succeeded, None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::NodeId;
    use std::time::SystemTime;

    fn processes(pid: i32) -> Arc<BTreeSet<Identity>> {
        Arc::new([Identity { pid, start_time: 1 }].into())
    }

    #[test]
    fn what_is_under_way_comes_first_and_what_has_moved_stays() {
        let work = OwnWork::default();
        let first = work.begin(processes(1));
        let flows: Flows = [((NodeId(1), NodeId(0)), 4096)].into();
        first.moved(4096, &flows);
        first.moved(4096, &flows);
        drop(first);
        let second = work.begin(processes(2));
        second.reach(JobProgress {
            planned_bytes: 10,
            moved_bytes: 5,
            settled_bytes: 5,
            held_back: "node 0 is busy".to_owned(),
            measured: SystemTime::UNIX_EPOCH,
        });
        let (jobs, flows) = work.now();
        let shown: Vec<_> =
            jobs.iter().map(|job| (job.state, job.moved_bytes, job.progress.is_some())).collect();
        let expected = [(JobState::Running, 5, true), (JobState::Succeeded, 4096, false)];
        assert_eq!(shown, expected);
        assert_eq!(flows, [((NodeId(1), NodeId(0)), 8192)].into());
    }

    #[test]
    fn the_latest_are_remembered() {
        let work = OwnWork::default();
        let open = work.begin(processes(0));
        for pid in 1..=REMEMBERED as i32 {
            drop(work.begin(processes(pid)));
        }
        // It is not remembered any more.
        open.moved(4096, &Flows::new());
        assert_eq!(work.now().0.len(), REMEMBERED);
        assert!(work.now().0.iter().all(|job| job.moved_bytes == 0));
    }
}
