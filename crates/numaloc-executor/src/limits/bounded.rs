//! Calls that end in time, whatever the kernel waits for.
//!
//! A call is made by a companion of this process. The worker waits for it, and no longer than is reasonable: then the call is left behind,
//! and the run ends with a message that names what the call waits for.

use crate::limits::{
    calls::{SharedCalls, Subject},
    control::Control,
};
use numaloc_host::{RealTimeHog, Roots, read};
use numaloc_sys::{Answer, Companion, Request};
use std::{
    fmt::Write as _,
    io,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// A call that has taken so long is overdue. The longest that are known take a few seconds: huge pages of 1 GiB, slow devices below the
/// page cache, real-time threads that leave 5 % of a CPU to others.
const LONGEST: Duration = Duration::from_secs(30);
/// A call of a run that is to end is overdue sooner: so long after the end was wanted. So is one that waits for a thread which will not
/// let it return: so long after that was seen.
const GRACE: Duration = Duration::from_secs(5);
/// From then on it is looked for what a call waits for.
const SLOW: Duration = Duration::from_secs(1);
/// Time between two looks at whether the run is to end.
const TURN: Duration = Duration::from_millis(100);

/// The call has not returned, or was not made because another one has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotReturned;

/// The time for which a run waits for its calls, and the receiver of reports on calls that do not return.
#[derive(Clone, Copy, Debug)]
pub struct CallBounds<'a> {
    /// Where the host's files are read.
    pub roots: &'a Roots,
    /// Ends the run.
    pub control: &'a Control,
    /// The calls of all runs.
    pub calls: &'a SharedCalls,
    /// When the run is out of time.
    pub deadline: Option<Instant>,
}

impl CallBounds<'_> {
    /// Makes a call for `subject`; `name` is that of the call, for messages. `companion` is started if there is none, and taken away if
    /// it does not return.
    ///
    /// # Errors
    /// It is not made, or has not returned: the run ends. The inner error is that no companion can be started.
    pub fn call(
        &self,
        companion: &mut Option<Companion>,
        name: &str,
        subject: &Subject,
        request: Request,
    ) -> Result<io::Result<Answer>, NotReturned> {
        if let Some(why) = self.calls.refuse(subject) {
            self.control.end_with(format!("no memory is moved now: {why}"));
            return Err(NotReturned);
        }
        if companion.is_none() {
            self.calls.real_time.look_ahead(self.roots);
        }
        let mut asked = match companion.take().map_or_else(Companion::start, Ok) {
            Ok(asked) => asked,
            Err(error) => return Ok(Err(error)),
        };
        asked.ask(request);
        match self.wait(&mut asked, name) {
            Ok(answer) => {
                *companion = Some(asked);
                Ok(Ok(answer))
            }
            Err(why) => {
                tracing::error!("{why}");
                self.control.end_with(why.clone());
                self.calls.leave(asked, subject.clone(), why);
                Err(NotReturned)
            }
        }
    }

    /// Waits for the answer. The error is why it is not waited for any longer.
    fn wait(&self, companion: &mut Companion, name: &str) -> Result<Answer, String> {
        let begin = Instant::now();
        let mut patience = CallPatience { begin, ending: None };
        let (mut is_slow, mut is_hopeless) = (false, false);
        loop {
            if let Some(answer) = companion.answer(TURN) {
                if is_slow {
                    self.control.set_waiting(String::new());
                }
                return Ok(answer);
            }
            let now = Instant::now();
            if !is_slow && now - begin >= SLOW {
                is_slow = true;
                let hogs = self.calls.real_time.hogs(self.roots, true);
                let place = wait_channel(self.roots, companion.pid());
                is_hopeless = waits_for_ever(place.as_deref(), &hogs);
                let why = overdue(name, now - begin, None, &hogs);
                tracing::warn!("{why}");
                self.control.set_waiting(why);
            }
            if patience.is_over(is_hopeless || self.is_ending(now), now) {
                self.control.set_waiting(String::new());
                let hogs = self.calls.real_time.hogs(self.roots, true);
                let place = wait_channel(self.roots, companion.pid());
                return Err(overdue(name, now - begin, place.as_deref(), &hogs));
            }
        }
    }

    /// Whether the run is to end.
    fn is_ending(&self, now: Instant) -> bool {
        self.control.cancel.load(Relaxed)
            || self.control.ended_with().is_some()
            || self.deadline.is_some_and(|deadline| now >= deadline)
    }
}

/// The time to wait for a call. Pure.
#[derive(Debug)]
struct CallPatience {
    begin: Instant,
    /// Since when the run has been to end, if it is.
    ending: Option<Instant>,
}

impl CallPatience {
    fn is_over(&mut self, is_ending: bool, now: Instant) -> bool {
        if is_ending {
            self.ending.get_or_insert(now);
        }
        let past = |since: Instant, span| now.saturating_duration_since(since) >= span;
        past(self.begin, LONGEST) || self.ending.is_some_and(|since| past(since, GRACE))
    }
}

