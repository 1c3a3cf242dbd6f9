//! The application under test: it lays out memory as asked, on the node asked for, runs on the CPUs of another one, and
//! rewrites and checks all of its memory for as long as it lives.
//!
//! It prints `region NAME START-END` for each region and then `ready`, and answers each line on its standard input
//! with one line (see `commands`). The end of its input ends it.
#![forbid(unsafe_code)]

mod commands;
mod memory;
mod place;
mod spec;
mod writer;

use anyhow::{Context, Result};
use clap::Parser;
use memory::Memory;
use numaloc_core::NodeSet;
use numaloc_sys::fixture::{fork_paused, leave_thread, set_thread_policy};
use std::{
    io::Write,
    path::PathBuf,
    sync::{Arc, mpsc::channel},
    thread,
};

/// An application with a known layout of memory.
#[derive(Debug, Parser)]
struct Args {
    /// Nodes whose CPUs it runs on: the main thread on the first, the writer on the last.
    #[arg(long)]
    cpu_nodes: Option<NodeSet>,
    /// Node that its memory comes from.
    #[arg(long)]
    mem_node: Option<u32>,
    /// Node that its own copies of what a child shares come from; that of its CPU, if it is not given.
    #[arg(long)]
    copy_node: Option<u32>,
    /// Directory of a cgroup to enter first.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// What the second thread does.
    #[arg(long, value_enum, default_value_t = Load::Write)]
    load: Load,
    /// Have a third thread, `helper`, that may run on all CPUs and sleeps.
    #[arg(long)]
    helper: bool,
    /// End as soon as the memory is there.
    #[arg(long)]
    brief: bool,
    /// [NAME=]KIND[:PATH]:SIZE[:OPTION]..., see `spec`.
    regions: Vec<spec::Spec>,
}

/// What the second thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Load {
    /// Rewrites and checks all memory over and over.
    Write,
    /// Computes and touches none of the regions.
    Spin,
    /// Nothing.
    Idle,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(cgroup) = &args.cgroup {
        let procs = cgroup.join("cgroup.procs");
        std::fs::write(&procs, "0").with_context(|| format!("enter {}", procs.display()))?;
    }
    let nodes: Vec<_> = args.cpu_nodes.iter().flat_map(NodeSet::iter).collect();
    place::pin(nodes.first().copied())?;
    set_thread_policy(args.mem_node).context("set_mempolicy")?;
    let memory = Arc::new(Memory::new(&args.regions)?);
    set_thread_policy(None).context("set_mempolicy")?;
    if args.brief {
        return Ok(());
    }
    let child = if memory.wants_child() { Some(fork_paused()?) } else { None };
    // From here on both have copies of their own of what is rewritten.
    set_thread_policy(args.copy_node).context("set_mempolicy")?;
    memory.rewrite_cow();
    set_thread_policy(None).context("set_mempolicy")?;

    let shared = memory.clone();
    let last = nodes.last().copied();
    let load = args.load;
    if load != Load::Idle {
        let (begun, has_begun) = channel();
        thread::spawn(move || {
            place::pin(last).expect("the node's CPUs were there for the main thread");
            let begun = || begun.send(()).expect("the main thread waits for it");
            if load == Load::Write {
                writer::write(&shared, begun)
            } else {
                begun();
                writer::spin()
            }
        });
        // A thread that begins maps pages of the program that nobody has needed before: not while somebody counts them.
        has_begun.recv()?;
    }
    if args.helper {
        place::start_helper()?;
    }
    memory.start_io()?;

    let mut out = std::io::stdout().lock();
    for (name, range) in memory.ranges() {
        writeln!(out, "region {name} {:x}-{:x}", range.start, range.end)?;
    }
    writeln!(out, "ready")?;
    out.flush()?;
    drop(out);
    match commands::serve(&memory, child)? {
        commands::End::Exit => Ok(()),
        commands::End::Leave => {
            thread::spawn(move || go_on(&memory, child));
            leave_thread()
        }
    }
}

/// Obeys where the first thread has left.
fn go_on(memory: &Memory, child: Option<i32>) -> ! {
    println!("left");
    while matches!(commands::serve(memory, child), Ok(commands::End::Leave)) {}
    std::process::exit(0)
}
