//! Estimates how much room records take: in an answer, in memory and on the disk. Fields whose length clients choose
//! are counted. All others together count as 1 KiB. What is encoded already has its own size.

use super::{EventHead, Write};
use numaloc_api::{
    encoded::{Encoded, ListedJob},
    value::{
        Job, JobJoin, MemberResult, MigrationSpec, Outcome, Partner, ProcessOutcome, Schedule,
        Selector, Target, Workload, WorkloadSpec,
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// A record that takes room in the store and in memory.
pub trait Weight {
    /// Its approximate size in bytes.
    fn weight(&self) -> usize;
}

/// Bytes counted for each process of a member: the dispatcher remembers which processes an open job has.
const PROCESS: usize = 32;
/// Bytes counted for everything whose length clients do not choose.
const REST: usize = 1024;

fn names(target: &Target) -> usize {
    let names = [
        &target.cgroups,
        &target.units,
        &target.containers,
        &target.pods,
        &target.virtual_machines,
        &target.container_labels,
        &target.workload_creators,
        &target.files,
    ];
    let names = names.into_iter().flatten().map(|name| name.len() + 4);
    let processes = target.processes.iter().map(|process| process.boot_id.len() + 24);
    let labels = conditions(&target.labels);
    names.chain(processes).sum::<usize>() + labels + 6 * target.pids.len()
}

fn conditions(selector: &Selector) -> usize {
    let each = selector.requirements.iter().map(|required| {
        let values = required.condition.values().map(|value| value.len() + 4);
        required.key.len() + values.sum::<usize>() + 8
    });
    each.sum()
}

fn labels(labels: &BTreeMap<String, String>) -> usize {
    labels.iter().map(|(key, value)| key.len() + value.len() + 8).sum()
}

/// The size of an outcome in memory.
fn outcome(outcome: &Outcome) -> usize {
    let process = |process: &ProcessOutcome| {
        let words = process.comm.len() + process.error.as_ref().map_or(0, String::len);
        size_of::<ProcessOutcome>() + words + 24 * process.account.left_bytes().len()
    };
    let partner = |partner: &Partner| {
        size_of::<Partner>() + names(&partner.member) + 24 * partner.flows.len()
    };
    let processes = outcome.processes.iter().map(process).sum::<usize>();
    processes + outcome.partners.iter().map(partner).sum::<usize>()
}

impl Weight for ListedJob {
    fn weight(&self) -> usize {
        self.as_ref().len()
    }
}
impl<R> Weight for Encoded<R> {
    fn weight(&self) -> usize {
        self.as_ref().len()
    }
}
impl Weight for &EventHead {
    fn weight(&self) -> usize {
        self.bytes
    }
}
impl<T: Weight> Weight for Arc<T> {
    fn weight(&self) -> usize {
        (**self).weight()
    }
}
impl<T: Weight> Weight for Vec<T> {
    fn weight(&self) -> usize {
        self.iter().map(Weight::weight).sum()
    }
}
impl Weight for Target {
    fn weight(&self) -> usize {
        REST + names(self)
    }
}
impl Weight for MigrationSpec {
    fn weight(&self) -> usize {
        self.target.weight()
    }
}
impl Weight for MemberResult {
    fn weight(&self) -> usize {
        let entries = self.remote.len() + self.account.left_bytes().len() + self.flows.len();
        let failed = self.failed.iter().map(|failed| failed.comm.len() + failed.error.len() + 32);
        let words = names(&self.member) + self.reason.len() + failed.sum::<usize>();
        // The name of the member is in a block of its own.
        size_of::<Self>() + 64 + words + 24 * entries + PROCESS * self.processes
    }
}
impl Weight for Job {
    fn weight(&self) -> usize {
        let words = self.spec.weight() + labels(&self.labels);
        let plan = self.plan.as_ref().map_or(0, |plan| plan.bytes());
        let outcome = self.outcome.as_ref().map_or(0, |it| outcome(it));
        let joined = |it: &JobJoin| 32 + it.client.len() + it.request_id.len();
        let joined: usize = self.joined.iter().map(joined).sum();
        words + joined + 64 * self.pins.len() + self.members.weight() + plan + outcome
    }
}
impl Weight for Schedule {
    fn weight(&self) -> usize {
        let words = self.spec.migration.weight() + labels(&self.spec.labels);
        words + 64 * self.pins.len()
    }
}
impl Weight for WorkloadSpec {
    fn weight(&self) -> usize {
        REST + self.cgroup.len() + labels(&self.labels)
    }
}
impl Weight for Workload {
    fn weight(&self) -> usize {
        self.spec.weight()
    }
}
impl Weight for Write {
    /// The weight of its record; a removal writes next to nothing.
    fn weight(&self) -> usize {
        match self {
            Self::Job(job) => job.weight(),
            Self::Schedule(schedule) => schedule.weight(),
            Self::Workload(workload) => workload.weight(),
            Self::Event(event) => event.head.bytes,
            Self::DropJob(_)
            | Self::DropSchedule(_)
            | Self::DropWorkload(_)
            | Self::DropEvent(_)
            | Self::Holds(_) => 0,
        }
    }
}
