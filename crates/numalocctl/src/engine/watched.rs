//! Work in a thread, with looks at it meanwhile.

use std::{
    sync::{mpsc, mpsc::RecvTimeoutError},
    thread,
    time::Duration,
};

/// Runs `work` in a thread, and calls `look` every `tick` until that has ended.
pub fn watched<T: Send>(
    tick: Duration,
    mut look: impl FnMut(),
    work: impl FnOnce() -> T + Send,
) -> T {
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        let worker = scope.spawn(move || {
            // Dropped at the end of this closure, also after a panic. This wakes the loop below at once.
            let _done = done;
            work()
        });
        while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
            look();
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
