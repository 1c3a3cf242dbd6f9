//! What `--offload auto` costs beyond `--offload off` where the kernel cannot give copies to a DMA engine. The whole command is
//! measured, by itself and by a daemon. `off` runs a second time in each round: how far that is from the first time is noise.

use crate::{
    daemon::Daemon,
    figure::{Figure, kernel, quantile},
    hold::{self, Holder},
    movers::{AWAY, HOME, Mover, Turn},
    print,
    rounds::met_or_missed,
    subject::{AUTO, COST, OFF, OFF_AGAIN},
};
use anyhow::{Context, Result, ensure};

/// How much is measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB that each migration moves; repeatable.
    #[arg(long, default_values_t = [4, 256])]
    mib: Vec<usize>,
    /// Number of rounds. A multiple of three: then each of the three is first, second and last equally often.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
}

/// Less noise than this is chance.
const NOISE_MIN: f64 = 0.001;

/// What is compared.
struct Subject {
    name: &'static str,
    mover: Mover,
    /// Milliseconds, one value for each round.
    times: Vec<f64>,
}

/// Measures all sizes in both places.
pub fn run(args: &Args) -> Result<()> {
    hold::touch_all([HOME, AWAY])?;
    let kernel = kernel()?;
    // It allows offload, so that it asks all that it would ask before an engine copies.
    let daemon = Daemon::start("[offload]\nenable = true\n")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    drop(runtime.block_on(daemon.connect())?);
    let endpoint = daemon.endpoint();
    for &mib in &args.mib {
        let (cpu_node, memory_node) = (Some(HOME), Some(HOME));
        let target = hold::Args { mib, cpu_node, memory_node, ..hold::Args::default() };
        let holder = Holder::start(&target)?;
        for (place, endpoint) in [("standalone", None), ("by the daemon", Some(&*endpoint))] {
            let case = format!("{mib} MiB of 4 KiB pages, {place}");
            compare(args, &holder, endpoint, &kernel, &case)?;
        }
    }
    Ok(())
}

fn compare(
    args: &Args,
    holder: &Holder,
    endpoint: Option<&str>,
    kernel: &str,
    case: &str,
) -> Result<()> {
    let mut subjects = [(OFF, "off"), (AUTO, "auto"), (OFF_AGAIN, "off")].map(|(name, offload)| {
        let mover = Mover::numalocctl(name, &format!("--profile=fast --offload={offload}"));
        let mover = endpoint.into_iter().fold(mover, Mover::through);
        Subject { name, mover, times: Vec::new() }
    });
    let addresses = holder.addresses();
    // The first round does not count: it warms up what the others use.
    for round in 0..=args.rounds.max(1) {
        for place in 0..subjects.len() {
            let at = (round + place) % subjects.len();
            let Subject { name, mover, times } = &mut subjects[at];
            holder.put(&addresses, AWAY)?;
            let turn = mover.turn(holder, false)?;
            check(name, holder, &turn)?;
            if round > 0 {
                times.push(turn.wall.as_secs_f64() * 1e3);
            }
        }
    }
    let [off, auto, again] = subjects;
    let (of_auto, of_again) =
        (Ratio::of(&auto.times, &off.times), Ratio::of(&again.times, &off.times));
    let (cost, noise) = (of_auto.medians - 1.0, of_again.noise());
    let figure = |subject: &str, metric: &str, unit: &str, values: Vec<f64>| Figure {
        bench: "offload".into(),
        kernel: kernel.into(),
        case: case.into(),
        subject: subject.into(),
        metric: metric.into(),
        unit: unit.into(),
        values,
    };
    let share = figure(AUTO, COST, "share of the noise", vec![cost / noise]);
    let walls = [off, auto, again].map(|it| figure(it.name, "wall", "ms", it.times));
    print::figures(&walls.into_iter().chain([share]).collect::<Vec<_>>())?;
    println!("auto / off: {of_auto}; off again / off: {of_again}");
    println!(
        "auto costs {:.2} % more than off; goal: within noise, which is {:.2} %: {}",
        cost * 100.0,
        noise * 100.0,
        met_or_missed(cost, noise)
    );
    Ok(())
}

/// Checks that all memory is at home, and that CPUs have copied it for the reason that this is about.
fn check(name: &str, holder: &Holder, turn: &Turn) -> Result<()> {
    let (nodes, all) = (holder.pages_by_node()?, [(HOME, holder.pages())]);
    ensure!(nodes == all, "{name} left pages behind: {nodes:?}");
    let offload = turn.report.as_ref().and_then(|report| report.get("offload"));
    let offload = offload.with_context(|| format!("{name}: no account of offload"))?;
    let reason = offload["reason"].as_str().unwrap_or_default();
    let is_unavailable = name != AUTO || reason.starts_with("unavailable: ");
    ensure!(
        offload["used"] == false && is_unavailable,
        "this is about kernels that cannot give copies to a DMA engine: {name}: {offload}"
    );
    Ok(())
}

/// Times of one subject against those of another one.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    /// Of the medians.
    medians: f64,
    /// First and third quartile of the ratios of each round.
    spread: (f64, f64),
}

impl Ratio {
    fn of(times: &[f64], base: &[f64]) -> Self {
        let rounds: Vec<f64> = times.iter().zip(base).map(|(time, base)| time / base).collect();
        let medians = quantile(times, 0.5) / quantile(base, 0.5);
        Self { medians, spread: (quantile(&rounds, 0.25), quantile(&rounds, 0.75)) }
    }

    /// How far from 1 it is in the worse half of the rounds, if it is that of two subjects that are the same.
    fn noise(&self) -> f64 {
        let (low, high) = self.spread;
        (high - 1.0).max(1.0 - low).max(NOISE_MIN)
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { medians, spread: (low, high) } = self;
        write!(f, "{medians:.4} ({low:.4} to {high:.4} round by round)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_how_far_the_same_is_from_itself() {
        let base = [100.0, 100.0, 100.0, 100.0, 100.0];
        let again = Ratio::of(&[90.0, 98.0, 100.0, 101.0, 130.0], &base);
        assert!((again.medians - 1.0).abs() < 1e-9, "{again}");
        assert!((again.noise() - 0.02).abs() < 1e-9, "{again}: {}", again.noise());
        let again = Ratio::of(&[100.0, 103.0, 101.0, 109.0, 105.0], &base);
        assert!((again.noise() - 0.05).abs() < 1e-9, "{again}: {}", again.noise());
        assert!((Ratio::of(&base, &base).noise() - NOISE_MIN).abs() < 1e-9);
        assert_eq!(again.to_string(), "1.0300 (1.0100 to 1.0500 round by round)");
    }
}
