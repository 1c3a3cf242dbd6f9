//! The tools, and how each is made to bring a process's memory home.

use super::numad::Numad;
use crate::{
    damos::{self, Kdamond},
    hold::Holder,
    movers::{AWAY, HOME, Mover, Turn},
};
use anyhow::{Context, Result};
use numaloc_tests::{
    cpus::pinned,
    settings::{NUMA_BALANCING, Setting},
};
use std::{
    env,
    io::Write,
    path::Path,
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
};

/// A tool in one of its configurations.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A command that ends when all is done: numalocctl or migratepages(8).
    Mover(Mover),
    /// Intel's memtierd with this many MB/s; `None`: with its own limit of 100.
    Memtierd(Option<u32>),
    Numad,
    Damos,
    /// The kernel's NUMA balancing (kernel.numa_balancing).
    Balancing,
}

pub enum Started {
    Mover(JoinHandle<Result<Turn>>),
    Memtierd(Child),
    Numad(Numad),
    Damos(Kdamond),
    Balancing(Option<Setting>),
}

impl Peer {
    pub fn all() -> Result<Vec<Self>> {
        Ok(vec![
            Self::Mover(Mover::profile("fast")?),
            Self::Mover(Mover::migratepages()),
            Self::Memtierd(None),
            // 2,560 pages in each call; memtierd's own interval between calls is 10 ms.
            Self::Memtierd(Some(1000)),
            Self::Numad,
            Self::Damos,
            Self::Balancing,
        ])
    }

    pub fn name(&self) -> String {
        match self {
            Self::Mover(mover) => mover.name.clone(),
            Self::Memtierd(None) => "memtierd".into(),
            Self::Memtierd(Some(bandwidth)) => format!("memtierd, {bandwidth} MB/s"),
            Self::Numad => "numad".into(),
            Self::Damos => "DAMOS".into(),
            Self::Balancing => "NUMA balancing".into(),
        }
    }

    /// Why the tool is not available here; `None`: it is. `known` has reasons of the form "PROGRAM: REASON".
    pub fn missing(&self, known: &[String]) -> Option<String> {
        let program = match self {
            Self::Mover(_) => return None,
            Self::Damos => return damos::missing(),
            Self::Balancing => {
                let there = Path::new(NUMA_BALANCING).exists();
                return (!there).then(|| "the kernel is built without it".into());
            }
            Self::Memtierd(_) => "memtierd",
            Self::Numad => "numad",
        };
        let reason = |text: &String| Some(text.strip_prefix(program)?.strip_prefix(": ")?.into());
        known.iter().find_map(reason).or_else(|| {
            let path = env::var_os("PATH").unwrap_or_default();
            let there = env::split_paths(&path).any(|directory| directory.join(program).exists());
            (!there).then(|| "no such program on PATH".into())
        })
    }

    /// Starts the tool on a process.
    pub fn start(&self, holder: &Holder) -> Result<Started> {
        let pid = holder.pid();
        Ok(match self {
            Self::Mover(mover) => {
                let mover = mover.clone();
                Started::Mover(thread::spawn(move || mover.turn_of(pid, true)))
            }
            Self::Memtierd(bandwidth) => Started::Memtierd(memtierd(pid, *bandwidth)?),
            Self::Numad => Started::Numad(Numad::start(pid)?),
            Self::Damos => Started::Damos(Kdamond::start(AWAY, HOME)?),
            Self::Balancing => Started::Balancing(Setting::set_if_present(NUMA_BALANCING, "1")),
        })
    }
}

/// Uses the commands that memtierd's own documentation gives for moving all pages of a process.
fn memtierd(pid: i32, bandwidth: Option<u32>) -> Result<Child> {
    let mut command = Command::new("memtierd");
    command.arg("-prompt").stdin(Stdio::piped()).stdout(Stdio::null());
    let child = pinned(AWAY, || command.spawn()).context("memtierd")?;
    let mut input = child.stdin.as_ref().context("it has an input")?;
    if let Some(bandwidth) = bandwidth {
        writeln!(input, r#"mover -config '{{"IntervalMs":10,"Bandwidth":{bandwidth}}}'"#)?;
    }
    writeln!(input, "pages -pid {pid}\nmover -pages-to {HOME}")?;
    Ok(child)
}

impl Started {
    /// Waits for the end of the tool. A tool that never ends by itself is ended.
    pub fn end(self) -> Result<()> {
        match self {
            Self::Mover(thread) => {
                thread.join().expect("it does not panic")?;
            }
            Self::Memtierd(mut child) => {
                child.kill()?;
                child.wait()?;
            }
            Self::Numad(numad) => numad.end()?,
            Self::Damos(kdamond) => drop(kdamond),
            Self::Balancing(setting) => drop(setting),
        }
        Ok(())
    }
}
