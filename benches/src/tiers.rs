//! Memory on two tiers by its use: where it is while the roles of busy and idle memory change, what movers report of what they have moved, and
//! how much they move until idle memory is on the slow node. The machine has a node without CPUs (tests/vm, `memonly`).

mod kernel;
mod pages;
mod process;

use crate::{
    damos::{self, Kdamond},
    figure::{Figure, kernel as release},
    hold::{self, Holder},
    movers::Mover,
    print,
    report::OVER_TIME,
    subject::{BY_KERNEL, DAMOS_TIERS, LEAST_MOVED, OURS_TIERS},
};
use anyhow::{Context, Result, ensure};
use numaloc_tests::{
    settings::{NUMA_BALANCING, Setting},
    truth::free_bytes,
};
use pages::Moved;
use process::{Share, Subject};
pub use process::{locked, roles};
use serde_json::Value;
use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// The node of the CPUs, and the slow one.
const FAST: u32 = 0;
const SLOW: u32 = 2;
const MIB: f64 = (1 << 20) as f64;
/// Changes of roles, and runs for each.
const PHASES: usize = 3;
const RUNS: usize = 2;
/// Free memory of the fast node that is nearly full.
const LEFT_FREE: u64 = 24 << 20;
/// Time that DAMON's schemes get.
const DAMOS_TIME: Duration = Duration::from_secs(30);
/// The state to reach: shares of idle memory on the slow node and of busy memory on the fast one.
const IDLE_SLOW: f64 = 0.95;
const BUSY_FAST: f64 = 0.98;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB of the process, of which a quarter is written all the time.
    #[arg(long, default_value_t = 256)]
    mib: usize,
    /// Seconds without use after which memory is cold.
    #[arg(long, default_value_t = 10)]
    cold_after: u64,
    /// Seconds for the kernel to reach the state.
    #[arg(long, default_value_t = 120)]
    cap: u64,
}

pub fn run(args: &Args) -> Result<()> {
    let slow = format!("/sys/devices/system/node/node{SLOW}");
    ensure!(
        Path::new(&slow).exists(),
        "{slow}: a node without CPUs is needed (--topology memonly)"
    );
    if let Some(why) = damos::missing() {
        println!("tiers: skipped: {why}");
        return Ok(());
    }
    // The kernel takes part as one of the movers itself.
    let _off = Setting::set_if_present(NUMA_BALANCING, "0");
    let _damon = Setting::set_if_present("/sys/module/damon_stat/parameters/enabled", "N");
    hold::touch_all(&[FAST, SLOW])?;
    roles_change(args)?;
    accounts(args)?;
    least_moved(args)
}

fn figure(
    args: &Args,
    case: &str,
    subject: &str,
    metric: &str,
    values: Vec<f64>,
) -> Result<Figure> {
    let unit = if metric.ends_with("of moved") { "share of moved bytes" } else { "MiB" };
    Ok(Figure {
        bench: "tiers".into(),
        kernel: release()?,
        case: format!("{} MiB, {case}", args.mib),
        subject: subject.into(),
        metric: metric.into(),
        unit: unit.into(),
        values,
    })
}

fn ours(args: &Args) -> Mover {
    let tiers = format!("--tiers=fast={FAST},slow={SLOW},cold_after={}s", args.cold_after);
    Mover::numalocctl("--tiers", &format!("--profile=fast {tiers}"))
}

/// Where busy and idle memory is, each second, while roles change and the same migration runs again and again.
fn roles_change(args: &Args) -> Result<()> {
    let mut subject = Subject::start(args.mib)?;
    let done = AtomicBool::new(false);
    let mover = ours(args);
    let (mut rows, busy) = (Vec::new(), std::sync::atomic::AtomicUsize::new(subject.busy));
    let regions = subject.regions();
    thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let (begin, mut rows) = (Instant::now(), Vec::new());
            while !done.load(Relaxed) {
                rows.push(regions.share(busy.load(Relaxed)));
                let next = Duration::from_secs(rows.len() as u64);
                thread::sleep(next.saturating_sub(begin.elapsed()));
            }
            rows
        });
        let moved = (0..PHASES).try_for_each(|phase| {
            if phase > 0 {
                busy.store(subject.rotate()?, Relaxed);
            }
            (0..RUNS).try_for_each(|_| mover.turn_of(subject.pid(), false).map(drop))
        });
        done.store(true, Relaxed);
        rows = sampler.join().expect("no panic");
        moved
    })?;
    let last = rows.last().context("it was looked at")?;
    println!("after the last run: {last:?}, {} bytes short", last.least());
    let of = |subject: &str, value: fn(&Share) -> u64| {
        let values = rows.iter().map(|row| value(row) as f64 / MIB).collect();
        figure(args, "roles change", subject, OVER_TIME, values)
    };
    print::figures(&[
        of("busy, fast node", |share| share.busy_fast)?,
        of("busy, slow node", |share| share.busy_slow)?,
        of("idle, fast node", |share| share.idle_fast)?,
        of("idle, slow node", |share| share.idle_slow)?,
    ])
}

