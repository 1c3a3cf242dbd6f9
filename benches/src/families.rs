//! Planning for many processes that share memory, against planning for one that maps it alone.
//!
//! The planner should look at shared memory about once, however many processes map it. Memory that each process has
//! for itself is looked at for each.

use crate::{
    figure::{Figure, NATIVE},
    hold::{self, Holder},
    pretended::{Layout, Machine},
    print,
    rounds::{Candidate, measure},
    scanning::{found, scan_and_plan},
    subject::{ADDED, FAMILY, LINEAR, ONE},
};
use anyhow::{Result, ensure};
use numaloc_core::Process;
use std::fs::File;

/// Number of processes, and their memory.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of processes that share memory; repeatable.
    #[arg(long, default_values_t = [200, 2000])]
    processes: Vec<usize>,
    /// MiB of shared memory that each of them maps and has touched.
    #[arg(long, default_value_t = 256)]
    mib: usize,
    /// Rounds that count.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
}

/// Measures families of all sizes.
pub fn run(args: &Args) -> Result<()> {
    args.processes.iter().try_for_each(|&processes| compare(processes, args))
}

/// Plans for all processes, for a tenth and for one of them, and for the same number of processes without the shared memory.
fn compare(processes: usize, args: &Args) -> Result<()> {
    let &Args { mib, rounds, .. } = args;
    println!("{processes} processes that share {mib} MiB, medians of {rounds} rounds");
    let machine = Machine::new(Layout::HalfAway)?;
    let directory = tempfile::tempdir_in("/dev/shm")?;
    let segment = directory.path().join("segment");
    File::create(&segment)?.set_len((mib as u64) << 20)?;
    let hold = |mib: usize, count: usize| -> Result<Vec<Holder>> {
        let file = (mib > 0).then(|| segment.clone());
        let args = hold::Args { mib: mib.max(1), file, ..hold::Args::default() };
        (0..count).map(|_| Holder::start(&args)).collect()
    };
    let of = |holders: &[Holder]| -> Result<Vec<Process>> {
        let each = holders.iter().map(|holder| found(&machine, holder.pid()));
        Ok(each.collect::<Result<Vec<_>>>()?.concat())
    };
    let bytes = (mib as u64) << 20;
    let plan = |processes: &[Process], least: u64| -> Result<()> {
        let overall = scan_and_plan(&machine, processes.to_vec())?.locality.overall;
        let seen = overall.local_bytes + overall.remote_bytes;
        ensure!(seen >= least && seen < least + (8 << 20) * processes.len() as u64, "{seen} bytes");
        Ok(())
    };
    let (family, apart) = (hold(mib, processes)?, hold(0, processes)?);
    let tenth = (processes / 10).max(1);
    let (all, one, without) = (of(&family)?, of(&family[..1])?, of(&apart)?);
    let few = of(&family[..tenth])?;
    let mut candidates = [
        Candidate::new(ONE, || plan(&one, bytes)),
        Candidate::new(FAMILY, || plan(&all, bytes)),
        Candidate::new(WITHOUT, || plan(&without, 0)),
        Candidate::new(TENTH, || plan(&few, bytes)),
    ];
    measure(&mut candidates, rounds)?;
    let seconds = |index: usize| candidates[index].times().iter().map(|time| time.as_secs_f64());
    let figure = |subject: &str, values: Vec<f64>| Figure {
        bench: "families".into(),
        kernel: NATIVE.into(),
        case: format!("{processes} processes, {mib} MiB shared"),
        subject: subject.into(),
        metric: "plan".into(),
        unit: "ms".into(),
        values: values.into_iter().map(|seconds| seconds * 1e3).collect(),
    };
    // The time that the shared memory adds to the time for the processes themselves, round by round.
    let added = seconds(1).zip(seconds(2)).map(|(all, without)| (all - without).max(0.0));
    let factor = (processes - 1) as f64 / (tenth - 1).max(1) as f64;
    let linear = seconds(0).zip(seconds(3)).map(|(one, few)| one + factor * (few - one).max(0.0));
    print::figures(&[
        figure(ONE, seconds(0).collect()),
        figure(FAMILY, seconds(1).collect()),
        figure(WITHOUT, seconds(2).collect()),
        figure(ADDED, added.collect()),
        figure(TENTH, seconds(3).collect()),
        figure(LINEAR, linear.collect()),
    ])
}

const TENTH: &str = "a tenth of them";
const WITHOUT: &str = "the same number without the shared memory";
