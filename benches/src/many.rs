//! Cost of looks and moves near the limits of a process: very many mappings, very many threads, very much that is reserved; and of whole
//! commands for a process with little memory. They are compared with the least that has to be read, or has to be moved.
//!
//! On a machine with one node nothing can move: there `locality` runs as a program, and planning in this process, for page frames that are
//! dealt out to two nodes ([`Machine`]).

pub mod process;

use crate::{
    figure::{Figure, NATIVE, Series, kernel},
    hold::{self, Holder},
    movers::{AWAY, HOME, Mover, OURS, children, ensure_nodes, look},
    pretended::{Layout, Machine},
    print,
    scanning::{found, pass, scan_and_plan},
    subject::{ANOTHER_BUILD, LEAST, LEAST_LOOK, PLANNED_HERE},
};
use anyhow::{Context, Result, ensure};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};
use numaloc_core::page_size;
use numaloc_host::{FrameNodes, Roots};
use numaloc_tests::settings::{NUMA_BALANCING, Setting};
use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only cases with this word in their name; repeatable.
    #[arg(long)]
    case: Vec<String>,
    /// Another build of numalocctl, to compare with.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
}

/// Bytes that are read of a file at a time, as cat(1) does.
const READ: usize = 128 << 10;

/// What is measured, and how long it took in each round.
struct Subject<'a> {
    name: String,
    /// Whether it brings memory home. If so, all of it is on the other node before.
    moves: bool,
    run: Box<dyn Fn() -> Result<()> + 'a>,
    rounds: Vec<Cost>,
}

impl<'a> Subject<'a> {
    fn new(name: impl Into<String>, moves: bool, run: impl Fn() -> Result<()> + 'a) -> Self {
        Self { name: name.into(), moves, run: Box::new(run), rounds: Vec::new() }
    }
}

/// The cost of one turn.
#[derive(Clone, Copy, Debug)]
struct Cost {
    wall: Duration,
    /// User and system time, with that of programs that were started.
    cpu: Duration,
}

impl Cost {
    fn of(what: impl FnOnce() -> Result<()>) -> Result<Self> {
        let (used, begin) = (cpu_time()?, Instant::now());
        what()?;
        let wall = begin.elapsed();
        Ok(Self { wall, cpu: cpu_time()?.saturating_sub(used) })
    }
}

/// User and system time of this process and its children that have ended.
fn cpu_time() -> Result<Duration> {
    let own = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = (own.user_time() + own.system_time()).num_microseconds();
    Ok(children()? + Duration::from_micros(micros.try_into()?))
}

/// The machine, and what is asked for.
struct Scene<'a> {
    args: &'a Args,
    kernel: String,
    /// Whether memory can move.
    has_nodes: bool,
    frames: FrameNodes,
    /// For planning in this process.
    machine: Machine,
}

/// Measures all cases.
pub fn run(args: &Args) -> Result<()> {
    let has_nodes = ensure_nodes(&[HOME, AWAY]).is_ok();
    // The kernel's balancing would mark and move pages even without a look.
    let _off = Setting::set_if_present(NUMA_BALANCING, "0");
    let scene = Scene {
        args,
        kernel: if has_nodes { kernel()? } else { NATIVE.into() },
        has_nodes,
        frames: FrameNodes::read(&Roots::default())?,
        machine: Machine::new(Layout::HalfAway)?,
    };
    if has_nodes {
        hold::touch_all(&[HOME, AWAY])?;
    }
    let cases: [(String, &str, usize); 4] = [
        (process::mappings(), "divided", process::MIB),
        (process::threads(), "threads", process::LITTLE_MIB),
        (process::reserved(), "reserved", process::RESIDENT_MIB),
        (process::little(), "hold", process::LITTLE_MIB),
    ];
    for (case, subcommand, mib) in cases {
        if args.case.is_empty() || args.case.iter().any(|word| case.contains(word)) {
            scene.case(&case, subcommand, mib)?;
        }
    }
    Ok(())
}

