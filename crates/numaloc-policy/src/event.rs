//! Events for a pod, word for word as the contract has them.

use crate::{ContainerResult, Decision, EventKind, EventReason, PodEvent, Verdict};
use numaloc_config::written::{SHOWN_MAX, shown};
use numaloc_core::{NodeSet, SMALLEST_PAGE, Share};

/// The result of a pod: of all of its containers that have a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodResult {
    /// The results of its containers, in the pod's order.
    pub containers: Vec<ContainerResult>,
    /// Whether it will be done again: the interval of a container's policy is above 0.
    pub repeats: bool,
}

impl PodResult {
    /// The reason of the event: completed if any container is, else failed if any is, else skipped.
    pub fn reason(&self) -> EventReason {
        let counts = self.counts();
        match counts {
            Counts { completed: 1.., .. } => EventReason::Completed,
            Counts { failed: 1.., .. } => EventReason::Failed,
            _ => EventReason::Skipped,
        }
    }

    /// Local share in percent of the memory of all containers that can be read, rounded up; -1 if that is none. As it
    /// is rounded up, there may be remote pages at 100.
    pub fn ratio(&self) -> i64 {
        self.share().map_or(-1, ratio)
    }

    /// Remote bytes of all containers that can be read; `None` if that is none.
    pub fn remote_bytes(&self) -> Option<u64> {
        self.share().map(|share| share.remote_bytes)
    }

    /// Remote pages of 4 KiB of all containers that can be read.
    pub fn remote_pages(&self) -> u64 {
        self.share().map_or(0, remote_pages)
    }

    /// The event that reports this result of the pod.
    pub fn event(&self) -> PodEvent {
        PodEvent { kind: EventKind::Normal, reason: self.reason(), message: self.message() }
    }

    fn message(&self) -> String {
        let all = |verdict: &Verdict| self.containers.iter().all(|one| one.verdict == *verdict);
        if all(&Verdict::NoTarget) {
            return NO_TARGET.to_owned();
        }
        if all(&Verdict::Reached) {
            return reached(self.share());
        }
        let lines = self.containers.iter().map(line);
        lines.chain([self.total()]).collect::<Vec<_>>().join("\n")
    }

    fn total(&self) -> String {
        let Counts { completed, failed, skipped } = self.counts();
        let Some(share) = self.share() else {
            return "Total: failed to get memory allocation after memory locality".to_owned();
        };
        format!(
            "Total: {completed} container(s) completed, {failed} failed, {skipped} skipped; {}",
            in_words(share)
        )
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for container in &self.containers {
            *match container.verdict {
                Verdict::Completed { .. } => &mut counts.completed,
                Verdict::NoTarget | Verdict::Reached | Verdict::Skipped(_) => &mut counts.skipped,
                Verdict::Failed(_) => &mut counts.failed,
            } += 1;
        }
        counts
    }

    fn share(&self) -> Option<Share> {
        let mut shares = self.containers.iter().filter_map(|container| container.share);
        let first = shares.next()?;
        Some(shares.fold(first, |mut sum, share| {
            sum.local_bytes = sum.local_bytes.saturating_add(share.local_bytes);
            sum.remote_bytes = sum.remote_bytes.saturating_add(share.remote_bytes);
            sum
        }))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    completed: usize,
    failed: usize,
    skipped: usize,
}

const NO_TARGET: &str = "no target numa";

fn reached(share: Option<Share>) -> String {
    let reached = "already reach target in precheck";
    share.map_or_else(|| reached.to_owned(), |share| format!("{reached}, {}", in_words(share)))
}

fn in_words(share: Share) -> String {
    let (ratio, pages) = (ratio(share), remote_pages(share));
    format!("cur local memory ratio {ratio}, rest remote memory pages {pages}")
}

/// Local share in percent, rounded up; 100 if there is nothing.
fn ratio(share: Share) -> i64 {
    let (local, remote) = (u128::from(share.local_bytes), u128::from(share.remote_bytes));
    match local + remote {
        0 => 100,
        // At most 100, so it fits.
        all => i64::try_from((local * 100).div_ceil(all)).unwrap_or(100),
    }
}

fn remote_pages(share: Share) -> u64 {
    share.remote_bytes.div_ceil(SMALLEST_PAGE)
}

fn line(container: &ContainerResult) -> String {
    let name = shown(&container.name, SHOWN_MAX);
    match &container.verdict {
        Verdict::Completed { from, to, failed } if failed.is_empty() => {
            let (from, to) = (nodes(from), nodes(to));
            format!(
                "Container {name} completed: migrated memory from remote numa: {from} to local numa: {to}"
            )
        }
        Verdict::Completed { from, to, failed } => {
            let one = |(pid, error): &(i32, String)| format!("failed pid: {pid}, error: {error}");
            let failed = failed.iter().map(one).collect::<Vec<_>>().join("; ");
            let (from, to) = (nodes(from), nodes(to));
            format!(
                "Container {name} completed: failed to migrate the following processes: {failed},\
                 from remote numa: {from} to local numa: {to}"
            )
        }
        Verdict::NoTarget => format!("Container {name} skipped: {NO_TARGET}"),
        Verdict::Reached => format!("Container {name} skipped: {}", reached(container.share)),
        Verdict::Skipped(reason) => format!("Container {name} skipped: {reason}"),
        Verdict::Failed(reason) => format!("Container {name} failed: {reason}"),
    }
}

/// Nodes one by one, joined by commas.
fn nodes(nodes: &NodeSet) -> String {
    nodes.iter().map(|node| node.to_string()).collect::<Vec<_>>().join(",")
}

impl Decision {
    /// The event about parts of a decision that the pod's author may not expect; `None`: there are none.
    pub fn event(&self, container: &str) -> Option<PodEvent> {
        let lines = self.notes.iter().map(|note| {
            let name = shown(container, SHOWN_MAX);
            format!("Container {name}: {note}")
        });
        let message = lines.collect::<Vec<_>>().join("\n");
        let event = PodEvent { kind: EventKind::Normal, reason: EventReason::Bounded, message };
        (!event.message.is_empty()).then_some(event)
    }
}

#[cfg(test)]
mod tests;
