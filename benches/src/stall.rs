//! Stalls of an application while its memory is moved. For emulated machines with one CPU for each node and no more
//! CPUs than there are real ones: the target's CPU and the mover's CPU are both busy all the time.

pub mod busy;
mod redis;

use crate::{
    cache::Cache,
    figure::{Figure, Series, kernel},
    hold::{self, Holder, Pages},
    movers::{AWAY, HOME, Mover, Turn},
    print,
};
use anyhow::Result;
use busy::{PERCENTILES, Window};
use numaloc_tests::settings::{NUMA_BALANCING, Setting};
use std::{path::PathBuf, thread, time::Duration};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB to move.
    #[arg(long, default_value_t = 192)]
    mib: usize,
    /// Number of rounds; one less with Redis.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Our own process of 4 KiB pages also to a node that is full of unused page cache.
    #[arg(long)]
    full: bool,
    /// Only these applications; repeatable.
    #[arg(long, value_enum)]
    of: Vec<Of>,
    /// Further options of `numalocctl migrate` in one word; repeatable. Each becomes a subject of its own.
    #[arg(long, allow_hyphen_values = true)]
    with: Vec<String>,
    /// Another build of numalocctl, to compare with.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
    /// Only subjects with this word in their name; repeatable.
    #[arg(long)]
    subject: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Of {
    Base,
    Huge,
    Redis,
}

/// Time for which an application is watched while nothing disturbs it.
const IDLE: Duration = Duration::from_secs(1);
/// Time that an application needs to reach its normal speed.
const SETTLING: Duration = Duration::from_millis(300);

/// A mover, and what the application felt of it.
struct Subject {
    mover: Mover,
    shown: Vec<Shown>,
}

struct Shown {
    turn: Turn,
    before: Window,
    during: Window,
    after: Window,
}

/// Measures our own process, then Redis.
pub fn run(args: &Args) -> Result<()> {
    // The kernel's balancing would move pages of a busy process, too.
    let _off = Setting::set_if_present(NUMA_BALANCING, "0");
    let kernel = kernel()?;
    hold::touch_all(&[HOME, AWAY])?;
    let wanted = |of| args.of.is_empty() || args.of.contains(&of);
    for (of, pages) in [(Of::Base, Pages::Base), (Of::Huge, Pages::Huge)] {
        if wanted(of) {
            compare(args, pages, None, &kernel)?;
        }
    }
    if args.full {
        let cache = Cache::new(args.mib + args.mib / 2)?;
        compare(args, Pages::Base, Some(&cache), &kernel)?;
    }
    if wanted(Of::Redis) {
        redis::run(args.rounds.saturating_sub(1).max(1), &kernel)?;
    }
    Ok(())
}

fn compare(args: &Args, pages: Pages, cache: Option<&Cache>, kernel: &str) -> Result<()> {
    let mut movers = vec![Mover::nothing(IDLE), Mover::migratepages(), Mover::paced()];
    for profile in ["gentle", "balanced", "fast"] {
        movers.push(Mover::profile(profile)?);
    }
    movers.extend(args.with.iter().map(|with| Mover::numalocctl(with, with)));
    Mover::add_another_build(&mut movers, args.beside.as_deref());
    movers.retain(|mover| mover.is_one_of(&args.subject));
    let subjects = movers.into_iter().map(|mover| Subject { mover, shown: Vec::new() });
    let mut subjects = subjects.collect::<Vec<_>>();
    for _ in 0..args.rounds {
        for subject in &mut subjects {
            let shown = turn(args.mib, pages, cache, &subject.mover)?;
            subject.shown.push(shown);
        }
    }
    let case = match (pages, cache) {
        (Pages::Huge, _) => format!("{} MiB of THP", args.mib),
        (_, None) => format!("{} MiB of 4 KiB pages", args.mib),
        (_, Some(_)) => format!("{} MiB of 4 KiB pages to a node full of cache", args.mib),
    };
    let figures = subjects.iter().flat_map(|subject| subject.figures(kernel, &case));
    print::figures(&figures.collect::<Vec<_>>())
}

/// Moves the memory of a new process once.
fn turn(mib: usize, pages: Pages, cache: Option<&Cache>, mover: &Mover) -> Result<Shown> {
    let (cpu_node, memory_node) = (Some(HOME), Some(AWAY));
    let target = hold::Args { mib, pages, cpu_node, memory_node, ..hold::Args::default() };
    // An emulated CPU that runs only one process collects the translations of all its memory, which no real CPU can do, and loses
    // them with the move. The writer would then seem to be slowed down long after the move. So another process takes turns with
    // it.
    let other = hold::Args { mib: 2, cpu_node, memory_node: Some(HOME), ..hold::Args::default() };
    let _other = Holder::start_as("tick", &other)?;
    let mut holder = Holder::start_as("busy", &target)?;
    cache.map_or(Ok(()), Cache::fill)?;
    thread::sleep(SETTLING);
    window(&mut holder)?;
    thread::sleep(IDLE);
    let before = window(&mut holder)?;
    let turn = mover.turn(&holder, true)?;
    let during = window(&mut holder)?;
    thread::sleep(IDLE);
    let after = window(&mut holder)?;
    mover.destination().map_or(Ok(()), |node| holder.ensure_on(node, &mover.name))?;
    Ok(Shown { turn, before, during, after })
}

/// The operations since the last call.
fn window(holder: &mut Holder) -> Result<Window> {
    Ok(serde_json::from_str(&holder.ask()?)?)
}

impl Subject {
    fn figures(&self, kernel: &str, case: &str) -> Vec<Figure> {
        let (subject, rounds) = (&*self.mover.name, &*self.shown);
        let series = Series { bench: "stall", kernel, case, subject, rounds };
        let figure = |metric: &str, unit: &str, value: &dyn Fn(&Shown) -> f64| {
            series.figure(metric, unit, value)
        };
        let writes = |window: &Window| window.writes.operations as f64 / window.seconds;
        let maps = |window: &Window| window.maps.operations as f64 / window.seconds;
        let share = |metric, value| figure(metric, "share of idle", value);
        let mut figures = Vec::new();
        if self.mover.moves() {
            figures.push(figure("wall", "ms", &|of| of.turn.wall.as_secs_f64() * 1e3));
        }
        figures.extend([
            share("writer operations", &|of| writes(&of.during) / writes(&of.before)),
            share("writer operations after", &|of| writes(&of.after) / writes(&of.before)),
            share("map operations", &|of| maps(&of.during) / maps(&of.before)),
        ]);
        for (index, (name, _)) in PERCENTILES.iter().enumerate() {
            figures.push(figure(&format!("map {name}"), "ms", &|of| of.during.maps.ms[index]));
            let metric = format!("16 writes {name}");
            figures.push(figure(&metric, "ms", &|of| of.during.writes.ms[index]));
        }
        figures
    }
}
