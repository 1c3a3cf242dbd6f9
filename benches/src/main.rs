//! Comparisons: each prints what it measured and the ratio to something else measured in the same run. Nothing here
//! compares with a number from another run, because those say more about the machine than about the code.
#![forbid(unsafe_code)]

mod hold;
mod moving;
mod planning;
mod pretended;
mod rounds;
mod scanning;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Benchmarks of numaloc.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Finding all pages of a process, against reading its bare pagemap, move_pages as a query and numa_maps.
    Scan(scanning::Args),
    /// Planning: memory, and time by number of extents.
    Planner(planning::Args),
    /// Moving a process's memory, against migratepages(8). Needs root on a machine with two nodes.
    Move(moving::Args),
    /// One measurement in a process of its own, whose peak memory says something.
    #[command(hide = true)]
    One(planning::One),
    /// A process with memory as asked, asleep until its input ends.
    #[command(hide = true)]
    Hold(hold::Args),
}

fn main() -> Result<()> {
    match Cli::parse().bench {
        Bench::Scan(args) => scanning::run(&args),
        Bench::Planner(args) => planning::run(&args),
        Bench::Move(args) => moving::run(&args),
        Bench::One(one) => planning::one(&one),
        Bench::Hold(args) => hold::run(&args),
    }
}
