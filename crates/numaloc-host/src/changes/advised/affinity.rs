//! CPUs of threads, as taskset(1) sets them.

use super::{Undone, same};
use crate::{
    Error, Roots,
    files::read::{self, numbered},
    journal,
    processes::thread::start_time,
};
use nix::{
    errno::Errno,
    sched::{CpuSet as Mask, sched_setaffinity},
    unistd::Pid,
};
use numaloc_core::{CpuSet, advise::Pinned};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io, path::Path};

/// The owner of the pinned threads; see [`Pinned`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "as in Pinned")]
pub enum Whom {
    Members(String),
    Process(i32),
    Thread(i32),
}

impl From<&Pinned> for Whom {
    fn from(whom: &Pinned) -> Self {
        match whom {
            Pinned::Members(directory) => Self::Members(directory.clone()),
            Pinned::Process(pid) => Self::Process(*pid),
            Pinned::Thread(tid) => Self::Thread(*tid),
        }
    }
}

/// A thread, and the CPUs that it may run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCpus {
    /// Thread id.
    pub tid: i32,
    /// Its start time, in ticks since boot.
    pub start_time: u64,
    /// Its CPUs, as a list of the kernel.
    pub cpus: String,
}

/// All of these threads that exist now.
pub fn threads(roots: &Roots, whom: &Whom) -> Vec<ThreadCpus> {
    let pids: Vec<i32> = match whom {
        Whom::Thread(tid) => return thread(roots, *tid).into_iter().collect(),
        Whom::Process(pid) => vec![*pid],
        Whom::Members(directory) => {
            let text = read::text(&Path::new(directory).join("cgroup.procs"));
            text.unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect()
        }
    };
    let tasks = pids.iter().flat_map(|pid| {
        numbered::<i32>(&roots.proc.join(pid.to_string()).join("task")).into_keys()
    });
    tasks.filter_map(|tid| thread(roots, tid)).collect()
}

fn thread(roots: &Roots, tid: i32) -> Option<ThreadCpus> {
    let start_time = start_time(roots, tid)?;
    let status = read::text(&roots.proc.join(tid.to_string()).join("status")).ok()?;
    let cpus = read::field(&status, "Cpus_allowed_list")?.to_owned();
    Some(ThreadCpus { tid, start_time, cpus })
}

/// Pins those of these threads that still exist.
pub fn pin(roots: &Roots, threads: &[ThreadCpus], cpus: &str) -> Result<(), Error> {
    let exists = |thread: &&ThreadCpus| start_time(roots, thread.tid) == Some(thread.start_time);
    threads.iter().filter(exists).try_for_each(|thread| set(thread.tid, cpus))
}

/// Restores the former CPUs of each thread that still has the CPUs which it was given. A thread that has begun since
/// and has inherited the new CPUs gets the former CPUs of the first thread.
pub fn undo(
    roots: &Roots,
    whom: &Whom,
    before: &[ThreadCpus],
    after: &str,
) -> Result<Undone, Error> {
    let now = threads(roots, whom);
    let known: BTreeMap<(i32, u64), &ThreadCpus> =
        before.iter().map(|thread| ((thread.tid, thread.start_time), thread)).collect();
    let is_known = |thread: &ThreadCpus| known.contains_key(&(thread.tid, thread.start_time));
    let Some(first) = before.first().filter(|_| now.iter().any(is_known)) else {
        return Ok(Undone::Gone);
    };
    let mut changed = None;
    for thread in now {
        let had = known.get(&(thread.tid, thread.start_time));
        let cpus = &had.unwrap_or(&first).cpus;
        if same(&thread.cpus, cpus) {
            continue;
        }
        match same(&thread.cpus, after) {
            true => set(thread.tid, cpus)?,
            false if had.is_some() => changed = Some(thread),
            false => {}
        }
    }
    Ok(changed.map_or(Undone::Done, |thread| {
        Undone::Changed(format!("CPUs {} of thread {}", thread.cpus, thread.tid))
    }))
}

/// Sets the CPUs of a thread. One that has ended meanwhile is not an error.
fn set(tid: i32, cpus: &str) -> Result<(), Error> {
    let failed = |source| Error::Affinity { tid, source };
    let cpus: CpuSet =
        cpus.parse().map_err(|error| failed(io::Error::other(format!("{error}"))))?;
    let mut mask = Mask::new();
    for cpu in cpus.iter() {
        mask.set(cpu.0 as usize).map_err(|error| failed(error.into()))?;
    }
    journal::may_write().map_err(failed)?;
    match sched_setaffinity(Pid::from_raw(tid), &mask) {
        Err(Errno::ESRCH) => Ok(()),
        set => set.map_err(|error| failed(error.into())),
    }
}
