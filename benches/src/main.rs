//! Benchmarks. Each prints what it measured, and the ratio to something else that was measured in the same run. Nothing is
//! compared with a number from another run, because such a ratio says more about the machine than about the code.
#![forbid(unsafe_code)]

mod cache;
mod calls;
mod daemon;
mod damos;
mod families;
mod figure;
mod half_way;
mod hold;
mod little;
mod looked;
mod many;
mod measured;
mod mixed;
mod movers;
mod neighbour;
mod planning;
mod pressure;
mod pretended;
mod print;
mod reader;
mod report;
mod reread;
mod rounds;
mod scale;
mod scanning;
mod soonest;
mod spreading;
mod stall;
mod subject;
mod throughput;
mod tiers;
mod watched;
mod watching;
mod writing;

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
    /// Finding all pages of a process, against reading its pagemap alone, queries by move_pages, and numa_maps.
    Scan(scanning::Args),
    /// Planning for processes that share memory, against one that has it alone.
    Families(families::Args),
    /// Planning: memory and time, by number of extents.
    Planner(planning::Args),
    /// Moving a process's memory: wall and CPU time, against other movers. Needs root on a machine with two nodes.
    Throughput(throughput::Args),
    /// Stalls of an application while its memory is moved. Needs root on a machine with two nodes.
    Stall(stall::Args),
    /// Throughput of a reader of page cache while memory comes to its node, with room there and without. Needs root
    /// on a machine with two nodes.
    Reader(reader::Args),
    /// Duration of a move where the kernel does not measure pressure, against where it does. Needs root on a machine
    /// with two nodes.
    Pressure(pressure::Args),
    /// Costs for readers of page cache of the room that was made of it. Needs root on a machine with two nodes.
    Reread(reread::Args),
    /// Moving the little that is remote of a process, against the least work that finds and moves it. Needs root on a machine
    /// with two nodes.
    Little(little::Args),
    /// Looks and moves near the limits of a process: very many mappings, threads, and much that is reserved; and whole commands for little
    /// memory. Needs root; moves need two nodes.
    Many(many::Args),
    /// Stalls of an application while its memory is surveyed but not moved. Needs root on a machine with two nodes.
    Looked(looked::Args),
    /// Time until the memory of a busy process is at home, for all tools that can bring it there. Needs root on a
    /// machine with two nodes.
    Soonest(soonest::Args),
    /// Interleaving a process's memory, against the process itself. Needs root on a machine with two nodes.
    Spread(spreading::Args),
    /// Latency of a web server while memory comes to its node. Needs root on a machine with two nodes, and nginx.
    Neighbour(neighbour::Args),
    /// Watching how memory is used, against leaving it alone. Needs root and a kernel with DAMON.
    Watched(watched::Args),
    /// Memory on two tiers by its use, against DAMON's schemes and the kernel's demotion. Needs root, and a node without CPUs.
    Tiers(tiers::Args),
    /// A simulated host of 8 nodes, 6 TiB and 10,000 processes: planning, and the queue under 1,000 jobs.
    Scale(scale::Args),
    /// Records page maps of processes for the benchmark `scale`: JSON, without names and addresses. Needs root.
    Record(scale::record::Args),
    /// Share of an application's accesses that is local while its memory is on its way. Needs root on a machine with
    /// two nodes.
    HalfWay(half_way::Args),
    /// Makes a report with goals and plots from the output of benchmarks.
    Report(report::Args),
    /// Costs of watching a job for its executor. Needs root on a machine with two nodes, and numalocd on PATH.
    Watch(watching::Args),
    /// Four tenants, watchers that do not read, pages and a refused caller at one daemon: what it takes over time, and what is lost when it is
    /// killed again and again. Needs root, and numalocd on PATH.
    Mixed(mixed::Args),
    /// A client of `mixed`, as a user of its own.
    #[command(hide = true)]
    MixedClient(mixed::client::Args),
    /// Calls of a running daemon against its health check. Started by benches/api.
    #[command(hide = true)]
    Calls(calls::Args),
    /// Changes through a running daemon, against bare writes to the same disk. Started by benches/api.
    #[command(hide = true)]
    Writing(writing::Args),
    /// One measurement in a process of its own, so that its peak memory can be read.
    #[command(hide = true)]
    One(planning::One),
    /// A process with the given memory that sleeps until its input ends.
    #[command(hide = true)]
    Hold(hold::Args),
    /// Like `hold`, but busy.
    #[command(hide = true)]
    Busy(hold::Args),
    /// Like `hold`, with one thread that writes to a quarter of the memory.
    #[command(hide = true)]
    Quarter(hold::Args),
    /// Like `hold`, with one thread that maps and unmaps memory.
    #[command(hide = true)]
    Map(hold::Args),
    /// Like `hold`, with one thread that writes to one of several parts of the memory.
    #[command(hide = true)]
    Roles(hold::Args),
    /// Like `hold`, with each page in a mapping of its own.
    #[command(hide = true)]
    Divided(hold::Args),
    /// Like `hold`, with many threads that sleep.
    #[command(hide = true)]
    Threads(hold::Args),
    /// Like `hold`, with the memory spread over much that is reserved.
    #[command(hide = true)]
    Reserved(hold::Args),
    /// Like `hold`, with memory that is locked.
    #[command(hide = true)]
    Locked(hold::Args),
    /// Like `hold`, but awake for a moment each millisecond.
    #[command(hide = true)]
    Tick(hold::Args),
    /// Like `hold`, with one thread that writes at random.
    #[command(hide = true)]
    Writer(hold::Args),
    /// Like `hold`, but interleaves its memory for each line of input.
    #[command(hide = true)]
    SpreadItself(hold::Args),
    /// Like `hold`, with one thread that reads pages of the file at random.
    #[command(hide = true)]
    Pages(hold::Args),
    /// A client of a web server, with a fixed rate.
    #[command(hide = true)]
    Client(neighbour::client::Args),
    /// Like `hold`, with one thread that writes to some of the memory more often than to the rest.
    #[command(hide = true)]
    Zipf(hold::Args),
    /// A mover that does nothing but move_pages.
    #[command(hide = true)]
    Bare(movers::bare::Args),
}

