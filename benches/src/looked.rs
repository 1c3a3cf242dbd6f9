//! Stalls of an application that is surveyed again and again, but not moved. For machines with one CPU for each node.

use crate::{
    figure::{Figure, kernel},
    hold::{self, Holder},
    movers::{AWAY, HOME, OURS, look},
    print,
    stall::busy::{PERCENTILES, Window},
};
use anyhow::{Context, Result, ensure};
use numaloc_tests::{
    cpus::pinned,
    settings::{NUMA_BALANCING, Setting},
};
use serde_json::Value;
use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    os::unix::fs::FileExt,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB of memory of the application, in one mapping on the other node.
    #[arg(long, default_value_t = 2048)]
    mib: usize,
    /// Number of rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds for each subject in a round.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Only subjects with this word in their name; repeatable. `idle` is always measured.
    #[arg(long)]
    subject: Vec<String>,
}

/// Bytes of the page map that are read at a time, like numaloc does.
const CHUNK: usize = 4096 * 8;

/// The program that looks at the application.
#[derive(Clone, Copy, PartialEq)]
enum Looker {
    None,
    /// No program looks, but the other CPU is busy. This shows what the emulated CPUs take from each other.
    Busy,
    /// Runs `numalocctl` with this command, again and again.
    Numalocctl(&'static str),
    /// Runs `numalocctl top`, for as long as is measured.
    Top,
    /// Reads a file in the process's directory again and again, in reads as small as a line.
    File(&'static str),
    /// Reads all of its page map.
    Pagemap,
}

const LOOKERS: [(&str, Looker); 8] = [
    ("idle", Looker::None),
    ("busy elsewhere", Looker::Busy),
    ("numalocctl plan", Looker::Numalocctl("plan")),
    ("numalocctl locality", Looker::Numalocctl("locality")),
    ("numalocctl top", Looker::Top),
    ("numa_maps", Looker::File("numa_maps")),
    ("maps", Looker::File("maps")),
    ("bare pagemap", Looker::Pagemap),
];

/// Measures all lookers in turn.
pub fn run(args: &Args) -> Result<()> {
    // The kernel's balancing would mark and move pages even without a look.
    let _off = Setting::set_if_present(NUMA_BALANCING, "0");
    let target = hold::Args {
        mib: args.mib,
        cpu_node: Some(HOME),
        memory_node: Some(AWAY),
        ..hold::Args::default()
    };
    let mut holder = Holder::start_as("map", &target)?;
    let wanted =
        |name: &str| args.subject.is_empty() || args.subject.iter().any(|word| name.contains(word));
    let lookers: Vec<_> = LOOKERS
        .into_iter()
        .filter(|&(name, looker)| looker == Looker::None || wanted(name))
        .collect();
    let mut windows = vec![Vec::new(); lookers.len()];
    for round in 0..=args.rounds {
        for ((_, looker), windows) in lookers.iter().zip(&mut windows) {
            window(&mut holder)?;
            let (begin, time) = (Instant::now(), Duration::from_secs(args.seconds));
            let mut looks = 0;
            while begin.elapsed() < time {
                looks += pinned(AWAY, || looker.look(&holder, time))?;
            }
            let window = window(&mut holder)?;
            if round > 0 {
                windows.push((looks as f64 / begin.elapsed().as_secs_f64(), window));
            }
        }
    }
    let kernel = kernel()?;
    let case = format!("{} MiB of 4 KiB pages", args.mib);
    let figure = |subject: &str, metric: &str, unit: &str, values| Figure {
        bench: "looked".into(),
        kernel: kernel.clone(),
        case: case.clone(),
        subject: subject.into(),
        metric: metric.into(),
        unit: unit.into(),
        values,
    };
    let mut figures = Vec::new();
    for ((name, _), windows) in lookers.iter().zip(&windows) {
        for (index, (percentile, _)) in PERCENTILES.iter().enumerate() {
            let values = windows.iter().map(|(_, window)| window.maps.ms[index]).collect();
            figures.push(figure(name, &format!("map {percentile}"), "ms", values));
        }
        figures.push(figure(
            name,
            "looks",
            "1/s",
            windows.iter().map(|(looks, _)| *looks).collect(),
        ));
    }
    print::figures(&figures)
}

fn window(holder: &mut Holder) -> Result<Window> {
    Ok(serde_json::from_str(&holder.ask()?)?)
}

impl Looker {
    /// Looks once, or as long as is measured. Returns how often.
    fn look(self, holder: &Holder, time: Duration) -> Result<usize> {
        let open = |name: &str| -> Result<File> {
            let path = format!("/proc/{}/{name}", holder.pid());
            File::open(&path).with_context(|| path)
        };
        match self {
            Self::None => std::thread::sleep(time),
            Self::Busy => {
                let begin = Instant::now();
                while begin.elapsed() < time {
                    std::hint::spin_loop();
                }
            }
            Self::Numalocctl(command) => {
                look(Path::new(OURS), command, holder.pid())?;
            }
            Self::Top => return top(&holder.pid().to_string(), time),
            Self::File(name) => {
                let mut file = open(name)?;
                while file.read(&mut [0; 64])? > 0 {}
            }
            Self::Pagemap => {
                let (file, mut buffer) = (open("pagemap")?, vec![0; CHUNK]);
                let bytes = |address: u64| address / numaloc_core::page_size() * 8;
                for at in (bytes(holder.range.start)..bytes(holder.range.end)).step_by(CHUNK) {
                    file.read_exact_at(&mut buffer, at)?;
                }
            }
        }
        Ok(1)
    }
}

/// Has `numalocctl top` print again and again, which looks at all processes of the host, and so at this one. Returns how often.
fn top(pid: &str, time: Duration) -> Result<usize> {
    let mut command = Command::new("numalocctl");
    command.args("top --standalone --batch --delay 500ms --output json --filter".split(' '));
    let child = command.arg(pid).stdout(Stdio::piped()).spawn();
    let mut child = child.context("numalocctl top")?;
    let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let (begin, mut count, mut is_seen) = (Instant::now(), 0, false);
    for line in lines {
        let document: Value = serde_json::from_str(&line?)?;
        let rows = document["processes"].as_array().context("no processes")?;
        is_seen |= rows.iter().any(|row| row["age_seconds"].is_number());
        count += 1;
        if begin.elapsed() >= time {
            break;
        }
    }
    child.kill()?;
    child.wait()?;
    ensure!(
        is_seen,
        "numalocctl top has not looked at {pid} in {count} rounds: measure for longer"
    );
    Ok(count)
}
