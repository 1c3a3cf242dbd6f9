//! The document of a process that is opened: its threads and mappings.

use super::{by_node, ids};
use crate::{
    doc::NodeBytes,
    fields::{amount, node, word},
};
use numaloc_api::v1;
use numaloc_core::Identity;
use serde::Serialize;

/// A process that is opened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DetailDoc {
    pub pid: i32,
    pub start_time_ticks: u64,
    /// None before they have been read.
    pub threads: Vec<ThreadDoc>,
    /// In ascending order of address; none before the first look, and if they may not be read.
    pub mappings: Vec<MappingDoc>,
    /// The number of mappings that are left out here.
    pub left_out_mappings: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadDoc {
    pub tid: i32,
    pub comm: String,
    pub home_nodes: Vec<u32>,
    /// The node of the CPU that it ran on last.
    pub node: Option<u32>,
    pub cpu_percent: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MappingDoc {
    /// First address, as in /proc/PID/maps.
    pub address: String,
    /// Length in bytes, resident or not.
    pub bytes: u64,
    pub kind: String,
    pub name: String,
    pub map_shared: bool,
    pub by_node: Vec<NodeBytes>,
}

impl DetailDoc {
    pub fn new(detail: &v1::LiveDetail) -> Self {
        let process = detail.process.unwrap_or_default();
        Self {
            pid: process.pid,
            start_time_ticks: amount(process.start_time_ticks),
            threads: detail.threads.iter().map(thread).collect(),
            mappings: detail.mappings.iter().map(mapping).collect(),
            left_out_mappings: 0,
        }
    }

    /// Whether it is of this process.
    pub fn is_of(&self, process: Identity) -> bool {
        (self.pid, self.start_time_ticks) == (process.pid, process.start_time)
    }

    /// The `most` largest mappings, in descending order.
    pub fn largest(mut self, most: usize) -> Self {
        let resident =
            |mapping: &MappingDoc| mapping.by_node.iter().map(|on| on.bytes).sum::<u64>();
        self.mappings.sort_by_key(|mapping| std::cmp::Reverse(resident(mapping)));
        self.left_out_mappings = self.mappings.len().saturating_sub(most);
        self.mappings.truncate(most);
        self
    }
}

fn thread(thread: &v1::LiveThread) -> ThreadDoc {
    ThreadDoc {
        tid: thread.tid,
        comm: thread.comm.clone(),
        home_nodes: ids(&thread.home_node_ids),
        node: thread.node_id.map(node),
        cpu_percent: thread.cpu_percent,
    }
}

fn mapping(mapping: &v1::LiveMapping) -> MappingDoc {
    MappingDoc {
        address: format!("{:x}", mapping.start_address),
        bytes: amount(mapping.length_bytes),
        kind: word(mapping.kind().as_str_name(), "MEMORY_KIND_"),
        name: mapping.name.clone(),
        map_shared: mapping.is_shared,
        by_node: by_node(&mapping.nodes),
    }
}
