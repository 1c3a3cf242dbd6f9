//! Page maps of real processes: sizes, kinds and nodes of their extents. Names and addresses are not kept.

use crate::{
    pretended::{Layout, Machine},
    scanning::found,
};
use anyhow::{Context, Result};
use numaloc_core::{Extent, Kind, NodeId, Options, page_size};
use numaloc_host::Surveyor;
use serde::{Deserialize, Serialize};

/// Made with `numaloc-bench record`: a JVM with 16 threads, a Node.js program, a Python program and Redis, each with some 200 MiB
/// of data.
const DATA: &str = include_str!("../../data/maps.json");

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Pids of the processes.
    #[arg(required = true)]
    pids: Vec<i32>,
}

/// A process: its extents in the order of their addresses. Each has its kind, its pages, and for each node three numbers of
/// pages: its own, shared ones, and those of both that are in huge pages.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recording(Vec<(String, u64, Vec<[u64; 3]>)>);

/// One extent of a recording.
#[derive(Debug)]
pub struct Recorded<'a> {
    pub kind: Kind,
    pub pages: u64,
    /// The first node is the home of the process.
    pub nodes: &'a [[u64; 3]],
}

const KINDS: [Kind; 5] = [Kind::Anonymous, Kind::Heap, Kind::Stack, Kind::File, Kind::Shmem];

/// Prints the page maps of processes, each as one line of JSON. The nodes are pretended: every second 128 MiB of memory counts as
/// another node's.
pub fn run(args: &Args) -> Result<()> {
    let machine = Machine::new(Layout::HalfAway)?;
    for &pid in &args.pids {
        let processes = found(&machine, pid)?;
        let options = Options::default();
        let surveyor = Surveyor::new(&machine.roots, &machine.topology, &options);
        let (_survey, seen) = surveyor.survey(processes, None)?;
        let recording = Recording(seen.extents.iter().map(recorded).collect());
        println!("{}", serde_json::to_string(&recording)?);
    }
    Ok(())
}

fn recorded(extent: &Extent) -> (String, u64, Vec<[u64; 3]>) {
    let last = extent.residency.nodes.keys().last().map_or(0, |node| node.0);
    let nodes = (0..=last).map(|node| {
        let resident = extent.residency.nodes.get(&NodeId(node)).copied().unwrap_or_default();
        [resident.owned_bytes, resident.shared_bytes, resident.huge_bytes]
            .map(|it| it / page_size())
    });
    (extent.kind.name().to_owned(), extent.bytes / page_size(), nodes.collect())
}

/// The recordings that are kept in benches/data.
pub fn recordings() -> Result<Vec<Recording>> {
    DATA.lines().map(|line| serde_json::from_str(line).context("benches/data/maps.json")).collect()
}

impl Recording {
    pub fn bytes(&self) -> u64 {
        let pages = self.0.iter().flat_map(|(_, _, nodes)| nodes);
        pages.map(|[owned, shared, _]| (owned + shared) * page_size()).sum()
    }

    /// The extents in the order of their addresses. An unknown kind counts as anonymous memory.
    pub fn extents(&self) -> impl Iterator<Item = Recorded<'_>> {
        self.0.iter().map(|(name, pages, nodes)| Recorded {
            kind: KINDS.into_iter().find(|kind| kind.name() == name).unwrap_or(Kind::Anonymous),
            pages: *pages,
            nodes,
        })
    }
}