/// The report on a call that has not returned for a time.
fn overdue(name: &str, took: Duration, place: Option<&str>, hogs: &[RealTimeHog]) -> String {
    let mut why = format!("{name} has not returned for {} s", took.as_secs());
    // Writing to a string cannot fail.
    if let Some(place) = place {
        let _ = write!(why, " (waits in {place})");
    }
    for (index, hog) in hogs.iter().take(3).enumerate() {
        let _ = write!(why, "{} {hog}", if index == 0 { ":" } else { "," });
    }
    why
}

/// Whether a call that sleeps at `place` waits for the work of all CPUs (kernel/workqueue.c, `__flush_work`), one of which has no time for it.
/// Where that function is inlined, its caller shows (mm/swap.c, `__lru_add_drain_all`).
fn waits_for_ever(place: Option<&str>, hogs: &[RealTimeHog]) -> bool {
    let drains =
        |place: &str| ["flush_work", "lru_add_drain"].iter().any(|name| place.contains(name));
    place.is_some_and(drains) && hogs.iter().any(|hog| !hog.is_limited)
}

/// The kernel's function that a process sleeps in (/proc/PID/wchan), if the kernel shows it.
fn wait_channel(roots: &Roots, pid: i32) -> Option<String> {
    let text = read::text(&roots.proc.join(format!("{pid}/wchan"))).ok()?;
    let text = text.trim();
    (!text.is_empty() && text != "0").then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::calls::tests::Held;
    use numaloc_core::{CpuId, NodeId};
    use numaloc_host::RealTimePolicy;
    use std::thread;

    #[test]
    fn a_call_is_waited_for_longer_unless_the_end_is_requested() {
        let begin = Instant::now();
        let over = |ending: Option<u64>, seconds: u64| {
            let mut patience = CallPatience { begin, ending: None };
            (0..=seconds)
                .map(|second| {
                    let is_ending = ending.is_some_and(|from| second >= from);
                    patience.is_over(is_ending, begin + Duration::from_secs(second))
                })
                .position(|is_over| is_over)
        };
        assert_eq!(over(None, 60), Some(30));
        assert_eq!(over(Some(0), 60), Some(5));
        assert_eq!(over(Some(10), 60), Some(15));
        assert_eq!(over(Some(29), 60), Some(30));
    }

    fn hog(is_limited: bool) -> RealTimeHog {
        RealTimeHog {
            cpu: CpuId(3),
            pid: 7,
            tid: 8,
            comm: "poll".into(),
            policy: RealTimePolicy::Fifo,
            priority: 99,
            is_limited,
        }
    }

    #[test]
    fn a_call_is_hopeless_that_waits_for_a_cpu_without_time() {
        let place = Some("__flush_work.isra.0");
        assert!(waits_for_ever(place, &[hog(true), hog(false)]));
        assert!(waits_for_ever(Some("__lru_add_drain_all"), &[hog(false)]));
        assert!(!waits_for_ever(place, &[hog(true)]), "it takes a second");
        assert!(!waits_for_ever(place, &[]));
        assert!(!waits_for_ever(Some("folio_wait_bit_common"), &[hog(false)]));
        assert!(!waits_for_ever(None, &[hog(false)]), "the kernel does not show it");
    }

    #[test]
    fn a_message_names_the_thread_that_does_not_sleep() {
        let hog = hog(false);
        let why = |hogs: &[_]| {
            overdue("move_pages", Duration::from_millis(30_200), Some("__flush_work"), hogs)
        };
        assert_eq!(why(&[]), "move_pages has not returned for 30 s (waits in __flush_work)");
        let named = why(&[hog]);
        assert!(
            named.ends_with(
                "__flush_work): CPU 3 runs thread 8 (poll) of process 7 at real-time priority 99 without a pause"
            ),
            "{named}"
        );
    }

    #[test]
    fn a_call_that_does_not_return_ends_its_run_and_is_made_by_no_other() {
        let (held, calls, roots) = (Held::new(), SharedCalls::default(), Roots::default());
        let subject = Subject::Node(NodeId(0));
        // The run is to end, so it is not waited for long.
        let run = |request| {
            let control = Control::default();
            control.cancel.store(true, Relaxed);
            let bounds =
                CallBounds { roots: &roots, control: &control, calls: &calls, deadline: None };
            let mut companion = None;
            let made = bounds.call(&mut companion, "write", &subject, request);
            (made.is_ok(), control.ended_with(), companion.is_some())
        };
        let begin = Instant::now();
        let (made, why, keeps) = run(held.request());
        assert!(!made && !keeps && begin.elapsed() >= GRACE);
        let why = why.expect("a message");
        assert!(why.starts_with("write has not returned for "), "{why}");
        let begin = Instant::now();
        let (made, refused, _) = run(held.request());
        assert!(!made && begin.elapsed() < GRACE, "it is not tried");
        assert_eq!(refused, Some(format!("no memory is moved now: {why}")));
        let reader = held.release();
        while calls.refuse(&subject).is_some() {
            thread::yield_now();
        }
        let again = Held::new();
        let released = thread::scope(|scope| {
            let request = again.request();
            let made = scope.spawn(|| run(request));
            let reader = again.release();
            (made.join().expect("no panic"), reader)
        });
        assert_eq!(released.0, (true, None, true));
        drop(reader);
    }
}