fn main() -> Result<()> {
    match Cli::parse().bench {
        Bench::Scan(args) => scanning::run(&args),
        Bench::Families(args) => families::run(&args),
        Bench::Planner(args) => planning::run(&args),
        Bench::Throughput(args) => throughput::run(&args),
        Bench::Stall(args) => stall::run(&args),
        Bench::Reader(args) => reader::run(&args),
        Bench::Pressure(args) => pressure::run(&args),
        Bench::Reread(args) => reread::run(&args),
        Bench::Little(args) => little::run(&args),
        Bench::Many(args) => many::run(&args),
        Bench::Looked(args) => looked::run(&args),
        Bench::Soonest(args) => soonest::run(&args),
        Bench::Spread(args) => spreading::run(&args),
        Bench::Neighbour(args) => neighbour::run(&args),
        Bench::Watched(args) => watched::run(&args),
        Bench::Tiers(args) => tiers::run(&args),
        Bench::Scale(args) => scale::run(&args),
        Bench::Record(args) => scale::record::run(&args),
        Bench::HalfWay(args) => half_way::run(&args),
        Bench::Report(args) => report::run(&args),
        Bench::Watch(args) => watching::run(&args),
        Bench::Mixed(args) => mixed::run(&args),
        Bench::MixedClient(args) => mixed::client::run(&args),
        Bench::Calls(args) => calls::run(&args),
        Bench::Writing(args) => writing::run(&args),
        Bench::One(one) => planning::one(&one),
        Bench::Hold(args) => hold::run(&args),
        Bench::Busy(args) => stall::busy::run(&args),
        Bench::Quarter(args) => watched::quarter(&args),
        Bench::Map(args) => stall::busy::map(&args),
        Bench::Roles(args) => tiers::roles(&args),
        Bench::Divided(args) => many::process::divide(&args),
        Bench::Threads(args) => many::process::sleep(&args),
        Bench::Reserved(args) => many::process::reserve(&args),
        Bench::Locked(args) => tiers::locked(&args),
        Bench::Tick(args) => stall::busy::tick(&args),
        Bench::Writer(args) => soonest::write(&args),
        Bench::SpreadItself(args) => spreading::spread(&args),
        Bench::Pages(args) => reader::read(&args),
        Bench::Client(args) => neighbour::client::run(&args),
        Bench::Zipf(args) => half_way::write(&args),
        Bench::Bare(args) => movers::bare::run(&args),
    }
}
