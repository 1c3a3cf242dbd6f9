//! CPUs of the calling thread.

use nix::{
    sched::{CpuSet as Mask, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use numaloc_core::{CpuId, CpuSet};

/// 0 stands for the calling thread in sched_setaffinity(2).
const THIS: Pid = Pid::from_raw(0);

/// CPUs on which the calling thread may run; `None` if the kernel has more CPUs than the C library can name.
pub fn get() -> Option<CpuSet> {
    let mask = sched_getaffinity(THIS).ok()?;
    let cpus = (0..Mask::count()).filter(|&cpu| mask.is_set(cpu).unwrap_or(false));
    Some(cpus.filter_map(|cpu| u32::try_from(cpu).ok().map(CpuId)).collect())
}

/// Makes the calling thread run on these CPUs alone. Changes nothing if none of them can be named or used.
pub fn set(cpus: &CpuSet) {
    let mut mask = Mask::new();
    let named = cpus.iter().filter(|cpu| mask.set(cpu.0 as usize).is_ok()).count();
    if named > 0 {
        let _ = sched_setaffinity(THIS, &mask);
    }
}