/// What ours and DAMON report of a process whose idle memory is on the fast node, which is nearly full, and whose busy memory is on the slow one.
fn accounts(args: &Args) -> Result<()> {
    let case = "fast node nearly full";
    let mut figures = Vec::new();
    for by_damon in [false, true] {
        let subject = Subject::start(args.mib)?;
        subject.put_busy_on(SLOW)?;
        let mib = free_bytes(FAST).saturating_sub(LEFT_FREE) >> 20;
        let filled =
            hold::Args { mib: mib as usize, memory_node: Some(FAST), ..Default::default() };
        let _ballast = Holder::start_as("locked", &filled)?;
        let before = pages::of(subject.pid())?;
        let (name, reported) = if by_damon {
            let Some(kdamond) = Kdamond::tiers(subject.pid(), FAST, SLOW)? else {
                println!(
                    "{DAMOS_TIERS}: skipped: this kernel's schemes move no memory of a process"
                );
                continue;
            };
            thread::sleep(DAMOS_TIME);
            (DAMOS_TIERS, kdamond.applied_bytes()?)
        } else {
            let turn = ours(args).turn_of(subject.pid(), false)?;
            (OURS_TIERS, moved_bytes(&turn.report.context("it prints a report")?)?)
        };
        let moved = Moved::between(&before, &pages::of(subject.pid())?);
        println!("{name}: reports {reported} bytes; page maps: {moved:?}");
        let elsewhere = moved.not_to(&[FAST, SLOW]);
        let mut add = |metric: &str, bytes: f64| -> Result<()> {
            figures.push(figure(args, case, name, metric, vec![bytes])?);
            Ok(())
        };
        add("reported", reported as f64 / MIB)?;
        add("moved", moved.all() as f64 / MIB)?;
        add("moved to other nodes", elsewhere as f64 / MIB)?;
        if moved.all() > 0 {
            add("reported of moved", reported as f64 / moved.all() as f64)?;
        }
    }
    print::figures(&figures)
}

/// Bytes that a run reports as moved.
fn moved_bytes(report: &Value) -> Result<u64> {
    let flows = report.pointer("/outcome/flows").and_then(Value::as_array).context("flows")?;
    let bytes = |flow: &Value| {
        let bytes = flow["bytes"].as_u64().or_else(|| flow["bytes"].as_str()?.parse().ok());
        bytes.with_context(|| format!("no bytes: {flow}"))
    };
    flows.iter().map(bytes).sum()
}

/// Bytes moved until idle memory is on the slow node: the least possible, by ours, and by the kernel under pressure.
fn least_moved(args: &Args) -> Result<()> {
    let case = "until idle memory is below";
    let subject = Subject::start(args.mib)?;
    let least = subject.regions().share(subject.busy).least();
    let mut moved = 0;
    for _ in 0..4 {
        let before = pages::of(subject.pid())?;
        ours(args).turn_of(subject.pid(), false)?;
        moved += Moved::between(&before, &pages::of(subject.pid())?).all();
        if subject.regions().share(subject.busy).is_reached() {
            break;
        }
    }
    let share = subject.regions().share(subject.busy);
    println!("{OURS_TIERS}: {share:?}");
    ensure!(share.is_reached(), "{OURS_TIERS} has not reached the state: {share:?}");
    drop(subject);
    let by_kernel = kernel::moved_until_reached(args.mib, Duration::from_secs(args.cap))?;
    println!("{BY_KERNEL}: {by_kernel:?}");
    let of = |subject: &str, metric: &str, bytes: u64| {
        figure(args, case, subject, metric, vec![bytes as f64 / MIB])
    };
    print::figures(&[
        of(LEAST_MOVED, "moved", least)?,
        of(OURS_TIERS, "moved", moved)?,
        of(BY_KERNEL, "moved", by_kernel.demoted + by_kernel.promoted)?,
        of(BY_KERNEL, "demoted", by_kernel.demoted)?,
        of(BY_KERNEL, "promoted", by_kernel.promoted)?,
        of(BY_KERNEL, "idle, slow node", by_kernel.share.idle_slow)?,
        of(BY_KERNEL, "busy, fast node", by_kernel.share.busy_fast)?,
    ])
}
