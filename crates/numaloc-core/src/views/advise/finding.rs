//! Findings: what is wrong, what it would bring to change that, and how.

use super::{
    look::{Subject, Who},
    step::AdviceStep,
};
use crate::{
    ask::pace::Pacing,
    machine::ids::{CpuSet, NodeId, NodeSet},
    plan::{benefit::Benefit, planner::BASE_RATE},
};
use std::collections::BTreeMap;

/// The fault in the placement of a subject or of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// It may run on some nodes only, and has memory on others.
    PinnedRemote,
    /// It may run on several nodes, though not on all CPUs, and would fit on fewer.
    PinnedAcross,
    /// It may run everywhere, and would fit on one node or on a few near ones.
    UnpinnedFits,
    /// Its memory policy binds its memory to nodes that it does not run on.
    Bound,
    /// It is too large for one node, and its memory is not spread as its CPUs are.
    Uneven,
    /// Its node has no CPU or no memory left for it, and another one has.
    Overcommitted,
    /// A few threads that hardly work may run on other nodes, which makes those its home as well.
    Helper,
    /// The kernel's balancing scans memory, though all busy processes are pinned.
    Balancing,
    /// Large memory cannot have huge pages, because they are switched off for all.
    Thp,
    /// Its hugetlb pages are on other nodes than its CPUs.
    Hugetlb,
    /// Its cpuset.mems does not contain any of its home nodes.
    MemsForbid,
    /// It has devices open that are attached to some of the nodes that it may run on, and memory on the others.
    Device,
    /// It runs on other nodes than the storage that it maps without page cache (DAX).
    Storage,
}

impl FindingKind {
    /// Every kind, in the order of declaration.
    pub const ALL: [FindingKind; 13] = [
        Self::PinnedRemote,
        Self::PinnedAcross,
        Self::UnpinnedFits,
        Self::Bound,
        Self::Uneven,
        Self::Overcommitted,
        Self::Helper,
        Self::Balancing,
        Self::Thp,
        Self::Hugetlb,
        Self::MemsForbid,
        Self::Device,
        Self::Storage,
    ];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::PinnedRemote => "pinned_remote",
            Self::PinnedAcross => "pinned_across",
            Self::UnpinnedFits => "unpinned_fits",
            Self::Bound => "bound",
            Self::Uneven => "uneven",
            Self::Overcommitted => "overcommitted",
            Self::Helper => "helper",
            Self::Balancing => "balancing",
            Self::Thp => "thp",
            Self::Hugetlb => "hugetlb",
            Self::MemsForbid => "mems_forbid",
            Self::Device => "device",
            Self::Storage => "storage",
        }
    }
}

/// A finding, with what is to be done about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The problem, which also decides which steps there are.
    pub kind: FindingKind,
    /// The owner of the memory; `None`: the whole host.
    pub who: Option<Who>,
    /// Its name; empty for the host.
    pub name: String,
    /// Its memory as it was seen, in bytes.
    pub resident_bytes: u64,
    /// CPU time that it uses, in CPUs: 1.5 is one busy all the time, and one busy half of it.
    pub used_cpus: f64,
    /// Nodes of its CPUs before.
    pub from_nodes: NodeSet,
    /// Where it would be: its home afterwards.
    pub home: NodeSet,
    /// The CPUs that it would have, if these change.
    pub cpus: Option<CpuSet>,
    /// The nodes that its cpuset would allow, if these change.
    pub mems: Option<NodeSet>,
    /// The moves that the advice would make, by nodes, in bytes.
    pub flows: BTreeMap<(NodeId, NodeId), u64>,
    /// Size of the hugetlb pages that would move; `None`: other memory moves.
    pub hugetlb_bytes: Option<u64>,
    /// The sum of `flows`, in bytes.
    pub bytes: u64,
    /// Storage of its new home that it maps without page cache, in bytes, for [`FindingKind::Storage`].
    pub storage_bytes: u64,
    /// A guess at how long the move takes at the default pace.
    pub seconds: f64,
    /// The benefit by which findings are ordered: bytes that would no longer be reached from afar, times the CPUs that it uses.
    /// Nearer nodes count for less than the farthest ones.
    pub weight: f64,
    /// The benefit by the latencies of the machine; `None` if no memory comes nearer. Findings of one kind are ordered
    /// by it.
    pub benefit: Option<Benefit>,
    /// Threads that are to be pinned as well.
    pub helpers: Vec<i32>,
    /// The commands, in this order.
    pub steps: Vec<AdviceStep>,
}

impl Finding {
    /// A finding about a subject, of which this many bytes would move. Where from and how is still to be said.
    pub(super) fn of(subject: &Subject, kind: FindingKind, bytes: u64) -> Self {
        Self {
            who: Some(subject.who.clone()),
            name: subject.name.clone(),
            resident_bytes: subject.resident_bytes(),
            used_cpus: subject.used_cpus(),
            bytes,
            seconds: seconds(bytes),
            ..Self::of_host(kind, Vec::new())
        }
    }

    /// A finding about the whole host.
    pub(super) fn of_host(kind: FindingKind, steps: Vec<AdviceStep>) -> Self {
        Self {
            kind,
            who: None,
            name: String::new(),
            resident_bytes: 0,
            used_cpus: 0.0,
            from_nodes: NodeSet::new(),
            home: NodeSet::new(),
            cpus: None,
            mems: None,
            flows: BTreeMap::new(),
            hugetlb_bytes: None,
            bytes: 0,
            storage_bytes: 0,
            seconds: 0.0,
            weight: 0.0,
            benefit: None,
            helpers: Vec::new(),
            steps,
        }
    }
}

/// A guess at how long it takes to move this much at the default pace, in seconds: base pages on bare metal, as of a plan.
fn seconds(bytes: u64) -> f64 {
    bytes as f64 / BASE_RATE * 100.0 / f64::from(Pacing::default().pace().duty_percent)
}
