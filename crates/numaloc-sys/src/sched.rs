//! Scheduling of the calling thread.

use std::io;

/// Gives the calling thread the policy SCHED_BATCH (sched(7)): when it wakes up, it preempts no other thread.
///
/// It does not ask for a longer time slice (sched_setattr(2), from 6.12 on). Moving would get a little faster with one,
/// but threads that share the CPU would wait for that long (in the benchmark `neighbour` 15 times as long).
///
/// # Errors
/// EPERM where the caller may not choose the policy, as for a thread with a real-time policy.
pub fn sched_batch() -> io::Result<()> {
    // SAFETY: all bytes zero is a valid value of this structure of integers.
    let param: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads the structure, which lives during the call; 0 names the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &param) };
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