impl Scene<'_> {
    /// Measures one process.
    fn case(&self, case: &str, subcommand: &str, mib: usize) -> Result<()> {
        let node = |node| self.has_nodes.then_some(node);
        let (cpu_node, memory_node) = (node(HOME), node(AWAY));
        let target = hold::Args { mib, cpu_node, memory_node, ..hold::Args::default() };
        let mut holder = Holder::start_as(subcommand, &target)?;
        if subcommand != "hold" {
            // It answers once it is as it shall be.
            ensure!(!holder.ask()?.is_empty(), "{subcommand} has ended");
        }
        let holder = &holder;
        let addresses: Vec<u64> =
            (0..holder.pages()).map(|page| holder.range.start + page * page_size()).collect();
        let pid = holder.pid();
        let processes = found(&self.machine, pid)?;
        let mut subjects = vec![Subject::new(LEAST_LOOK, false, || match subcommand {
            "threads" => read_status(pid),
            "reserved" => read(pid, "numa_maps"),
            _ => {
                read(pid, "numa_maps")?;
                pass(holder, &self.frames).map(drop)
            }
        })];
        let mut programs = vec![(Path::new(OURS), "")];
        programs.extend(self.args.beside.as_deref().map(|program| (program, ANOTHER_BUILD)));
        for (program, note) in programs {
            let command = |command: &'static str| {
                let name = format!("numalocctl {command}{note}");
                Subject::new(name, false, move || look(program, command, pid))
            };
            subjects.push(command("locality"));
            if self.has_nodes {
                subjects.push(command("plan"));
            }
            // All that the other targets have is looked at, and moved of the ones whose pages are in one place.
            if self.has_nodes && matches!(subcommand, "divided" | "hold") {
                for mover in [Mover::numalocctl("migrate", ""), Mover::profile("fast")?] {
                    let mover = if note.is_empty() { mover } else { mover.by(program) };
                    let name = mover.name.clone();
                    subjects.push(Subject::new(name, true, move || {
                        mover.turn(holder, false).map(drop)
                    }));
                }
            }
        }
        if self.has_nodes && matches!(subcommand, "divided" | "hold") {
            subjects.push(Subject::new(LEAST, true, || {
                pass(holder, &self.frames)?;
                holder.put(&addresses, HOME)
            }));
        } else if !self.has_nodes {
            subjects.push(Subject::new(PLANNED_HERE, false, || {
                scan_and_plan(&self.machine, processes.clone()).map(drop)
            }));
        }
        self.measure(&mut subjects, holder, &addresses)?;
        print::figures(&figures(&self.kernel, case, &subjects))
    }

    /// Has the subjects take turns. The first round warms up what the others use, so it does not count.
    fn measure(
        &self,
        subjects: &mut [Subject<'_>],
        holder: &Holder,
        addresses: &[u64],
    ) -> Result<()> {
        for round in 0..=self.args.rounds {
            for Subject { name, moves, run, rounds } in subjects.iter_mut() {
                if *moves {
                    holder.put(addresses, AWAY)?;
                }
                let cost = Cost::of(run).with_context(|| name.clone())?;
                if *moves {
                    let left = pass(holder, &self.frames)?[AWAY as usize];
                    ensure!(left == 0, "{name} left {left} pages");
                }
                if round > 0 {
                    rounds.push(cost);
                }
            }
            // What looks find is the same in each round.
            if self.has_nodes && subjects.iter().any(|subject| subject.moves) {
                holder.put(addresses, AWAY)?;
            }
        }
        Ok(())
    }
}

fn figures(kernel: &str, case: &str, subjects: &[Subject<'_>]) -> Vec<Figure> {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let of = |subject: &Subject<'_>| {
        let Subject { name, rounds, .. } = subject;
        let series = Series { bench: "many", kernel, case, subject: name, rounds };
        [
            series.figure("wall", "ms", |cost| milliseconds(cost.wall)),
            series.figure("cpu", "ms", |cost| milliseconds(cost.cpu)),
        ]
    };
    subjects.iter().flat_map(of).collect()
}

/// Reads a file of the process through.
fn read(pid: i32, name: &str) -> Result<()> {
    let path = format!("/proc/{pid}/{name}");
    let mut file = File::open(&path).with_context(|| path.clone())?;
    let mut buffer = vec![0; READ];
    while file.read(&mut buffer).with_context(|| path.clone())? > 0 {}
    Ok(())
}

/// Reads the status of each thread once.
fn read_status(pid: i32) -> Result<()> {
    let mut count = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        count += usize::from(!fs::read(task?.path().join("status"))?.is_empty());
    }
    ensure!(count > process::THREADS, "{count} threads");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subject_has_a_figure_for_both_times() {
        let cost = |wall: u64, cpu: u64| Cost {
            wall: Duration::from_millis(wall),
            cpu: Duration::from_millis(cpu),
        };
        let mut subject = Subject::new("numalocctl plan", false, || Ok(()));
        subject.rounds = vec![cost(30, 20), cost(10, 8)];
        let figures = figures("6.12", "4 MiB", &[subject]);
        let of = |figure: &Figure| (figure.metric.clone(), figure.values.clone());
        let values: Vec<_> = figures.iter().map(of).collect();
        assert_eq!(values, [("wall".into(), vec![30.0, 10.0]), ("cpu".into(), vec![20.0, 8.0])]);
        assert!(figures.iter().all(|figure| figure.subject == "numalocctl plan"));
    }

    #[test]
    fn a_turn_costs_the_time_that_it_takes() {
        let mut sum = 0u64;
        let cost = Cost::of(|| {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(5) {
                sum = sum.wrapping_add(std::hint::black_box(1));
            }
            Ok(())
        });
        assert!(cost.expect("it cannot fail").wall >= Duration::from_millis(5));
        assert!(Cost::of(|| anyhow::bail!("no")).is_err());
    }

    #[test]
    fn what_is_read_of_a_process_exists() {
        let pid = std::process::id().cast_signed();
        read(pid, "maps").expect("its own");
        let error = read(pid, "nothing").expect_err("no such file");
        assert!(format!("{error:#}").contains(&format!("/proc/{pid}/nothing")), "{error:#}");
        let error = read_status(pid).expect_err("far fewer threads");
        assert!(error.to_string().ends_with("threads"), "{error}");
    }
}
