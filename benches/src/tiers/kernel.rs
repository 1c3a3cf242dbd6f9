//! The kernel as a mover: demotion under pressure, and promotion by NUMA balancing.

use super::{
    FAST,
    process::{Share, Subject},
};
use crate::hold::{self, Holder};
use anyhow::Result;
use numaloc_core::page_size;
use numaloc_tests::{
    settings::{NUMA_BALANCING, Setting},
    truth::{free_bytes, vmstat},
};
use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// Memory that is taken from the fast node at a time, so that the kernel has to demote.
const STEP: u64 = 16 << 20;
/// Free memory below which it has to.
const NEARLY: u64 = 16 << 20;

/// What the kernel has moved on the whole host, in bytes, and where that has led.
#[derive(Debug)]
pub struct ByKernel {
    pub demoted: u64,
    pub promoted: u64,
    pub share: Share,
}

/// Has the kernel demote and promote until idle memory is on the slow node, or for `cap`. Memory that is taken meanwhile is locked, so that it is never
/// among what is moved.
pub fn moved_until_reached(mib: usize, cap: Duration) -> Result<ByKernel> {
    let subject = Subject::start(mib)?;
    // Where nothing more can leave the node, the kernel kills what takes memory there, and not the process under measurement.
    fs::write(format!("/proc/{}/oom_score_adj", subject.pid()), "-1000")?;
    let _demotes = Setting::set("/sys/kernel/mm/numa/demotion_enabled", "true");
    let _promotes = Setting::set(NUMA_BALANCING, "2");
    let (demoted, promoted) = (demoted()?, vmstat("pgpromote_success"));
    let (begin, mut taken) = (Instant::now(), Vec::new());
    let mut share = subject.regions().share(subject.busy);
    let mut leaves = true;
    while !share.is_reached() && begin.elapsed() < cap {
        if leaves {
            let mib = (free_bytes(FAST).saturating_sub(NEARLY).max(STEP) >> 20) as usize;
            let args = hold::Args { mib, memory_node: Some(FAST), ..hold::Args::default() };
            match Holder::start_as("locked", &args) {
                Ok(holder) => taken.push(holder),
                Err(error) => {
                    println!(
                        "nothing more leaves the node, after {} steps: {error:#}",
                        taken.len()
                    );
                    leaves = false;
                }
            }
        }
        thread::sleep(Duration::from_secs(1));
        share = subject.regions().share(subject.busy);
    }
    Ok(ByKernel {
        demoted: self::demoted()?.saturating_sub(demoted),
        promoted: (vmstat("pgpromote_success") - promoted) * page_size(),
        share,
    })
}

/// Bytes that the kernel has demoted since boot, by all that makes it demote.
fn demoted() -> Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let counts = text.lines().filter(|line| line.starts_with("pgdemote_"));
    let counts = counts.filter_map(|line| line.split_once(' ')?.1.parse::<u64>().ok());
    Ok(counts.sum::<u64>() * page_size())
}
