//! Keeps the watchdog quiet while the dispatcher waits for the disk. The dispatcher alone serves the watchdog, so a
//! commit that takes longer than the watchdog waits would end the daemon, and interrupt its jobs, because a disk is
//! slow.

use crate::{dispatch::Measured, notify::Watchdog};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, interval};

/// Time limit of one commit. After that the daemon counts as stuck.
const COMMIT: Duration = Duration::from_secs(300);

/// Whether a commit is under way, and since when.
#[derive(Clone, Debug, Default)]
pub struct Writing(Arc<Mutex<Option<Instant>>>);

impl Writing {
    /// Notes that a commit has begun or ended.
    pub fn note(&self, measured: &Measured<'_>) {
        match measured {
            Measured::Committing => self.set(Some(Instant::now())),
            Measured::Commit { .. } => self.set(None),
            _ => {}
        }
    }

    fn set(&self, since: Option<Instant>) {
        *self.0.lock() = since;
    }

    /// Whether a commit is under way that may still end.
    fn is_under_way(&self, now: Instant) -> bool {
        let since = *self.0.lock();
        since.is_some_and(|since| now.saturating_duration_since(since) < COMMIT)
    }

    /// Serves the watchdog while a commit is under way.
    pub async fn serve(self, watchdog: Watchdog) {
        let Some(period) = watchdog.interval() else { return };
        let mut turns = interval(period);
        loop {
            turns.tick().await;
            if self.is_under_way(Instant::now()) {
                watchdog.pat();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_commit_may_take_minutes_but_not_for_ever() {
        let (writing, begin) = (Writing::default(), Instant::now());
        assert!(!writing.is_under_way(begin));
        writing.note(&Measured::Committing);
        writing.note(&Measured::StoreBytes(1));
        assert!(writing.is_under_way(begin + Duration::from_secs(299)));
        assert!(!writing.is_under_way(begin + COMMIT), "it is stuck");
        writing.note(&Measured::Commit { elapsed: Duration::ZERO, done: false });
        assert!(!writing.is_under_way(begin + Duration::from_secs(1)));
    }
}
