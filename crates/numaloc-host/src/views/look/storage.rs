//! Storage that subjects map without page cache (DAX). The kernel counts it as memory of nobody.

use crate::{
    Roots,
    files::{
        maps::{self, Object, Vma},
        read,
    },
    nodes::storage::Storage,
    processes::process,
    survey::{
        fixed,
        space::open_answering,
        vmas::{self, Common},
    },
};
use numaloc_core::{NodeId, Topology};
use std::{collections::BTreeMap, sync::Arc};

/// Finds it by the mappings of processes, on hosts that have such storage. On others nothing is read.
#[derive(Debug)]
pub struct StorageReader<'a> {
    roots: Arc<Roots>,
    topology: &'a Topology,
    storage: Storage,
    common: Common,
}

impl<'a> StorageReader<'a> {
    pub fn new(roots: &Roots, topology: &'a Topology) -> Self {
        let (storage, roots) = (Storage::read(roots), Arc::new(roots.clone()));
        Self { roots, topology, storage, common: Common::default() }
    }

    /// The storage that these processes map, in bytes by the node that it is attached to. What may not be read is left out.
    pub fn of(&mut self, pids: &[i32]) -> BTreeMap<NodeId, u64> {
        if self.storage.is_empty() {
            return BTreeMap::new();
        }
        let candidates = pids.iter().filter(|&&pid| self.may_map(pid));
        let processes = candidates
            .filter_map(|&pid| process::read(&self.roots, pid, self.topology).ok())
            .collect::<Vec<_>>();
        if processes.is_empty() {
            return BTreeMap::new();
        }
        let spaces = open_answering(&self.roots, processes);
        let mut all: Vec<Vec<Vma>> = spaces
            .iter()
            .filter_map(|space| vmas::read_all(space, &mut self.common).ok())
            .collect();
        fixed::storage(&self.roots, &mut all)
    }

    fn may_map(&self, pid: i32) -> bool {
        let text = read::text(&self.roots.proc.join(format!("{pid}/maps"))).unwrap_or_default();
        let may_be = |vma: Vma| match vma.object {
            Object::File { device, .. } => self.storage.may_have(&vma.name, device),
            _ => false,
        };
        text.lines().filter_map(maps::parse_line).any(may_be)
    }
}
