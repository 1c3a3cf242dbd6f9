//! The planner's memory and time, by number of extents. Each measurement runs in a process of its own, because the peak memory of
//! a process cannot be reset.

use crate::{
    hold::{self, Holder},
    measured::{measured, peak_bytes},
    pretended::{Layout, Machine, topology},
    rounds::met_or_missed,
    scale::{self, Maps},
    scanning::{found, scan_and_plan},
};
use anyhow::Result;
use numaloc_core::{
    Extent, Identity, Kind, Mapping, Mempolicy, NodeId, NodeResidency, Options, Pages, Process,
    Residency, planner, planner::Scene,
};
use std::{hint::black_box, time::Instant};

/// Memory of the process that is planned for.
const TOTAL: u64 = 1 << 40;
/// Most memory that planning may take.
const PEAK_GOAL: u64 = 64 << 20;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Processes for each measurement; the medians are printed.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

#[derive(Debug, clap::Args)]
pub struct One {
    /// Number of extents to plan for.
    #[arg(long, default_value_t = 0)]
    extents: u64,
    /// Instead of extents: a real process to survey.
    #[arg(long)]
    pid: Option<i32>,
    /// Instead of extents: all processes of a simulated host, with page maps of this kind.
    #[arg(long, value_enum)]
    maps: Option<Maps>,
    /// All of these processes as one target.
    #[arg(long)]
    together: bool,
    /// Instead of extents: this many processes of a fake host to find and survey.
    #[arg(long)]
    crowd: Option<usize>,
    /// Instead of extents: a process of a fake host with this many GiB.
    #[arg(long)]
    vast: Option<u64>,
}

pub fn run(args: &Args) -> Result<()> {
    println!("planner, 1 TiB of 4 KiB pages on alternating nodes, medians of {}", args.rounds);
    let mut first = None;
    for extents in [1_000u64, 10_000, 100_000] {
        let peak = series(args.rounds, &["--extents", &extents.to_string()], extents, &mut first)?;
        if extents == 10_000 {
            let met = met_or_missed(peak as f64, PEAK_GOAL as f64);
            println!("{:>44} goal {} MiB: {met}", "", PEAK_GOAL >> 20);
        }
    }
    println!("\nsurvey and plan, 64 MiB in this number of VMAs of a real process");
    let mut first = None;
    for regions in [1_000, 10_000] {
        let args_of = hold::Args { mib: 64, regions, ..hold::Args::default() };
        let holder = Holder::start(&args_of)?;
        let pid = holder.pid().to_string();
        series(args.rounds, &["--pid", &pid], regions as u64, &mut first)?;
    }
    Ok(())
}

/// Does one measurement several times, prints the medians, and returns the peak memory of the whole process.
fn series(rounds: usize, words: &[&str], count: u64, first: &mut Option<f64>) -> Result<u64> {
    let results = measured::<3>(rounds, words)?;
    let median = |index: usize| {
        let mut values: Vec<u64> = results.iter().map(|result| result[index]).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    let (ns, before, peak) = (median(0), median(1), median(2));
    let each = ns as f64 / count as f64;
    let base = *first.get_or_insert(each);
    println!(
        "{count:>8} extents {:9.3} ms {each:8.0} ns each, ratio {:5.2}; peak {:6.1} MiB, {:6.1} of it for this",
        ns as f64 / 1e6,
        each / base,
        peak as f64 / 1048576.0,
        (peak - before) as f64 / 1048576.0,
    );
    Ok(peak)
}

/// The measuring process. Prints nanoseconds, and its peak memory in bytes before and after.
pub fn one(one: &One) -> Result<()> {
    if let Some(maps) = one.maps {
        return scale::one(maps, one.together);
    }
    if let Some(processes) = one.crowd {
        return scale::crowd::one(processes);
    }
    if let Some(gib) = one.vast {
        return scale::vast::one(gib);
    }
    let machine = Machine::new(Layout::HalfAway)?;
    let target = one.pid.map(|pid| found(&machine, pid)).transpose()?;
    let before = peak_bytes()?;
    let begin = Instant::now();
    match target {
        Some(target) => drop(black_box(scan_and_plan(&machine, target)?)),
        None => plan(one.extents),
    }
    println!("{} {before} {}", begin.elapsed().as_nanos(), peak_bytes()?);
    Ok(())
}

fn plan(extents: u64) {
    let topology = topology();
    let process = Process {
        identity: Identity { pid: 1, start_time: 1 },
        comm: "huge".into(),
        cpus: topology.nodes().flat_map(|node| node.cpus.iter().take(4)).collect(),
        threads: Vec::new(),
        mems_allowed: topology.with_memory(),
        device_nodes: Default::default(),
        swap_bytes: 0,
        page_table_bytes: 0,
        guest: None,
    };
    let scene =
        Scene { topology: &topology, processes: &[process], caller_mems: &topology.with_memory() };
    let bytes = TOTAL / extents;
    let extents = (0..extents).map(|index| extent(index * 2 * bytes, bytes));
    black_box(planner::plan(scene, extents, &Options::default()));
}

/// An extent of which half is on each of nodes 0 and 1.
fn extent(start: u64, bytes: u64) -> Extent {
    let half = NodeResidency { owned_bytes: bytes / 2, ..Default::default() };
    let nodes = [NodeId(0), NodeId(1)].map(|node| (node, half));
    Extent {
        mappings: vec![Mapping { process: 0, start }],
        pages: Pages::All,
        bytes,
        kind: Kind::Anonymous,
        policy: Mempolicy::Default,
        hugetlb_bytes: None,
        mappers: Default::default(),
        stripe: None,
        rule: None,
        name: "".into(),
        residency: Residency { nodes: nodes.into(), ..Residency::default() },
    }
}
