//! The part of a host's memory that belongs to subjects that fit on one node: the best locality of a host if no subject
//! is spread.

use super::{
    capacity::{FILL, cpus_on},
    look::{HostLook, Subject},
};
use crate::machine::{ids::NodeId, topology::Topology};

/// The memory of the subjects that were looked at, in bytes, with hugetlb memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFit {
    /// Bytes of all subjects.
    pub all_bytes: u64,
    /// That of subjects which fit on one node.
    pub fit_bytes: u64,
    /// Number of these subjects.
    pub fit_count: usize,
}

impl NodeFit {
    /// The share of the memory, in percent; 100 if there is none.
    pub fn percent(&self) -> f64 {
        if self.all_bytes == 0 {
            100.0
        } else {
            100.0 * self.fit_bytes as f64 / self.all_bytes as f64
        }
    }
}

/// The part of the memory that fits on one node.
pub fn node_fit(look: &HostLook) -> NodeFit {
    let mut fit = NodeFit::default();
    for subject in &look.subjects {
        let bytes = all_bytes(subject);
        fit.all_bytes = fit.all_bytes.saturating_add(bytes);
        if look.topology.nodes().any(|node| fits(&look.topology, subject, node.id)) {
            fit.fit_bytes = fit.fit_bytes.saturating_add(bytes);
            fit.fit_count += 1;
        }
    }
    fit
}

/// Whether the work and the memory of a subject would fit on this node if it were empty. Only CPUs that it may have
/// count.
pub fn fits(topology: &Topology, subject: &Subject, node: NodeId) -> bool {
    let cpus = cpus_on(topology, &subject.cpus, node).len() as f64;
    let total = topology.node(node).map_or(0, |node| node.memory.total_bytes);
    subject.used_cpus() <= FILL * cpus
        && all_bytes(subject) as f64 <= FILL * total as f64
        && cpus > 0.0
}

fn all_bytes(subject: &Subject) -> u64 {
    let hugetlb = subject.hugetlb.values().flat_map(|resident| resident.values());
    hugetlb.fold(subject.resident_bytes(), |sum, bytes| sum.saturating_add(*bytes))
}
