//! The commands that the suites send to the process: one line in, one line out.
//!
//! - `check`: checks every byte; answers `ok PAGES` with the number of pages that the writer has checked so far, or `corrupt ...`
//! - `unmap NAME`: unmaps a region
//! - `free NAME BYTES first|last`: gives that half of each BYTES of a region back to the kernel, and no longer checks it
//! - `poison NAME PAGE`: has the kernel take a page for broken, and no longer touches it
//! - `use NAME cold|read`: from now on, does not touch a region, or reads and checks it
//! - `lose NAME`: gives all of a region back to the kernel, and no longer checks it. A thread that touches it waits forever
//!   (userfaultfd(2))
//! - `fork N`: makes children that share all memory and do nothing but wait
//! - `fork-elsewhere NAME`: makes such a child that moves its mapping of a region to another address; answers with its pid and that
//!   address
//! - `churn NAME EVERY LIFE`: from now on, forks a child each EVERY ms that reads all pages of a region and ends LIFE ms later
//! - `hold FILE`: a thread faults on a mapping of this file with the lock of all memory (mmap_lock) held, and another one then waits
//!   to map. If the file system does not answer, no process gets the lock any more
//! - `share`: makes a process with the same memory, as vfork does, and answers with its pid; `sharer exit` and `sharer exec` end
//!   it or make it execute another program
//! - `leave`: the first thread ends, and another one continues to answer
//! - `child`: answers with the pid of the child that a `cow` region is shared with
//! - `exec`: executes the program again with the same arguments; it prints its regions and `ready` again
//! - `exit`: ends

use crate::{
    memory::{Memory, Slot},
    spec::Access,
    writer,
};
use anyhow::{Context, Result, bail};
use numaloc_sys::{
    FilePages, Scratch,
    fixture::{Region, Then, fork_elsewhere, fork_paused, fork_reader, share_memory, tell_sharer},
    page_bytes,
};
use parking_lot::MutexGuard;
use std::{
    env,
    fs::File,
    io::{self, BufRead, Write},
    os::unix::{fs::FileExt, process::CommandExt},
    process::Command,
    sync::{Arc, atomic::Ordering::Relaxed, mpsc},
    thread,
    time::Duration,
};

/// Why a thread stops serving commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process is to end.
    Exit,
    /// This thread is to end, and another one takes over.
    Leave,
}

/// Serves commands until the end of standard input, or until the command `leave`.
pub fn serve(memory: &Memory, child: Option<i32>) -> Result<End> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let answer = match line.split_once(' ').unwrap_or((&line, "")) {
            ("check", _) => check(memory),
            ("unmap", name) => unmap(memory, name)?,
            ("free", words) => free(memory, words)?,
            ("poison", words) => poison(memory, words)?,
            ("use", words) => change_use(memory, words)?,
            ("remap", name) => remap(memory, name)?,
            ("lose", name) => lose(memory, name)?,
            ("fork", count) => {
                let children = (0..count.parse::<u32>()?).map(|_| fork_paused());
                let children = children.collect::<io::Result<Vec<_>>>()?;
                format!("forked {children:?}")
            }
            ("fork-elsewhere", name) => {
                let (pid, address) = fork_elsewhere(&*mapped(memory, name)?)?;
                format!("{pid} {address}")
            }
            ("churn", words) => churn(memory, words)?,
            ("hold", file) => hold(file)?,
            ("share", _) => share_memory()?.to_string(),
            ("sharer", then) => {
                tell_sharer(if then == "exec" { Then::Exec } else { Then::Exit });
                format!("told to {then}")
            }
            ("leave", _) => return Ok(End::Leave),
            ("child", _) => child.context("there is no cow region")?.to_string(),
            ("exec", _) => {
                return Err(Command::new("/proc/self/exe")
                    .args(env::args_os().skip(1))
                    .exec()
                    .into());
            }
            ("exit", _) => break,
            _ => bail!("unknown command {line}"),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(End::Exit)
}

