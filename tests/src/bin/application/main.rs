//! The application under test. It lays out its memory as asked, on the given node, and runs on the CPUs of another node. As long
//! as it lives it rewrites and checks all of its memory.
//!
//! It prints `region NAME START-END` for each region and then `ready`. It then reads commands from standard input, one per line,
//! and answers each with one line (see `commands`). It ends when its input ends.
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
use numaloc_sys::fixture::{fork_paused, interleave_thread, leave_thread, set_thread_policy};
use std::{
    io::Write,
    path::PathBuf,
    sync::{Arc, mpsc::channel},
    thread,
};

/// An application with a known layout of memory.
#[derive(Debug, Parser)]
struct Args {
    /// Nodes whose CPUs it runs on. The main thread runs on the first node, the writer on the last.
    #[arg(long)]
    cpu_nodes: Option<NodeSet>,
    /// Node that its memory comes from.
    #[arg(long)]
    mem_node: Option<u32>,
    /// Nodes that its memory comes from in turn, instead of one.
    #[arg(long, conflicts_with = "mem_node")]
    interleave: Option<NodeSet>,
    /// Take turns with the host's weights.
    #[arg(long, requires = "interleave")]
    weighted: bool,
    /// Node for its own copies of pages that it shared with a child. Without it: the node of its CPU.
    #[arg(long)]
    copy_node: Option<u32>,
    /// Directory of a cgroup to enter first.
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// IPC namespace to enter first: `new`, or that of the process with this pid.
    #[arg(long)]
    ipc: Option<String>,
    /// The work of the second thread.
    #[arg(long, value_enum, default_value_t = Load::Write)]
    load: Load,
    /// Have a third thread, `helper`, that may run on all CPUs and sleeps.
    #[arg(long)]
    helper: bool,
    /// Do nothing but use this CPU up at the highest real-time priority, with pages in its list of new ones.
    #[arg(long)]
    hog: Option<String>,
    /// End as soon as the memory is laid out.
    #[arg(long)]
    brief: bool,
    /// `[NAME=]KIND[:PATH]:SIZE[:OPTION]...`, see `spec`.
    regions: Vec<spec::Spec>,
}

/// The work of the second thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Load {
    /// Rewrites and checks all memory over and over.
    Write,
    /// Computes and touches none of the regions.
    Spin,
    /// Neither computes nor touches memory.
    Idle,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(cpu) = &args.hog {
        return place::hog(cpu);
    }
    if let Some(cgroup) = &args.cgroup {
        let procs = cgroup.join("cgroup.procs");
        std::fs::write(&procs, "0").with_context(|| format!("enter {}", procs.display()))?;
    }
    if let Some(ipc) = &args.ipc {
        place::enter_ipc(ipc)?;
    }
    let nodes: Vec<_> = args.cpu_nodes.iter().flat_map(NodeSet::iter).collect();
    place::pin(nodes.first().copied())?;
    match &args.interleave {
        Some(nodes) => {
            let nodes: Vec<u32> = nodes.iter().map(|node| node.0).collect();
            interleave_thread(&nodes, args.weighted).context("set_mempolicy")?;
        }
        None => set_thread_policy(args.mem_node).context("set_mempolicy")?,
    }
    let memory = Arc::new(Memory::new(&args.regions)?);
    set_thread_policy(None).context("set_mempolicy")?;
    if args.brief {
        return Ok(());
    }
    let child = if memory.wants_child() { Some(fork_paused()?) } else { None };
    // From here on, parent and child have their own copies of the pages that are rewritten.
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
        // A new thread maps pages of the program that were not needed before. Wait for it, so that a test that counts
        // pages does not see them appear.
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
            thread::spawn(move || keep_answering(&memory, child));
            leave_thread()
        }
    }
}

/// Serves commands after the first thread has ended.
fn keep_answering(memory: &Memory, child: Option<i32>) -> ! {
    println!("left");
    while matches!(commands::serve(memory, child), Ok(commands::End::Leave)) {}
    std::process::exit(0)
}
