//! How much room records take: in an answer, in memory and on the disk. What clients make long is counted, the rest is taken to
//! be a kilobyte.

use numaloc_api::{
    encoded::ListedJob,
    value::{Event, Job, Missing, Schedule, Target, Workload},
};
use std::sync::Arc;

/// What takes room.
pub trait Weight {
    /// About how many bytes.
    fn weight(&self) -> usize;
}

/// Everything but the target.
const REST: usize = 1024;

fn weight(target: &Target) -> usize {
    let names = [&target.cgroups, &target.units, &target.container_ids, &target.pod_uids];
    let names = names.into_iter().flatten().map(|name| name.len() + 4);
    let labels = target.labels.iter().map(|(key, value)| key.len() + value.len() + 8);
    let processes = target.processes.iter().map(|process| process.boot_id.len() + 24);
    REST + names.chain(labels).chain(processes).sum::<usize>() + 6 * target.pids.len()
}

/// Members of a target that were not there, by what they take in memory.
fn missing(missing: &[Missing]) -> usize {
    let each = |missing: &Missing| size_of::<Missing>() + missing.reason.len();
    missing.iter().map(each).sum()
}

impl Weight for ListedJob {
    fn weight(&self) -> usize {
        self.as_ref().len()
    }
}
impl<T: Weight> Weight for Arc<T> {
    fn weight(&self) -> usize {
        (**self).weight()
    }
}
impl Weight for Job {
    fn weight(&self) -> usize {
        weight(&self.spec.target) + 64 * self.pins.len() + missing(&self.missing)
    }
}
impl Weight for Schedule {
    fn weight(&self) -> usize {
        weight(&self.spec.migration.target) + 64 * self.pins.len()
    }
}
impl Weight for Workload {
    fn weight(&self) -> usize {
        let labels = self.spec.labels.iter().map(|(key, value)| key.len() + value.len() + 8);
        REST + self.spec.cgroup.len() + labels.sum::<usize>()
    }
}
impl Weight for Event {
    fn weight(&self) -> usize {
        let failed = self.failed.iter().map(|failed| failed.comm.len() + failed.error.len() + 32);
        let members = weight(&self.target) + missing(&self.missing);
        members + self.message.len() + failed.sum::<usize>()
    }
}
