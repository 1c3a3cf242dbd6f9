//! Work that may run on several nodes and has devices open on some of them: a GPU, VFIO, InfiniBand. Memory that these
//! read and write is best on their nodes. Work that is pinned elsewhere is left alone: its CPUs would reach its memory
//! from afar then.

use super::{
    capacity::{HostState, Way, way},
    finding::{Finding, FindingKind},
    look::Subject,
    step::{AdviceStep, How},
};
use crate::machine::ids::NodeSet;

/// The nodes of its devices, if these are some of the nodes that it may run on.
pub fn home(host: &HostState, subject: &Subject) -> Option<NodeSet> {
    let topology = &host.look.topology;
    let nodes = subject.device_nodes.and(&topology.with_memory());
    let cpus = subject.home(topology);
    (!nodes.is_empty() && nodes != cpus && nodes.is_subset(&cpus)).then_some(nodes)
}

/// Memory that is not where the devices are.
pub fn judge(host: &HostState, subject: &Subject, min_bytes: u64) -> Option<Finding> {
    let home = home(host, subject)?;
    let Way { bytes, flows, .. } = way(host, subject, &home, min_bytes)?;
    let migrate = AdviceStep::Migrate { who: subject.who.clone(), how: How::Devices };
    Some(Finding {
        from_nodes: subject.home(&host.look.topology),
        home,
        // Its CPUs reach it from as far as before. The accesses of the devices are not known.
        weight: bytes as f64 / 2.0 * subject.used_cpus(),
        flows,
        steps: vec![migrate],
        ..Finding::of(subject, FindingKind::Device, bytes)
    })
}
