//! Page maps of real processes: sizes, kinds and nodes of their extents. Neither names nor addresses are kept.

use crate::{
    pretended::{Layout, Machine},
    scanning::found,
};
use anyhow::{Context, Result};
use numaloc_core::{Extent, Kind, NodeId, Options, PAGE};
use numaloc_host::survey;
use serde::{Deserialize, Serialize};

/// Made with `numaloc-bench record`: a JVM with 16 threads, a program of Node.js, one of Python and Redis, each with some
/// 200 MiB of data.
const DATA: &str = include_str!("../../data/maps.json");

/// What to record.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Processes.
    #[arg(required = true)]
    pids: Vec<i32>,
}

/// A process: its extents in the order of their addresses, each as kind, pages, and for each node pages of its own, shared
/// ones, and those of both that are in huge pages.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recording(Vec<(String, u64, Vec<[u64; 3]>)>);

/// An extent of it.
#[derive(Debug)]
pub struct Recorded<'a> {
    pub kind: Kind,
    pub pages: u64,
    /// The first node is the home of the process.
    pub nodes: &'a [[u64; 3]],
}

const KINDS: [Kind; 5] = [Kind::Anonymous, Kind::Heap, Kind::Stack, Kind::File, Kind::Shmem];

/// Prints the page maps of processes as a line of JSON each. On a machine with one node they are told as if each second
/// 128 MiB of memory were another node's.
pub fn run(args: &Args) -> Result<()> {
    let machine = Machine::new(Layout::HalfAway)?;
    for &pid in &args.pids {
        let processes = found(&machine, pid)?;
        let seen = survey(&machine.roots, &machine.topology, processes, &Options::default())?;
        let recording = Recording(seen.extents.iter().map(recorded).collect());
        println!("{}", serde_json::to_string(&recording)?);
    }
    Ok(())
}

fn recorded(extent: &Extent) -> (String, u64, Vec<[u64; 3]>) {
    let last = extent.residency.nodes.keys().last().map_or(0, |node| node.0);
    let nodes = (0..=last).map(|node| {
        let resident = extent.residency.nodes.get(&NodeId(node)).copied().unwrap_or_default();
        [resident.owned_bytes, resident.shared_bytes, resident.huge_bytes].map(|it| it / PAGE)
    });
    (extent.kind.name().to_owned(), extent.bytes / PAGE, nodes.collect())
}

/// Those that are kept in benches/data.
pub fn recordings() -> Result<Vec<Recording>> {
    DATA.lines().map(|line| serde_json::from_str(line).context("benches/data/maps.json")).collect()
}

impl Recording {
    /// Resident bytes.
    pub fn bytes(&self) -> u64 {
        let pages = self.0.iter().flat_map(|(_, _, nodes)| nodes);
        pages.map(|[owned, shared, _]| (owned + shared) * PAGE).sum()
    }

    /// In the order of their addresses. What is of an unknown kind is taken for anonymous memory.
    pub fn extents(&self) -> impl Iterator<Item = Recorded<'_>> {
        self.0.iter().map(|(name, pages, nodes)| Recorded {
            kind: KINDS.into_iter().find(|kind| kind.name() == name).unwrap_or(Kind::Anonymous),
            pages: *pages,
            nodes,
        })
    }
}
