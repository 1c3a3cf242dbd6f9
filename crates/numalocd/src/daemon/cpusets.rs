//! Notices when workloads get other CPUs or nodes, so that their schedules need not wait for their intervals. The
//! kernel does not report such a change, so the cpusets are polled. Each poll reads a bounded number of them: with more
//! workloads a round takes longer, but no more of the CPU.

use crate::{dispatch::Handle, engine::Engine};
use numaloc_api::value::WorkloadId;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};
use tokio::time::sleep;

const INTERVAL: Duration = Duration::from_secs(5);
/// Most workloads read by one poll.
const AT_ONCE: usize = 500;

/// Polls until the dispatcher has ended.
pub async fn watch(handle: Handle, engine: Engine) {
    let mut readings = Readings::default();
    loop {
        sleep(INTERVAL).await;
        let Ok(workloads) = handle.watched_workloads(readings.after.clone(), AT_ONCE).await else {
            return;
        };
        let cgroups = workloads.iter().map(|(_, cgroup)| cgroup.clone()).collect();
        let Ok(cpusets) = engine.cpusets(cgroups).await else { continue };
        let changed = readings.take(workloads, cpusets);
        if !changed.is_empty() && handle.cpusets_changed(changed).await.is_err() {
            return;
        }
    }
}

/// The latest readings. A round is a series of polls that covers all workloads.
#[derive(Debug, Default)]
struct Readings {
    /// Readings of the previous round whose workload has not been read in this round yet.
    before: BTreeMap<WorkloadId, String>,
    now: BTreeMap<WorkloadId, String>,
    /// The workload after which this round continues; `None`: a new round begins.
    after: Option<WorkloadId>,
}

impl Readings {
    /// Takes in the next readings of a round; fewer than [`AT_ONCE`] end it. Returns the cgroups whose cpuset differs
    /// from that in the previous round. The first reading of a workload counts as no change, and neither does one
    /// without a result.
    fn take(
        &mut self,
        workloads: Vec<(WorkloadId, String)>,
        cpusets: Vec<Option<String>>,
    ) -> BTreeSet<String> {
        let mut changed = BTreeSet::new();
        let is_last = workloads.len() < AT_ONCE;
        self.after = workloads.last().map(|(id, _)| id.clone()).filter(|_| !is_last);
        for ((id, cgroup), cpuset) in workloads.into_iter().zip(cpusets) {
            let before = self.before.remove(&id);
            let Some(cpuset) = cpuset else { continue };
            if before.is_some_and(|before| before != cpuset) {
                changed.insert(cgroup);
            }
            self.now.insert(id, cpuset);
        }
        if is_last {
            // Workloads left over from the previous round are not registered any more.
            self.before = mem::take(&mut self.now);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workloads(range: std::ops::Range<usize>) -> Vec<(WorkloadId, String)> {
        let one = |n| (WorkloadId::new(&format!("w{n:04}")).expect("an id"), format!("/{n}"));
        range.map(one).collect()
    }

    fn read(cpuset: &str, count: usize) -> Vec<Option<String>> {
        vec![Some(cpuset.to_owned()); count]
    }

    #[test]
    fn only_what_differs_from_the_round_before_has_changed() {
        let mut readings = Readings::default();
        let all = || workloads(0..3);
        assert!(readings.take(all(), read("0-3 0", 3)).is_empty(), "the first reading");
        assert!(readings.take(all(), read("0-3 0", 3)).is_empty());
        let mut some = read("0-3 0", 3);
        some[1] = Some("4 1".to_owned());
        assert_eq!(readings.take(all(), some.clone()), ["/1".to_owned()].into());
        assert!(readings.take(all(), some.clone()).is_empty());
        // A cgroup that is gone has not changed, nor has it when it is back.
        some[1] = None;
        assert!(readings.take(all(), some).is_empty());
        assert!(readings.take(all(), read("0-3 0", 3)).is_empty());
        // The same holds for a workload that was unregistered.
        assert!(readings.take(workloads(0..1), read("0-3 0", 1)).is_empty());
        assert!(readings.take(all(), read("5 1", 1)).len() == 1);
        assert_eq!(readings.before.len(), 1);
    }

    #[test]
    fn a_round_takes_as_many_readings_as_it_needs() {
        let mut readings = Readings::default();
        for (round, cpuset) in ["0 0", "1 0"].into_iter().enumerate() {
            let first = readings.take(workloads(0..AT_ONCE), read(cpuset, AT_ONCE));
            assert_eq!(first.len(), round * AT_ONCE);
            let last = format!("w{:04}", AT_ONCE - 1);
            assert_eq!(readings.after.as_ref().map(WorkloadId::id), Some(&*last));
            let rest = readings.take(workloads(AT_ONCE..AT_ONCE + 2), read(cpuset, 2));
            assert_eq!((rest.len(), readings.after.clone()), (2 * round, None));
        }
    }
}
