//! Latency of a web server while the memory of another process comes to its node. nginx answers requests at a fixed
//! rate. The 90th and 99th percentile of the time that an answer takes are compared with those of an undisturbed
//! server.
//!
//! Each request has a fixed time at which it is due, whether the one before was answered or not. The published figures come from
//! wrk, which sends the next request when the last one is answered. That drives the server to its limit, where a machine with one
//! CPU for each node measures nothing but the CPU. And it sends less just when answers take long.

pub mod client;
mod server;

use crate::{
    figure::{Figure, kernel, quantile},
    hold::{self, Holder, Pages},
    movers::{AWAY, HOME, Mover, ensure_nodes},
    print,
};
use anyhow::{Result, ensure};
use client::Client;
use numaloc_tests::{
    cpus::pinned,
    settings::{NUMA_BALANCING, Setting},
};
use server::Server;
use std::time::Duration;

const PERCENTILES: [(&str, f64); 2] = [("p90", 0.90), ("p99", 0.99)];

/// Share of the most that one connection can get, at which requests are sent.
const LOAD: f64 = 0.3;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB of memory of the process that is moved.
    #[arg(long, default_value_t = 512)]
    mib: usize,
    /// Number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Requests a second. Without it: 30% of the most that one connection gets, because the published figures come from servers
    /// whose CPUs were used that much.
    #[arg(long)]
    rate: Option<u32>,
    /// Requests in a round: processes are moved until there were at least this many meanwhile.
    #[arg(long, default_value_t = 500)]
    requests: usize,
    /// Number of connections for the requests.
    #[arg(long, default_value_t = 8)]
    connections: u32,
    /// The kind of pages that the memory consists of. Without it: base pages, then huge pages.
    #[arg(long, value_enum)]
    pages: Option<Pages>,
    /// Further options of `numalocctl migrate` in one word, such as "--profile=balanced --max-stall=40ms"; repeatable. Each becomes a
    /// subject of its own.
    #[arg(long, allow_hyphen_values = true)]
    with: Vec<String>,
    /// The nginx program to start.
    #[arg(long, default_value = "nginx")]
    nginx: String,
}

/// The constant parts of one comparison.
struct Scene<'a> {
    args: &'a Args,
    server: &'a Server,
    rate: u32,
    pages: Pages,
}

/// Measures base pages, then huge pages.
pub fn run(args: &Args) -> Result<()> {
    let kernel = kernel()?;
    ensure_nodes(&[HOME, AWAY])?;
    // The process that is moved sleeps, so balancing would only add noise.
    let _off = Setting::set_if_present(NUMA_BALANCING, "0");
    let server = Server::start(&args.nginx)?;
    let most = pinned(AWAY, || client::capacity(server.address()))?;
    let rate = args.rate.unwrap_or((most * LOAD) as u32).max(1);
    println!("nginx on node {HOME}, {rate} requests a second of {most:.0}, kernel {kernel}");
    for pages in [Pages::Base, Pages::Huge] {
        if args.pages.is_none_or(|only| only == pages) {
            compare(&Scene { args, server: &server, rate, pages }, &kernel)?;
        }
    }
    Ok(())
}

fn compare(scene: &Scene<'_>, kernel: &str) -> Result<()> {
    let args = scene.args;
    let undisturbed = Duration::from_secs_f64(args.requests as f64 / f64::from(scene.rate));
    // Two measurements of an undisturbed server differ only by the machine's noise.
    let mut again = Mover::nothing(undisturbed);
    again.name = "idle again".into();
    let mut movers = vec![
        Mover::nothing(undisturbed),
        Mover::profile("balanced")?,
        Mover::profile("gentle")?,
        Mover::profile("fast")?,
        Mover::migratepages(),
        again,
    ];
    movers.extend(args.with.iter().map(|with| Mover::numalocctl(with, with)));
    let mut shown: Vec<_> = movers.into_iter().map(|mover| (mover, Vec::new())).collect();
    hold::touch_all(&[HOME, AWAY])?;
    // This move does not count: the programs are read from the disk.
    move_one(scene, &Mover::migratepages())?;
    for _ in 0..args.rounds {
        for (mover, rounds) in &mut shown {
            rounds.push(round(scene, mover)?);
        }
    }
    let case = &match scene.pages {
        Pages::Huge => format!("{} MiB of THP", args.mib),
        _ => format!("{} MiB of 4 KiB pages", args.mib),
    };
    let figures = shown.iter().flat_map(|(mover, rounds)| {
        PERCENTILES.map(|(metric, share)| Figure {
            bench: "neighbour".into(),
            kernel: kernel.into(),
            case: case.clone(),
            subject: mover.name.clone(),
            metric: metric.into(),
            unit: "ms".into(),
            values: rounds.iter().map(|times| quantile(times, share)).collect(),
        })
    });
    let figures: Vec<Figure> = figures.collect();
    print::figures(&figures)
}

/// Milliseconds of all answers that were due while processes were moved, one after the other.
fn round(scene: &Scene<'_>, mover: &Mover) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    while times.len() < scene.args.requests {
        times.extend(move_one(scene, mover)?);
    }
    Ok(times)
}

/// Milliseconds of the answers while one process was moved.
fn move_one(scene: &Scene<'_>, mover: &Mover) -> Result<Vec<f64>> {
    let &Scene { args, server, rate, pages } = scene;
    let (cpu_node, memory_node) = (Some(HOME), Some(AWAY));
    let target = hold::Args { mib: args.mib, pages, cpu_node, memory_node, ..Default::default() };
    let holder = Holder::start(&target)?;
    let client = Client::start(server.address(), rate, args.connections)?;
    mover.turn(&holder, true)?;
    let times = client.end()?;
    let end = if mover.moves() { HOME } else { AWAY };
    let nodes = holder.pages_by_node()?;
    ensure!(nodes == [(end, holder.pages())], "{} left pages behind: {nodes:?}", mover.name);
    Ok(times)
}
