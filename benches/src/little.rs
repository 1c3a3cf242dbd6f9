//! Cost of finding a little remote memory. Compares the whole command with the least work that finds and moves the same
//! pages: one pass over the page map and one call of move_pages(2).

use crate::{
    figure::{Figure, kernel},
    hold::{self, Holder},
    movers::{AWAY, HOME, Mover},
    print,
    scanning::pass,
    subject::{LEAST, OURS},
};
use anyhow::{Context, Result, ensure};
use numaloc_core::page_size;
use numaloc_host::{FrameNodes, Roots};
use std::{path::PathBuf, process::Command, time::Instant};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB of memory of the process; repeatable.
    #[arg(long, default_values_t = [4, 2048])]
    mib: Vec<usize>,
    /// Number of rounds.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Another build of numalocctl, to compare with.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
}

/// The time of a command that does nothing.
const START: &str = "numalocctl --version";
/// Percent of the pages that are remote.
const PERCENT: u64 = 1;
/// Pages that lie together where the remote pages are spread.
const RUN: u64 = 16;

/// Where the remote pages are.
#[derive(Clone, Copy, Debug)]
enum Place {
    Together,
    Spread,
}

impl Place {
    /// Addresses of the remote pages.
    fn addresses(self, holder: &Holder) -> Vec<u64> {
        let count = (holder.pages() * PERCENT).div_ceil(100);
        let page = |index: u64| match self {
            Self::Together => holder.pages() - count + index,
            Self::Spread => index / RUN * (RUN * 100 / PERCENT) + index % RUN,
        };
        let last = holder.pages() - 1;
        (0..count).map(|index| holder.range.start + page(index).min(last) * page_size()).collect()
    }
}

/// Measures all sizes, with the remote pages in one place and spread.
pub fn run(args: &Args) -> Result<()> {
    hold::touch_all(&[HOME, AWAY])?;
    let kernel = kernel()?;
    for &mib in &args.mib {
        let (cpu_node, memory_node) = (Some(HOME), Some(HOME));
        let target = hold::Args { mib, cpu_node, memory_node, ..hold::Args::default() };
        let holder = Holder::start(&target)?;
        for place in [Place::Together, Place::Spread] {
            let case = format!("{mib} MiB, {PERCENT}% remote, {place:?}").to_lowercase();
            compare(&holder, place, args, &kernel, &case.replace("mib", "MiB"))?;
        }
    }
    Ok(())
}

fn compare(holder: &Holder, place: Place, args: &Args, kernel: &str, case: &str) -> Result<()> {
    let addresses = place.addresses(holder);
    let frames = FrameNodes::read(&Roots::default())?;
    let ours = Mover::profile("fast")?;
    let other = args.beside.as_deref().map(|program| ours.clone().by(program));
    let others = other.as_ref().unwrap_or(&ours);
    let subjects: [(&str, &dyn Fn() -> Result<()>); 4] = [
        (LEAST, &|| {
            let remote = pass(holder, &frames)?[AWAY as usize];
            ensure!(remote == addresses.len() as u64, "{remote} pages are remote");
            holder.put(&addresses, HOME)
        }),
        (OURS, &|| ours.turn(holder, false).map(drop)),
        (START, &|| {
            let output = Command::new("numalocctl").arg("--version").output();
            ensure!(output.context("numalocctl")?.status.success(), "it fails");
            Ok(())
        }),
        (&others.name, &|| others.turn(holder, false).map(drop)),
    ];
    let subjects = &subjects[..3 + usize::from(other.is_some())];
    let mut times = vec![Vec::new(); subjects.len()];
    for round in 0..=args.rounds {
        for ((name, what), times) in subjects.iter().zip(&mut times) {
            holder.put(&addresses, AWAY)?;
            let begin = Instant::now();
            what()?;
            let took = begin.elapsed().as_secs_f64() * 1e3;
            let left = pass(holder, &frames)?[AWAY as usize];
            ensure!(*name == START || left == 0, "{name} left {left} pages");
            // The first round warms up what the others use, so it does not count.
            if round > 0 {
                times.push(took);
            }
        }
    }
    holder.put(&addresses, HOME)?;
    let figure = |(&(subject, _), values): (&(&str, _), Vec<f64>)| Figure {
        bench: "little".into(),
        kernel: kernel.into(),
        case: case.into(),
        subject: subject.into(),
        metric: "wall".into(),
        unit: "ms".into(),
        values,
    };
    print::figures(&subjects.iter().zip(times).map(figure).collect::<Vec<_>>())
}
