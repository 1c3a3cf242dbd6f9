//! move_pages(2) and nothing else: the simplest mover.

use super::HOME;
use crate::hold::{Holder, Pages, is_remote};
use anyhow::{Result, anyhow};
use numaloc_sys::{MoveFlag, move_pages};
use std::{process::Command, thread, time::Duration};

/// The calls of the mover.
#[derive(Clone, Copy, Debug, PartialEq, clap::Args)]
pub struct Calls {
    /// Addresses in one call.
    #[arg(long)]
    pub batch: u64,
    /// Microseconds of sleep after each call.
    #[arg(long)]
    pub pause_us: u64,
    /// Threads that make calls at the same time, each for an equal share of the pages.
    #[arg(long)]
    pub threads: u64,
}

/// The work of the mover.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(long)]
    pid: i32,
    /// Where the memory begins and ends.
    #[arg(long)]
    start: u64,
    #[arg(long)]
    end: u64,
    /// Bytes from one address to the next.
    #[arg(long)]
    step: u64,
    /// Only the pages that are remote in memory with holes. Without it, all pages.
    #[arg(long)]
    mixed: bool,
    #[arg(long)]
    node: u32,
    #[command(flatten)]
    calls: Calls,
}

/// The command that runs this program as such a mover, for all of a process's first region with an address each `step` bytes.
pub fn command(holder: &Holder, step: u64, calls: Calls) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bare");
    let numbers = [
        ("--pid", holder.pid() as u64),
        ("--start", holder.range.start),
        ("--end", holder.range.end),
        ("--step", step),
        ("--node", HOME.into()),
        ("--batch", calls.batch),
        ("--pause-us", calls.pause_us),
        ("--threads", calls.threads),
    ];
    for (name, number) in numbers {
        command.args([name, &number.to_string()]);
    }
    if holder.args().pages == Pages::Mixed {
        command.arg("--mixed");
    }
    Ok(command)
}

/// The mover itself. It ignores what the kernel says of each page, because the measuring side checks where the pages are.
///
/// # Errors
/// A call failed as a whole.
pub fn run(args: &Args) -> Result<()> {
    let pages = 0..(args.end - args.start).div_ceil(args.step);
    let addresses: Vec<u64> = pages
        .filter(|&page| !args.mixed || is_remote(page))
        .map(|page| args.start + page * args.step)
        .collect();
    let share = addresses.len().div_ceil(args.calls.threads.max(1) as usize).max(1);
    thread::scope(|scope| {
        let threads: Vec<_> =
            addresses.chunks(share).map(|share| scope.spawn(|| in_calls(args, share))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow!("a thread of the bare mover panicked"))?
        })
    })
}

fn in_calls(args: &Args, addresses: &[u64]) -> Result<()> {
    let batch = args.calls.batch.clamp(1, addresses.len().max(1) as u64) as usize;
    let mut status = vec![0; batch];
    for batch in addresses.chunks(batch) {
        move_pages(args.pid, batch, args.node, &mut status[..batch.len()], MoveFlag::Own)?;
        if args.calls.pause_us > 0 {
            thread::sleep(Duration::from_micros(args.calls.pause_us));
        }
    }
    Ok(())
}
