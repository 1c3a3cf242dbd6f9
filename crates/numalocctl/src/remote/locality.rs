//! Where memory is.

use super::{
    Daemon, client,
    fields::{amount, node, nodes, seconds, share},
    missing::missing,
};
use crate::{
    doc::{LocalityDoc, NodeBytes, PlacedDoc, ProcessDoc, WideThreadDoc, skip_name},
    exit::Failure,
};
use numaloc_api::{v1, value};
use numaloc_core::{Locality, Skip, Topology};
use std::collections::BTreeSet;

impl Daemon {
    /// Where the memory of a target is.
    pub fn locality(&self, target: &value::Target) -> Result<LocalityDoc, Failure> {
        let mut service = client!(self, locality_service_client, LocalityServiceClient);
        let message = v1::GetLocalityRequest { target: Some(target.into()), policy: None };
        let answer =
            self.call(message, |request| async move { service.get_locality(request).await })?;
        let document = locality(&answer.locality.unwrap_or_default(), &self.topology()?);
        Ok(LocalityDoc { missing: missing(&answer.missing), ..document })
    }
}

/// A document from a message.
pub fn locality(message: &v1::Locality, topology: &Topology) -> LocalityDoc {
    let total = placed(message.total.as_ref());
    let mut columns: BTreeSet<u32> = topology.with_memory().iter().map(|node| node.0).collect();
    columns.extend(total.nodes.iter().map(|entry| entry.node));
    LocalityDoc {
        source: None,
        source_reason: None,
        columns: columns.into_iter().collect(),
        processes: message.processes.iter().map(process).collect(),
        shared: placed(message.shared.as_ref()),
        total,
        unplaced_bytes: amount(message.unplaced_bytes),
        cgroups: Vec::new(),
        missing: Vec::new(),
    }
}

/// A process.
pub fn process(message: &v1::ProcessLocality) -> ProcessDoc {
    let identity = message.process.unwrap_or_default();
    let skip = skip(message.skip);
    ProcessDoc {
        pid: identity.pid,
        start_time_ticks: amount(identity.start_time_ticks),
        comm: message.comm.clone(),
        cpus: message.cpus.clone(),
        home_nodes: nodes(&message.home_node_ids),
        wide_threads: message.wide_threads.iter().map(wide_thread).collect(),
        wide_thread_count: message.wide_thread_count.try_into().unwrap_or(0),
        skip: skip.map(skip_name),
        skip_reason: skip.map(Skip::message),
        placed: placed(message.memory.as_ref()),
    }
}

fn wide_thread(message: &v1::WideThread) -> WideThreadDoc {
    let (comm, cpus) = (message.comm.clone(), message.cpus.clone());
    WideThreadDoc::new(message.tid, comm, cpus, seconds(message.cpu_time), message.cpu_percent)
}

/// Why a process is skipped. A reason that only a newer daemon knows is shown as `NoTargetNode`.
fn skip(reason: i32) -> Option<Skip> {
    match v1::SkipReason::try_from(reason) {
        Ok(v1::SkipReason::Unspecified) => None,
        Ok(v1::SkipReason::NoLocalMemory) => Some(Skip::NoLocalMemory),
        Ok(v1::SkipReason::NoTargetNode) | Err(_) => Some(Skip::NoTargetNode),
    }
}

fn placed(message: Option<&v1::ResidentMemory>) -> PlacedDoc {
    let empty = v1::ResidentMemory::default();
    let message = message.unwrap_or(&empty);
    let on =
        |entry: &v1::NodeBytes| NodeBytes { node: node(entry.node_id), bytes: amount(entry.bytes) };
    let nodes: Vec<_> = message.nodes.iter().map(on).collect();
    let (movable, overall) = (share(message.movable.as_ref()), share(message.overall.as_ref()));
    PlacedDoc {
        resident_bytes: nodes.iter().fold(0, |sum: u64, on| sum.saturating_add(on.bytes)),
        nodes,
        locality: Locality { movable, overall }.into(),
    }
}
