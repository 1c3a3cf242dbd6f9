//! move_pages(2) and nothing else: the simplest mover.

use super::HOME;
use crate::hold::Holder;
use anyhow::Result;
use numaloc_sys::{MoveFlag, move_pages};
use std::{process::Command, thread, time::Duration};

/// What the mover is to do.
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
    /// Addresses in one call.
    #[arg(long)]
    batch: u64,
    /// Microseconds of sleep after each call.
    #[arg(long)]
    pause_us: u64,
    #[arg(long)]
    node: u32,
}

/// The command that runs this program as such a mover, for all of a process's first region.
pub fn command(holder: &Holder, batch: u64, step: u64, pause_us: u64) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bare");
    let numbers = [
        ("--pid", holder.pid() as u64),
        ("--start", holder.range.start),
        ("--end", holder.range.end),
        ("--step", step),
        ("--batch", batch),
        ("--pause-us", pause_us),
        ("--node", HOME.into()),
    ];
    for (name, number) in numbers {
        command.args([name, &number.to_string()]);
    }
    Ok(command)
}

/// The mover itself. It ignores what the kernel says of each page, because the measuring side checks where the pages are.
pub fn run(args: &Args) -> Result<()> {
    let pages = (args.end - args.start).div_ceil(args.step);
    for first in (0..pages).step_by(args.batch.min(pages).max(1) as usize) {
        let batch = first..pages.min(first.saturating_add(args.batch));
        let addresses = batch.map(|page| args.start + page * args.step).collect::<Vec<_>>();
        let mut status = vec![0; addresses.len()];
        move_pages(args.pid, &addresses, args.node, &mut status, MoveFlag::Own)?;
        if args.pause_us > 0 {
            thread::sleep(Duration::from_micros(args.pause_us));
        }
    }
    Ok(())
}
