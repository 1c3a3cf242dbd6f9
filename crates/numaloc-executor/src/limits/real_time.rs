//! Looks for real-time threads that use a whole CPU: calls may have to wait for them. Beside a run's first call, and when one is slow.

use numaloc_host::{RealTimeHog, Roots, real_time_hogs};
use parking_lot::Mutex;
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Time for which the result of a look holds.
const HOLDS: Duration = Duration::from_secs(10);
/// Runs that begin within this time after another one do not look again.
const HOLDS_AHEAD: Duration = Duration::from_secs(60);
/// Stack of the thread that looks ahead, in bytes.
const STACK: usize = 256 << 10;

/// The results of looks, for all runs of a process.
#[derive(Debug, Default)]
pub struct RealTimeLooks {
    seen: Arc<Mutex<Seen>>,
    ahead: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Seen {
    at: Option<Instant>,
    hogs: Vec<RealTimeHog>,
}

impl RealTimeLooks {
    /// Real-time threads that use a whole CPU now, or did so a moment ago. `afresh`: that there were none a moment ago does not count.
    pub fn hogs(&self, roots: &Roots, afresh: bool) -> Vec<RealTimeHog> {
        self.seen.lock().look(roots, afresh)
    }

    /// Looks in a thread of its own, and logs what it finds: a run that begins does not wait for the look, which takes 200 to 600 ms.
    pub fn look_ahead(&self, roots: &Roots) {
        let mut ahead = self.ahead.lock();
        if ahead.is_some_and(|at| at.elapsed() < HOLDS_AHEAD) {
            return;
        }
        *ahead = Some(Instant::now());
        let (seen, roots) = (Arc::clone(&self.seen), roots.clone());
        let span = tracing::Span::current();
        let look = move || {
            let _span = span.enter();
            for hog in seen.lock().look(&roots, true) {
                let how_long = if hog.is_limited {
                    "take up to a second"
                } else {
                    "may not return until it sleeps"
                };
                tracing::warn!("{hog}: calls that move memory {how_long}");
            }
        };
        let thread = thread::Builder::new().name("real-time".to_owned()).stack_size(STACK);
        if let Err(error) = thread.spawn(look) {
            tracing::debug!(%error, "cannot look for real-time threads");
        }
    }
}

impl Seen {
    fn look(&mut self, roots: &Roots, afresh: bool) -> Vec<RealTimeHog> {
        let holds = self.at.is_some_and(|at| at.elapsed() < HOLDS);
        if !holds || (afresh && self.hogs.is_empty()) {
            let found = real_time_hogs(roots);
            self.hogs = found
                .inspect_err(|error| tracing::debug!(%error, "real-time threads"))
                .unwrap_or_default();
            self.at = Some(Instant::now());
        }
        self.hogs.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn runs_that_begin_one_after_the_other_look_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let roots = Roots { proc: directory.path().to_owned(), ..Roots::default() };
        fs::write(directory.path().join("stat"), "cpu0 1 0 0 9\n").expect("a file");
        let looks = RealTimeLooks::default();
        looks.look_ahead(&roots);
        let seen_at = || loop {
            if let Some(at) = looks.seen.lock().at {
                return at;
            }
            thread::yield_now();
        };
        let first = seen_at();
        looks.look_ahead(&roots);
        assert!(looks.hogs(&roots, false).is_empty());
        assert_eq!(seen_at(), first);
        // A slow call looks again, although nothing was found a moment ago.
        assert!(looks.hogs(&roots, true).is_empty());
        assert!(seen_at() > first);
    }
}
