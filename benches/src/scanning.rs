//! Finding all pages of a process and planning for them, against the bare interfaces of the kernel.

use crate::{
    figure::{Figure, NATIVE},
    hold::{self, Holder, Pages},
    pretended::{Layout, Machine},
    print,
    rounds::{Candidate, measure},
};
use anyhow::{Result, ensure};
use numaloc_core::{Options, Plan, Process, page_size, pmd_size};
use numaloc_host::{
    Entry, FrameNodes, Roots, Source, Surveyor, Target, probe::OwnPageMap, resolve,
};
use numaloc_sys::query_pages;
use numaloc_tests::truth::Truth;
use std::{fs::File, os::unix::fs::FileExt};

/// Bytes of pagemap that are read at a time.
const READ: usize = 32 << 10;
const QUERY: usize = 4096;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB of memory that is filled.
    #[arg(long, default_value_t = 4096)]
    mib: usize,
    /// Rounds that count.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
}

/// Measures base pages, then huge pages.
pub fn run(args: &Args) -> Result<()> {
    let real = Roots::default();
    ensure!(Source::probe(&real) == Source::Pagemap, "page frames are hidden: run it as root");
    println!("scan and plan, {} MiB populated, medians of {} rounds", args.mib, args.rounds);
    for huge in [false, true] {
        let pages = if huge { Pages::Huge } else { Pages::Base };
        let target = hold::Args { mib: args.mib, pages, ..hold::Args::default() };
        let holder = Holder::start(&target)?;
        println!(
            "{}: {} MiB of it in huge pages",
            if huge { "THP" } else { "4 KiB pages" },
            holder.huge_kib()? >> 10
        );
        compare(&holder, args.rounds, huge)?;
    }
    if !OwnPageMap::open(&real).can_scan() {
        println!("\nthis kernel has no PAGEMAP_SCAN: the goal for THP does not apply");
    }
    Ok(())
}

fn compare(holder: &Holder, rounds: usize, huge: bool) -> Result<()> {
    let home = Machine::new(Layout::Home)?;
    let away = Machine::new(Layout::HalfAway)?;
    let frames = FrameNodes::read(&home.roots)?;
    let processes = found(&home, holder.pid())?;
    let mut candidates = vec![
        Candidate::new("bare pagemap, looked up", || bare(holder, Some(&frames))),
        Candidate::new("pagemap read only", || bare(holder, None)),
        Candidate::new("numaloc, all at home", || ours(&home, &processes, holder)),
        Candidate::new("numaloc, half away (numa_maps too)", || ours(&away, &processes, holder)),
        Candidate::new("numa_maps, parsed", || numa_maps(holder)),
        Candidate::new("move_pages query, every page", || query(holder, page_size())),
    ];
    if huge {
        candidates.push(Candidate::new("move_pages query, one a huge page", || {
            query(holder, pmd_size())
        }));
    }
    measure(&mut candidates, rounds)?;
    let figures = candidates.iter().map(|candidate| Figure {
        bench: "scan".into(),
        kernel: NATIVE.into(),
        case: if huge { "THP" } else { "4 KiB pages" }.into(),
        subject: candidate.name.clone(),
        metric: "scan".into(),
        unit: "ns for 4 KiB".into(),
        values: candidate
            .times()
            .iter()
            .map(|time| time.as_secs_f64() * 1e9 / holder.pages() as f64)
            .collect(),
    });
    print::figures(&figures.collect::<Vec<_>>())
}

/// Reads the pagemap of the region. With `frames` it also looks up the node of each page.
fn bare(holder: &Holder, frames: Option<&FrameNodes>) -> Result<()> {
    let Some(frames) = frames else { return read(holder, |_| Ok(())) };
    let nodes = pass(holder, frames)?;
    ensure!(nodes[0] == holder.pages(), "pages are missing: {nodes:?}");
    Ok(())
}

/// Pages of the region on nodes 0 and 1, by one pass over its pagemap.
pub fn pass(holder: &Holder, frames: &FrameNodes) -> Result<[u64; 2]> {
    let mut nodes = [0u64; 2];
    read(holder, |entries| {
        for entry in entries.chunks_exact(8) {
            let entry = Entry(u64::from_ne_bytes(entry.try_into()?));
            if let Some(node) = frames.node(entry.pfn()).filter(|_| entry.is_present()) {
                nodes[node.0 as usize] += 1;
            }
        }
        Ok(())
    })?;
    Ok(nodes)
}

fn read(holder: &Holder, mut entries: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let file = File::open(format!("/proc/{}/pagemap", holder.pid()))?;
    let mut buffer = [0; READ];
    for address in holder.range.clone().step_by(READ / 8 * page_size() as usize) {
        let bytes = (((holder.range.end - address) / page_size() * 8) as usize).min(READ);
        file.read_exact_at(&mut buffer[..bytes], address / page_size() * 8)?;
        entries(&buffer[..bytes])?;
    }
    Ok(())
}

/// The process as a target.
pub fn found(machine: &Machine, pid: i32) -> Result<Vec<Process>> {
    Ok(resolve(&machine.roots, &[Target::Pid(pid)], &machine.topology)?.processes)
}

/// Surveys processes and makes a plan.
pub fn scan_and_plan(machine: &Machine, processes: Vec<Process>) -> Result<Plan> {
    let Machine { roots, topology, .. } = machine;
    let options = Options::default();
    let (_survey, seen) = Surveyor::new(roots, topology, &options).survey(processes, None)?;
    Ok(seen.plan(topology, &options))
}

fn ours(machine: &Machine, processes: &[Process], holder: &Holder) -> Result<()> {
    let overall = scan_and_plan(machine, processes.to_vec())?.locality.overall;
    let found = overall.local_bytes + overall.remote_bytes;
    ensure!(found >= holder.pages() * page_size(), "pages are missing: {found} bytes found");
    Ok(())
}

fn numa_maps(holder: &Holder) -> Result<()> {
    let pages = Truth::of(holder.pid()).all().values().sum::<u64>() / page_size();
    ensure!(pages >= holder.pages(), "pages are missing: {pages} found");
    Ok(())
}

fn query(holder: &Holder, step: u64) -> Result<()> {
    let mut next = holder.range.start;
    let mut found = 0;
    while next < holder.range.end {
        let addresses: Vec<u64> =
            (next..holder.range.end).step_by(step as usize).take(QUERY).collect();
        let mut status = vec![0; addresses.len()];
        query_pages(holder.pid(), &addresses, &mut status)?;
        found += status.iter().filter(|&&node| node >= 0).count() as u64;
        next += addresses.len() as u64 * step;
    }
    ensure!(found * step >= holder.pages() * page_size(), "pages are missing: {found} found");
    Ok(())
}