fn check(memory: &Memory) -> String {
    let mut slots = memory.slots();
    let wrong = slots.find_map(|mut slot| slot.as_mut()?.verify_all().err());
    match writer::CORRUPTION.get().cloned().or(wrong) {
        None => format!("ok {}", writer::WRITTEN.load(Relaxed)),
        Some(wrong) => format!("corrupt {wrong}"),
    }
}

fn unmap(memory: &Memory, name: &str) -> Result<String> {
    *named(memory, name)? = None;
    Ok(format!("unmapped {name}"))
}

fn free(memory: &Memory, words: &str) -> Result<String> {
    let words: Vec<&str> = words.split(' ').collect();
    let [name, unit, half @ ("first" | "last")] = words[..] else {
        bail!("free NAME BYTES first|last")
    };
    let mut slot = named(memory, name)?;
    let slot = slot.as_mut().context("it was unmapped")?;
    slot.free_halves(unit.parse::<usize>()?, half == "first")?;
    Ok(format!("freed {name}"))
}

fn poison(memory: &Memory, words: &str) -> Result<String> {
    let (name, page) = words.split_once(' ').context("poison NAME PAGE")?;
    let mut slot = named(memory, name)?;
    slot.as_mut().context("it was unmapped")?.poison(page.parse()?)?;
    Ok(format!("poisoned {name}"))
}

fn change_use(memory: &Memory, words: &str) -> Result<String> {
    let Some((name, how @ ("cold" | "read"))) = words.split_once(' ') else {
        bail!("use NAME cold|read")
    };
    let mut slot = named(memory, name)?;
    let slot = slot.as_mut().context("it was unmapped")?;
    slot.spec.access = if how == "cold" { Access::Cold } else { Access::ReadOnly };
    slot.rewritten = 0;
    Ok(format!("used {how}"))
}

fn remap(memory: &Memory, name: &str) -> Result<String> {
    let range = named(memory, name)?.as_mut().context("it was unmapped")?.remap()?;
    Ok(format!("{:x}-{:x}", range.start, range.end))
}

fn lose(memory: &Memory, name: &str) -> Result<String> {
    let mut slot = named(memory, name)?;
    slot.as_mut().context("it was unmapped")?.lose()?;
    Ok(format!("lost {name}"))
}

fn churn(memory: &Memory, words: &str) -> Result<String> {
    let [name, every, life] = words.split(' ').collect::<Vec<_>>()[..] else {
        bail!("churn NAME EVERY LIFE")
    };
    let region = mapped(memory, name)?;
    let (every, life) =
        (Duration::from_millis(every.parse()?), Duration::from_millis(life.parse()?));
    thread::spawn(move || {
        loop {
            fork_reader(&region, life).expect("a child");
            thread::sleep(every);
        }
    });
    Ok(format!("churning {name}"))
}

fn hold(file: &str) -> Result<String> {
    let pages = FilePages::map(&File::open(file)?, 0, page_bytes())?;
    let memory = File::open("/proc/self/mem")?;
    // The kernel maps the stacks of both threads before one of them has the lock.
    let (begin, may_begin) = mpsc::channel();
    let (begin_mapping, may_map) = mpsc::channel();
    thread::spawn(move || -> Result<()> {
        may_begin.recv()?;
        // access_remote_vm() (mm/memory.c) does not give the lock back while the fault waits for the file system.
        memory.read_at(&mut [0], pages.address()).ok();
        Ok(())
    });
    thread::spawn(move || -> Result<()> {
        may_map.recv()?;
        thread::sleep(Duration::from_millis(500));
        Scratch::read()?;
        Ok(())
    });
    begin.send(())?;
    begin_mapping.send(())?;
    Ok(format!("holding by {file}"))
}

fn mapped(memory: &Memory, name: &str) -> Result<Arc<Region>> {
    Ok(named(memory, name)?.as_ref().context("it was unmapped")?.region.clone())
}

fn named<'m>(memory: &'m Memory, name: &str) -> Result<MutexGuard<'m, Option<Slot>>> {
    let is_it = |slot: &Option<Slot>| slot.as_ref().is_some_and(|slot| slot.spec.name == name);
    memory.slots().find(|slot| is_it(slot)).context("no such region")
}
