//! The threads of a process, with the CPUs that each may use and the CPU time that it has used.

use super::{Living, Miss, OpenProcess, PF_IO_WORKER};
use numaloc_core::{CpuSet, Thread, Threads};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

/// Largest number of threads of a group that are kept by name: enough to recognize them.
const NAMED: usize = 8;

/// The threads of a process.
#[derive(Debug, Default)]
pub(super) struct ReadThreads {
    /// All of them, by what they may use.
    pub(super) groups: Vec<Threads>,
    /// The threads that run the vCPUs of a guest, by the numbers of the vCPUs.
    pub(super) vcpus: BTreeMap<u32, Threads>,
}

/// Reads the `living` threads, grouped by their CPUs and, if they differ in these, by the nodes that their cpusets allow. CPU time is what a
/// living thread has used since it started (utime and stime in /proc/PID/task/TID/stat). The time of threads that have ended does not
/// count.
pub(super) fn read(
    process: &OpenProcess,
    online: &CpuSet,
    living: &Living,
) -> Result<ReadThreads, Miss> {
    let ticks_per_second = procfs::ticks_per_second();
    let mut groups: BTreeMap<(&str, &str), Threads> = BTreeMap::new();
    let mut vcpus: BTreeMap<u32, Threads> = BTreeMap::new();
    for &(tid, allowed) in &living.threads {
        // Threads end all the time.
        let Some(stat) = process.stat_of(tid) else { continue };
        if stat.flags & PF_IO_WORKER != 0 {
            continue;
        }
        let (name, allowed) = (format!("task/{tid}/status"), &living.allowed[allowed]);
        let mems = Some(&*allowed.mems).filter(|mems| living.differ_in_mems && !mems.is_empty());
        let key = (&*allowed.cpus, mems.unwrap_or_default());
        let group = match groups.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let cpus = process.parse::<CpuSet>(&name, &allowed.cpus)?.and(online);
                let mems_allowed = mems.map(|mems| process.parse(&name, mems)).transpose()?;
                new.insert(Threads { cpus, mems_allowed, ..Threads::default() })
            }
        };
        let ticks = stat.utime.saturating_add(stat.stime);
        let cpu_time = Duration::from_millis(ticks.saturating_mul(1000) / ticks_per_second.max(1));
        let thread = Thread { tid, comm: stat.comm, cpu_time };
        if let Some(number) = vcpu(&thread.comm) {
            let (cpus, mems_allowed) = (group.cpus.clone(), group.mems_allowed.clone());
            let one = Threads { cpus, mems_allowed, ..Threads::default() };
            add(vcpus.entry(number).or_insert(one), thread.clone());
        }
        add(group, thread);
        if group.busiest.len() > NAMED * 2 {
            shorten(&mut group.busiest);
        }
    }
    let mut groups: Vec<Threads> = groups.into_values().collect();
    groups.iter_mut().for_each(|group| shorten(&mut group.busiest));
    Ok(ReadThreads { groups, vcpus })
}

fn add(group: &mut Threads, thread: Thread) {
    group.count += 1;
    group.cpu_time += thread.cpu_time;
    group.busiest.push(thread);
}

/// The number of the vCPU that a thread of this name runs. QEMU names its threads if it is started with `-name ...,debug-threads=on`, as
/// libvirt and Proxmox do (accel/kvm/kvm-accel-ops.c, `kvm_start_vcpu_thread`; accel/tcg/tcg-accel-ops-mttcg.c).
fn vcpu(comm: &str) -> Option<u32> {
    let (number, accelerator) = comm.strip_prefix("CPU ")?.split_once('/')?;
    number.parse().ok().filter(|_| matches!(accelerator, "KVM" | "TCG"))
}

/// Keeps the busiest, in the order of their CPU time.
fn shorten(threads: &mut Vec<Thread>) {
    threads.sort_by_key(|thread| (Reverse(thread.cpu_time), thread.tid));
    threads.truncate(NAMED);
}
