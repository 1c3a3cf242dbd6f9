//! The processes near the limits. Each first does what `hold` does, and answers a line of input once it is as it shall be.

use crate::hold;
use anyhow::Result;
use numaloc_core::page_size;
use numaloc_sys::fixture::{Advice, Backing, Region, set_thread_policy};
use std::{
    io::{self, BufRead, Write},
    sync::atomic::Ordering::Relaxed,
    thread,
};

/// MiB of memory in mappings of one page each: 64,768, of the 65,530 that a process may have (vm.max_map_count).
pub const MIB: usize = 253;
/// Threads beside the first one.
pub const THREADS: usize = 2000;
/// MiB of memory of a process that has little.
pub const LITTLE_MIB: usize = 4;
/// MiB that are resident of the reservation.
pub const RESIDENT_MIB: usize = 64;

/// The reservation: as many mappings, as an engine for WebAssembly makes for its instances, of this size each.
const INSTANCES: usize = 2048;
const INSTANCE: usize = 8 << 30;

/// The name of the case with mappings.
pub fn mappings() -> String {
    format!("{} mappings", (MIB << 20) / page_size() as usize)
}

/// The name of the case with threads.
pub fn threads() -> String {
    format!("{THREADS} threads")
}

/// The name of the case with a reservation.
pub fn reserved() -> String {
    format!("{} TiB reserved, {RESIDENT_MIB} MiB resident", (INSTANCES * INSTANCE) >> 40)
}

/// The name of the case with little memory.
pub fn little() -> String {
    format!("{LITTLE_MIB} MiB")
}

/// A process whose pages are a mapping each.
pub fn divide(args: &hold::Args) -> Result<()> {
    let mut regions = hold::fill(args)?;
    regions.iter_mut().try_for_each(Region::divide)?;
    answer()
}

/// A process with many threads that sleep.
pub fn sleep(args: &hold::Args) -> Result<()> {
    let _regions = hold::fill(args)?;
    for _ in 0..THREADS {
        // The least that the library allows.
        thread::Builder::new().stack_size(16 << 10).spawn(thread::park)?;
    }
    answer()
}

/// A process that has reserved much and uses little of it: the beginning of each mapping.
pub fn reserve(args: &hold::Args) -> Result<()> {
    if let Some(node) = args.cpu_node {
        numaloc_tests::cpus::run_on(&numaloc_tests::cpus::cpus_of(node));
    }
    set_thread_policy(args.memory_node)?;
    let mut regions = Vec::new();
    for _ in 0..INSTANCES {
        let region = Region::map(INSTANCE, Backing::Reserved, None)?;
        // Otherwise the first page of each takes 2 MiB where the kernel makes huge pages always.
        region.advise(Advice::NoHuge)?;
        let pages = (args.mib << 20) / INSTANCES / page_size() as usize;
        (0..pages).for_each(|page| region.page(page)[0].store(1, Relaxed));
        regions.push(region);
    }
    set_thread_policy(None)?;
    hold::show(&regions)?;
    answer()
}

/// Answers each line of input, until it ends.
fn answer() -> Result<()> {
    for line in io::stdin().lock().lines() {
        line?;
        println!("ready");
        io::stdout().flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_named_by_what_they_have() {
        assert_eq!(mappings(), "64768 mappings");
        assert_eq!(threads(), "2000 threads");
        assert_eq!(reserved(), "16 TiB reserved, 64 MiB resident");
        assert_eq!(little(), "4 MiB");
    }

    #[test]
    fn each_instance_has_whole_pages() {
        assert!(((RESIDENT_MIB << 20) / INSTANCES).is_multiple_of(page_size() as usize));
    }
}
