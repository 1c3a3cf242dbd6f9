//! Costs of watching how memory is used, as placements on two tiers need it: CPU time of DAMON's thread and of this process, and the rate
//! of the writers whose memory is watched against their rate alone. Rounds with and without watching take turns.

use crate::{
    figure::{Figure, Series, kernel},
    hold::{self, Holder},
    print,
};
use anyhow::{Context, Result, ensure};
use nix::{
    sys::resource::{UsageWho, getrusage},
    unistd::{SysconfVar, sysconf},
};
use numaloc_core::{Options, Temperature, Tiers, pmd_size};
use numaloc_host::{Roots, Surveyor, Target, heat, resolve, topology};
use numaloc_tests::settings::Setting;
use std::{
    fs,
    io::{self, BufRead, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Processes that are watched.
    #[arg(long, default_value_t = 4)]
    targets: usize,
    /// MiB of each, of which a quarter is written all the time.
    #[arg(long, default_value_t = 256)]
    mib: usize,
    /// Seconds without use after which memory is cold: a round takes a tenth more.
    #[arg(long, default_value_t = 10)]
    cold_after: u64,
    /// Rounds of each kind.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// What a round has cost, and what the writers did meanwhile.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Pages written each second, of all writers together.
    rate: f64,
    /// Share of one CPU that DAMON's thread and this process took.
    cpu_share: f64,
    /// The part of it that is DAMON's thread.
    damon_share: f64,
    /// The part of it that is the survey before.
    survey_share: f64,
    /// Share of the memory that was found hot, in percent.
    hot_percent: f64,
}

pub fn run(args: &Args) -> Result<()> {
    // Newer kernels start with a user of DAMON of their own.
    let _free = Setting::set_if_present("/sys/module/damon_stat/parameters/enabled", "N");
    let kernel = kernel()?;
    let target = hold::Args { mib: args.mib, ..hold::Args::default() };
    let start = |_| Holder::start_as("quarter", &target);
    let mut writers = (0..args.targets).map(start).collect::<Result<Vec<_>>>()?;
    let tiers = Tiers { cold_after: Duration::from_secs(args.cold_after), ..Tiers::default() };
    let (mut idle, mut watched) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        idle.push(round(&mut writers, || {
            thread::sleep(tiers.watching());
            Ok(Watched::default())
        })?);
        let pids: Vec<Target> = writers.iter().map(|writer| Target::Pid(writer.pid())).collect();
        watched.push(round(&mut writers, || watch(&pids, &tiers))?);
    }
    let case = format!("{} targets of {} MiB", args.targets, args.mib);
    let series = |subject, rounds| Series {
        bench: "watched",
        kernel: &kernel,
        case: &case,
        subject,
        rounds,
    };
    let (idle, watched) = (series("idle", &idle), series("watched", &watched));
    let rate =
        |series: &Series<'_, Round>| series.figure("writer pages", "1/s", |round| round.rate);
    let figures: [Figure; 6] = [
        rate(&idle),
        rate(&watched),
        watched.figure("CPU", "ratio", |round| round.cpu_share),
        watched.figure("CPU of DAMON", "ratio", |round| round.damon_share),
        watched.figure("CPU of the survey", "ratio", |round| round.survey_share),
        watched.figure("hot", "% of memory", |round| round.hot_percent),
    ];
    print::figures(&figures)
}

/// What watching has found.
#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    /// CPU time of the survey that finds what is to be watched.
    survey: Duration,
    /// Share of the memory that was hot, in percent.
    hot_percent: f64,
}

/// Surveys the memory of these targets, and then watches it for as long as the tiers need.
fn watch(targets: &[Target], tiers: &Tiers) -> Result<Watched> {
    let before = cpu_time()?;
    let (roots, options) = (Roots::default(), Options::default());
    let topology = topology::topology(&roots)?;
    let processes = resolve(&roots, targets, &topology)?.processes;
    let surveyor = Surveyor::new(&roots, &topology, &options);
    let (survey, seen) = surveyor.survey(processes, None)?;
    let nodes = topology.with_memory();
    let survey_time = cpu_time()? - before;
    let used = heat::watch(&roots, &survey, &seen.extents, &nodes, tiers, &|| false)?;
    let largest = seen.extents.iter().filter(|extent| extent.bytes >= 64 << 20);
    let (mut hot, mut all) = (0_u64, 0_u64);
    for extent in largest {
        let mapping = extent.mappings[0];
        let identity = survey.spaces[mapping.process].process.identity;
        for start in (0..extent.bytes).step_by(pmd_size() as usize) {
            let range =
                mapping.start + start..mapping.start + (start + pmd_size()).min(extent.bytes);
            all += 1;
            hot += u64::from(used.of([(identity, range)]) == Temperature::Hot);
        }
    }
    ensure!(all > 0, "nothing was watched");
    Ok(Watched { survey: survey_time, hot_percent: hot as f64 * 100.0 / all as f64 })
}

