//! Processes that are killed, for tests of the changes that this program makes on the host: after some writes, to the
//! host or to a journal, no further one takes effect.

use std::{cell::Cell, fmt::Debug, io};

thread_local! {
    /// Number of writes that this thread may still do; `None`: any number.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    /// Whether one more was asked for.
    static KILLED: Cell<bool> = const { Cell::new(false) };
}

/// Asks for a write.
///
/// # Errors
/// The process has been killed.
pub fn write() -> io::Result<()> {
    match LEFT.get() {
        None => Ok(()),
        Some(0) => {
            KILLED.set(true);
            Err(io::Error::other("killed"))
        }
        Some(left) => {
            LEFT.set(Some(left - 1));
            Ok(())
        }
    }
}

/// Runs `work` in a process that is killed after this number of writes. Returns whether it was, before its end.
pub fn after(writes: usize, work: impl FnOnce()) -> bool {
    LEFT.set(Some(writes));
    KILLED.set(false);
    work();
    LEFT.set(None);
    KILLED.get()
}

/// Checks that nothing is left of a change, wherever the process that makes it and takes it back (`work`) is killed, and wherever
/// the process that then recovers (`recover`) is killed, too: another `recover` finds or makes the `state` of a new `host`.
/// Returns how many writes `work` takes.
pub fn leaves_nothing<H, S: PartialEq + Debug>(
    host: impl Fn() -> H,
    state: impl Fn(&H) -> S,
    work: impl Fn(&H),
    recover: impl Fn(&H),
) -> usize {
    let mut writes = 0;
    while killed_twice(&host, &state, &work, &recover, writes) {
        writes += 1;
    }
    writes
}

/// Kills the work after this number of writes, and the recovery after any. Returns whether the work was killed.
fn killed_twice<H, S: PartialEq + Debug>(
    host: &impl Fn() -> H,
    state: &impl Fn(&H) -> S,
    work: &impl Fn(&H),
    recover: &impl Fn(&H),
    writes: usize,
) -> bool {
    for again in 0.. {
        let host = host();
        let before = state(&host);
        let is_killed = after(writes, || work(&host));
        let is_killed_again = after(again, || recover(&host));
        recover(&host);
        assert_eq!(state(&host), before, "killed after {writes} writes, and again after {again}");
        recover(&host);
        assert_eq!(state(&host), before, "killed after {writes} writes, nothing is left to do");
        if !is_killed_again {
            return is_killed;
        }
    }
    false
}
