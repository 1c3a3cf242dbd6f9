//! How the calling thread is scheduled.

use std::io;

/// The longest slice that the kernel allows (kernel/sched/syscalls.c, `__setparam_fair`), in nanoseconds.
const SLICE_NS: u64 = 100_000_000;

/// Makes the calling thread one of SCHED_BATCH (sched(7)): its waking up preempts nobody. And it asks for the longest slice,
/// with which from 6.12 on it is preempted at once by whoever wakes up (kernel/sched/features.h, PREEMPT_SHORT); older
/// kernels do not mind.
///
/// # Errors
/// EPERM where the caller may not choose, for a thread of a real-time policy.
pub fn sched_batch() -> io::Result<()> {
    // SAFETY: all bytes zero is a valid value of this structure of integers.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most as many bytes as the structure has, which lives during the call; 0 names the calling
    // thread.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, 0, &mut attr, size_of::<libc::sched_attr>(), 0)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    attr.sched_policy = libc::SCHED_BATCH as u32;
    attr.sched_runtime = SLICE_NS;
    // SAFETY: the kernel reads the structure, whose size it has written into it and which lives during the call; 0 names the
    // calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attr, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives the calling thread a nice value, from -20 to 19. (In Linux it belongs to the thread: setpriority(2), C library/kernel
/// differences.)
///
/// # Errors
/// EACCES for a value below the current one without CAP_SYS_NICE.
pub fn set_nice(nice: i8) -> io::Result<()> {
    // SAFETY: takes three integers; 0 names the calling thread.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice.into()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_become_gentler() {
        let gentler = std::thread::spawn(|| {
            sched_batch().unwrap();
            set_nice(19).unwrap();
            // SAFETY: both take an integer; 0 names the calling thread.
            unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) }
        });
        assert_eq!(gentler.join().unwrap(), (libc::SCHED_BATCH, 19));
    }
}