fn round(writers: &mut [Holder], meanwhile: impl FnOnce() -> Result<Watched>) -> Result<Round> {
    let count = |writers: &mut [Holder]| -> Result<u64> {
        let counts = writers.iter_mut().map(|writer| Ok(writer.ask()?.trim().parse::<u64>()?));
        counts.sum()
    };
    let (own, begin, before) = (cpu_time()?, Instant::now(), count(writers)?);
    let (watched, damon, following) = thread::scope(|scope| {
        let damon = scope.spawn(|| (follow(), cpu_time_of(UsageWho::RUSAGE_THREAD)));
        let watched = meanwhile();
        DONE.store(1, Relaxed);
        let (damon, following) = damon.join().expect("no panic");
        DONE.store(0, Relaxed);
        Ok::<_, anyhow::Error>((watched?, damon, following?))
    })?;
    let (written, elapsed) = (count(writers)? - before, begin.elapsed().as_secs_f64());
    // To follow DAMON's thread is a cost of the measurement.
    let cpu = damon + (cpu_time()? - own).saturating_sub(following);
    Ok(Round {
        rate: written as f64 / elapsed,
        cpu_share: cpu.as_secs_f64() / elapsed,
        damon_share: damon.as_secs_f64() / elapsed,
        survey_share: watched.survey.as_secs_f64() / elapsed,
        hot_percent: watched.hot_percent,
    })
}

/// Pauses between two looks at DAMON's thread, and between two searches for it.
const OFTEN: Duration = Duration::from_millis(250);
const RARELY: Duration = Duration::from_secs(2);

/// Set once a round's work is done.
static DONE: AtomicU64 = AtomicU64::new(0);

/// CPU time of DAMON's thread until a round's work is done. The thread exists only while it watches. To look for it among all processes costs
/// more than it does itself, so that is rare.
fn follow() -> Duration {
    let (mut last, mut stat) = (Duration::ZERO, None);
    while DONE.load(Relaxed) == 0 {
        stat = stat.or_else(kdamond);
        last = stat.as_deref().and_then(cpu_of).unwrap_or(last).max(last);
        thread::sleep(if stat.is_some() { OFTEN } else { RARELY });
    }
    last
}

/// The file with the CPU time of DAMON's thread, if there is one.
fn kdamond() -> Option<PathBuf> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut stats = processes.map(|entry| entry.path().join("stat"));
    stats.find(|stat| fs::read_to_string(stat).is_ok_and(|text| text.contains(" (kdamond.")))
}

/// CPU time of the thread with this file; `None`: it has ended.
fn cpu_of(stat: &Path) -> Option<Duration> {
    let tick = sysconf(SysconfVar::CLK_TCK).ok()??;
    let text = fs::read_to_string(stat).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_secs_f64(ticks as f64 / tick as f64))
}

fn cpu_time() -> Result<Duration> {
    cpu_time_of(UsageWho::RUSAGE_SELF)
}

fn cpu_time_of(who: UsageWho) -> Result<Duration> {
    let usage = getrusage(who).context("getrusage")?;
    let span = |time: nix::sys::time::TimeVal| {
        Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000)
    };
    Ok(span(usage.user_time()) + span(usage.system_time()))
}

/// The process that is watched: it writes a word of each page of the first quarter of its memory over and over, and answers how many.
pub fn quarter(args: &hold::Args) -> Result<()> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let regions = hold::fill(args)?;
    thread::spawn(move || {
        loop {
            for region in &regions {
                for page in 0..region.pages() / 4 {
                    region.page(page)[0].fetch_add(1, Relaxed);
                    WRITTEN.fetch_add(1, Relaxed);
                }
            }
            // A writer that takes all of a CPU would be slowed down by whatever else runs.
            thread::sleep(Duration::from_millis(20));
        }
    });
    for line in io::stdin().lock().lines() {
        line?;
        println!("{}", WRITTEN.load(Relaxed));
        io::stdout().flush()?;
    }
    Ok(())
}
