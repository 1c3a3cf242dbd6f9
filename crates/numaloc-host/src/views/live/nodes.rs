//! Nodes: memory, how busy their CPUs are, and what was meant for them and went elsewhere.

use crate::{Error, NodeMemoryReader, Roots, files::read, processes::cpu_use::busy};
use numaloc_core::{NodeId, Topology, live::NodeNow};
use std::{collections::BTreeMap, time::Duration};

/// Counters of a node at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct NodeCounters {
    busy: Duration,
    foreign: Option<u64>,
}

/// Reads nodes again and again.
#[derive(Debug)]
pub(super) struct NodeReader {
    memory: NodeMemoryReader,
    before: Option<(Duration, BTreeMap<NodeId, NodeCounters>)>,
    pub(super) now: Vec<NodeNow>,
}

impl NodeReader {
    pub(super) fn new(roots: &Roots) -> Result<Self, Error> {
        Ok(Self { memory: NodeMemoryReader::new(roots)?, before: None, now: Vec::new() })
    }

    /// Reads them at this moment. A node that cannot be read, because it goes offline, is left out.
    pub(super) fn read(&mut self, roots: &Roots, topology: &Topology, at: Duration) {
        let stat = read::text(&roots.proc.join("stat")).unwrap_or_default();
        let counters = topology.nodes().map(|node| {
            let file = roots.sys.join(format!("devices/system/node/node{}/numastat", node.id));
            let text = read::text(&file).unwrap_or_default();
            let foreign = text.lines().find_map(|line| line.strip_prefix("numa_foreign "));
            let foreign = foreign.and_then(|count| count.trim().parse().ok());
            (node.id, NodeCounters { busy: busy(&stat, &node.cpus), foreign })
        });
        let counters: BTreeMap<NodeId, NodeCounters> = counters.collect();
        let before = self.before.take();
        self.now.clear();
        let lower = topology.lower_tiers();
        for node in topology.nodes() {
            let Ok(memory) = self.memory.read(node.id) else { continue };
            let now = counters[&node.id];
            let past = before.as_ref().and_then(|(then, all)| {
                let seconds = at.saturating_sub(*then).as_secs_f64();
                Some((seconds, *all.get(&node.id)?)).filter(|_| seconds > 0.0)
            });
            let cpus = node.cpus.len();
            let cpu_percent = past.filter(|_| cpus > 0).map(|(seconds, past)| {
                let used = now.busy.saturating_sub(past.busy).as_secs_f64();
                (used * 100.0 / seconds / cpus as f64).min(100.0)
            });
            let foreign_per_second = past.and_then(|(seconds, past)| {
                Some(now.foreign?.saturating_sub(past.foreign?) as f64 / seconds)
            });
            let (id, tier, kind) = (node.id, topology.tier(node.id), topology.node_kind(node.id));
            self.now.push(NodeNow {
                id,
                memory,
                cpu_percent,
                foreign_per_second,
                traffic: None,
                tier,
                kind,
                is_lower_tier: lower.contains(id),
            });
        }
        self.before = Some((at, counters));
    }
}
