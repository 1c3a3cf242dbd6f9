//! The service manager's watchdog (sd_watchdog_enabled(3)). It hears from this process as long as both of its tasks
//! continue: the one that answers the runtime, and the one that speaks to numalocd. In a container no manager listens:
//! a thread of this process does, and ends the process if it is stuck.

use sd_notify::NotifyState;
use std::{
    env,
    future::pending,
    io, process,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};
use tokio::time::{Interval, MissedTickBehavior, interval};

#[derive(Debug)]
pub struct Watchdog {
    /// A process that is silent for longer than this counts as stuck; `None`: not watched.
    patience: Option<Duration>,
    /// Whether the connection's task has made progress since the watchdog was last notified.
    has_beaten: AtomicBool,
    /// Notifies the thread of this process that is the watchdog; `None`: it is the service manager.
    thread: Option<Sender<()>>,
}

impl Watchdog {
    /// The watchdog that the environment asks this process to serve: the service manager, or a thread where
    /// `WATCHDOG_USEC` is set and nobody is to be notified.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn from_env() -> io::Result<Self> {
        let watchdog = Self::new(sd_notify::watchdog_enabled());
        let Some(patience) = watchdog.patience.filter(|_| env::var_os("NOTIFY_SOCKET").is_none())
        else {
            return Ok(watchdog);
        };
        let (sender, alive) = mpsc::channel();
        let watch = move || {
            if is_silent(&alive, patience) {
                tracing::error!(
                    "no progress for {patience:?}: this process ends, so that it is started again"
                );
                process::abort();
            }
        };
        thread::Builder::new().name("watchdog".to_owned()).spawn(watch)?;
        Ok(Self { thread: Some(sender), ..watchdog })
    }

    /// A watchdog with this patience; `None` or 0: not watched.
    fn new(patience: Option<Duration>) -> Self {
        let patience = patience.filter(|patience| !patience.is_zero());
        Self { patience, has_beaten: AtomicBool::new(false), thread: None }
    }

    /// Shows repeatedly that the task that polls this continues. Never ends.
    pub async fn beat(&self) {
        let Some(mut turn) = self.each(4) else { return pending().await };
        loop {
            turn.tick().await;
            self.has_beaten.store(true, Ordering::Relaxed);
        }
    }

    /// Notifies the service manager twice within its patience that this process continues: both the task that polls
    /// this and the one that polls [`Self::beat`]. Never ends.
    pub async fn pat(&self) {
        match &self.thread {
            // The thread ends only with this value.
            Some(thread) => self.pat_by(async || thread.send(()).unwrap_or_default()).await,
            None => self.pat_by(tell).await,
        }
    }

    async fn pat_by(&self, tell: impl AsyncFn()) {
        let Some(mut turn) = self.each(2) else { return pending().await };
        loop {
            turn.tick().await;
            if self.has_beaten.swap(false, Ordering::Relaxed) {
                tell().await;
            }
        }
    }

    /// Ticks so often within the patience.
    fn each(&self, times: u32) -> Option<Interval> {
        let period = self.patience? / times;
        let mut turn = interval(period.max(Duration::from_millis(1)));
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(turn)
    }
}

/// Waits until nobody has sent anything for `patience`. `false`: nobody can send any more.
fn is_silent(alive: &Receiver<()>, patience: Duration) -> bool {
    loop {
        match alive.recv_timeout(patience) {
            Ok(()) => {}
            Err(error) => return error == RecvTimeoutError::Timeout,
        }
    }
}

/// Notifies the service manager. It may not read for a while, so a thread waits for it instead of a task.
async fn tell() {
    let told = tokio::task::spawn_blocking(|| sd_notify::notify(&[NotifyState::Watchdog])).await;
    if let Ok(Err(error)) = told {
        tracing::warn!(%error, "cannot notify the service manager that this process is alive");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::time::{sleep, timeout};

    /// Number of messages to the service manager within five minutes, while the connection's task runs for
    /// `beaten_for`.
    async fn told(patience: Option<Duration>, beaten_for: Duration) -> u32 {
        let (watchdog, told) = (Watchdog::new(patience), Cell::new(0));
        tokio::select! {
            () = watchdog.pat_by(async || told.set(told.get() + 1)) => {}
            // It ends, and `beat` is not polled any more.
            () = async {
                timeout(beaten_for, watchdog.beat()).await.ok();
                pending().await
            } => {}
            () = sleep(Duration::from_secs(301)) => {}
        }
        told.get()
    }

    const PATIENCE: Duration = Duration::from_secs(30);
    const LONG: Duration = Duration::from_secs(1000);

    #[tokio::test(start_paused = true)]
    async fn it_is_told_twice_within_its_patience() {
        // Each 15 s; whether also at the very first moment does not matter.
        let told = told(Some(PATIENCE), LONG).await;
        assert!((20..=21).contains(&told), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_not_told_of_a_process_that_is_half_stuck() {
        let told = told(Some(PATIENCE), Duration::from_secs(20)).await;
        assert!((1..=3).contains(&told), "{told}");
    }

    #[test]
    fn a_thread_notices_silence_and_the_end() {
        let (sender, alive) = mpsc::channel();
        sender.send(()).expect("it listens");
        assert!(is_silent(&alive, Duration::ZERO));
        assert_eq!(alive.try_recv(), Err(mpsc::TryRecvError::Empty), "it has heard the first one");
        drop(sender);
        assert!(!is_silent(&alive, LONG));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_told_when_nobody_watches() {
        for patience in [None, Some(Duration::ZERO)] {
            assert_eq!(told(patience, LONG).await, 0);
        }
    }
}
