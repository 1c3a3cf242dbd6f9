//! Calls that have not returned, and whether further ones may be made.
//!
//! A call that moves pages may sleep uninterruptibly for as long as a server, a device or a real-time thread wants it to. It is made by
//! a [`Companion`], which is left behind when the call is overdue. Until it has returned, no call is made that could wait for the same.
//! Whether it concerns all calls shows a probe: a call that moves no page, and only has the lists of all CPUs emptied as each call has
//! (mm/migrate.c, `do_pages_move`; mm/swap.c, `lru_cache_disable`).

use crate::limits::real_time::RealTimeLooks;
use numaloc_core::{Identity, NodeId};
use numaloc_sys::{Companion, LeftCall, MoveFlag, Request};
use parking_lot::Mutex;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// Time to wait for a probe. While a real-time thread uses a CPU and the kernel keeps 5 % for others, calls take up to
/// a second.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);
/// Time for which the result of a probe holds.
const PROBE_HOLDS: Duration = Duration::from_secs(2);
/// Once this number of calls is left behind, no further call is made: each keeps a process and the memory of this one.
pub const MOST: usize = 16;

/// The thing that a call works on. While one for it is left behind, no other for the same is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The memory of a process.
    Process(Identity),
    /// The page cache of a file.
    File(PathBuf),
    /// A node as a whole: its reclaim, its page cache, its free blocks.
    Node(NodeId),
}

/// State of calls that have not returned, for all runs of a process.
#[derive(Debug, Default)]
pub struct SharedCalls {
    left: Mutex<Vec<Left>>,
    probe: Mutex<Probe>,
    /// Real-time threads, for which calls may have to wait.
    pub real_time: RealTimeLooks,
}

#[derive(Debug)]
struct Left {
    call: LeftCall,
    subject: Subject,
    why: String,
}

#[derive(Debug, Default)]
struct Probe {
    /// Makes the probes. It may be in one that has not returned.
    companion: Option<Companion>,
    is_asked: bool,
    /// When one last returned in time.
    passed: Option<Instant>,
}

impl SharedCalls {
    /// Notes a call that is left behind, and why it counts as overdue.
    pub fn leave(&self, companion: Companion, subject: Subject, why: String) {
        self.left.lock().push(Left { call: companion.leave(), subject, why });
    }

    /// Why no call for `subject` may be made now; `None`: it may. Takes up to two seconds if a call is left behind.
    pub fn refuse(&self, subject: &Subject) -> Option<String> {
        self.refuse_unless_probed(subject, PROBE_PATIENCE)
    }

    /// As [`Self::refuse`], with this time for the probe to return.
    fn refuse_unless_probed(&self, subject: &Subject, patience: Duration) -> Option<String> {
        let refusal = {
            let mut left = self.left.lock();
            left.retain(|left| !left.call.has_returned());
            let first = left.first()?;
            let same = left.iter().find(|left| left.subject == *subject);
            match (same, left.len() >= MOST) {
                (Some(same), _) => return Some(same.why.clone()),
                (None, true) => return Some(first.why.clone()),
                (None, false) => first.why.clone(),
            }
        };
        (!self.probe.lock().passes(patience)).then_some(refusal)
    }
}

impl Probe {
    /// Whether calls return at all.
    fn passes(&mut self, patience: Duration) -> bool {
        if self.passed.is_some_and(|at| at.elapsed() < PROBE_HOLDS) {
            return true;
        }
        // Without a companion nothing is found out.
        let companion = match &mut self.companion {
            Some(companion) => companion,
            none => match Companion::start() {
                Ok(companion) => none.insert(companion),
                Err(_) => return false,
            },
        };
        if !self.is_asked {
            let (addresses, flag) = (Vec::new(), MoveFlag::Own);
            companion.ask(Request::Move { pid: 0, addresses, node: 0, flag });
            self.is_asked = true;
        }
        let Some(answer) = companion.answer(patience) else { return false };
        self.is_asked = false;
        if answer.result.is_err() {
            self.companion = None;
        }
        self.passed = Some(Instant::now());
        true
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use nix::{sys::stat::Mode, unistd::mkfifo};
    use std::{ffi::CString, fs::File, os::unix::fs::OpenOptionsExt, thread};

    /// Time for what has to come: on a busy machine a companion may not run for seconds.
    const LONG: Duration = Duration::from_secs(300);
    /// Time for what cannot come.
    const SHORT: Duration = Duration::from_millis(20);

    /// A call that returns when the value is asked to release it.
    pub struct Held {
        directory: tempfile::TempDir,
    }

    impl Held {
        pub fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            mkfifo(&directory.path().join("pipe"), Mode::S_IRWXU).expect("a pipe");
            Self { directory }
        }

        fn path(&self) -> PathBuf {
            self.directory.path().join("pipe")
        }

        /// Opens the pipe for writing, which waits for a reader.
        pub fn request(&self) -> Request {
            let path = CString::new(self.path().to_str().expect("UTF-8")).expect("no zeros");
            Request::Write { path, text: b"x".to_vec() }
        }

        /// Does not wait for the call, which may be left behind before it has begun.
        pub fn release(&self) -> File {
            let mut options = File::options();
            let options = options.read(true).custom_flags(nix::libc::O_NONBLOCK);
            options.open(self.path()).expect("a pipe")
        }
    }

    #[test]
    fn what_a_call_works_on_is_left_alone_until_it_has_returned() {
        let (calls, held) = (SharedCalls::default(), Held::new());
        let process = |pid| Subject::Process(Identity { pid, start_time: 1 });
        assert_eq!(calls.refuse(&process(1)), None);
        let mut companion = Companion::start().expect("a thread");
        companion.ask(held.request());
        assert!(companion.answer(SHORT).is_none());
        calls.leave(companion, process(1), "it hangs".into());
        assert_eq!(calls.refuse(&process(1)).as_deref(), Some("it hangs"));
        let other = calls.refuse_unless_probed(&process(2), LONG);
        assert_eq!(other, None, "the probe returns");
        assert_eq!(calls.refuse_unless_probed(&Subject::Node(NodeId(0)), LONG), None);
        let reader = held.release();
        while calls.refuse(&process(1)).is_some() {
            thread::yield_now();
        }
        drop(reader);
    }

    #[test]
    fn while_the_probe_does_not_return_no_call_is_made() {
        let (calls, held, probed) = (SharedCalls::default(), Held::new(), Held::new());
        let mut companion = Companion::start().expect("a thread");
        companion.ask(held.request());
        calls.leave(companion, Subject::Node(NodeId(1)), "it hangs".into());
        let mut probe = Companion::start().expect("a thread");
        probe.ask(probed.request());
        *calls.probe.lock() = Probe { companion: Some(probe), is_asked: true, passed: None };
        let refused = |patience| calls.refuse_unless_probed(&Subject::Node(NodeId(0)), patience);
        assert_eq!(refused(SHORT).as_deref(), Some("it hangs"));
        let reader = probed.release();
        assert_eq!(refused(LONG), None, "calls return again, but for that one");
        drop((reader, held.release()));
    }
}
