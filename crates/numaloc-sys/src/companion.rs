//! A process beside this one that makes calls which may never return.
//!
//! A task that sleeps uninterruptibly in the kernel cannot be killed, and its process cannot end before it does: its parent waits, and its
//! files stay open and locked. So such calls are made by a companion: a process of its own (clone(2) with CLONE_VM and without
//! CLONE_THREAD) that shares the memory of this one and has no files. If a call does not return, the companion is left behind. This
//! process continues, or ends, and its files are closed.
//!
//! The companion is created by a thread, which waits for its end and does nothing else. It has the scheduling, the CPUs and the rights
//! of the thread that calls [`Companion::start`]. It blocks all signals, and is killed when this process ends (PR_SET_PDEATHSIG).

mod shared;

use crate::move_pages::MoveFlag;
use shared::{Job, Shared, State};
use std::{
    ffi::CString,
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

pub use shared::companions_cpu_time;

/// A call that may not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A call of [`move_pages`](crate::move_pages()).
    Move {
        /// Thread id of the process whose pages are moved; 0: this process.
        pid: i32,
        /// Virtual addresses in that process.
        addresses: Vec<u64>,
        /// The node that they are moved to.
        node: u32,
        /// The pages that may be moved.
        flag: MoveFlag,
    },
    /// Opens a file that exists for writing, and writes to it in one call.
    Write {
        /// Absolute path of the file.
        path: CString,
        /// Bytes to write in one call.
        text: Vec<u8>,
    },
}

/// The result of a call.
#[derive(Debug)]
pub struct Answer {
    /// The kernel's result (pages that were not moved, bytes written), or the call's error.
    pub result: io::Result<u64>,
    /// For [`Request::Move`]: the status of each address, as by [`move_pages`](crate::move_pages()). Empty for others.
    pub statuses: Vec<i32>,
    /// Duration of the call, without the time until the companion ran.
    pub took: Duration,
}

/// Tasks that a companion costs: its process, and the thread that waits for it.
pub const COMPANION_TASKS: usize = 2;

/// A process that makes calls for this one. When it is dropped, the process ends, or after its call if it is in one.
#[derive(Debug)]
pub struct Companion(Arc<Shared>);

/// A call that was left behind.
#[derive(Clone, Debug)]
pub struct LeftCall(Arc<Shared>);

impl Companion {
    /// Creates the process. Where that is not permitted, a thread of this process makes the calls, without files of its own: calls
    /// are left behind all the same, but this process ends only after the last of them.
    ///
    /// # Errors
    /// A thread cannot be created.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("companion".to_owned()).stack_size(shared::STACK);
        thread.spawn(move || shared::accompany(&theirs))?;
        Ok(Self(shared))
    }

    /// Begins a call. The one before has to be answered.
    ///
    /// # Panics
    /// If the one before is not answered.
    pub fn ask(&mut self, request: Request) {
        self.0.ask(Job::new(request));
    }

    /// The answer to the call, once it has returned within `patience`. It is an error (EOWNERDEAD) if the companion was killed.
    pub fn answer(&mut self, patience: Duration) -> Option<Answer> {
        let begin = Instant::now();
        loop {
            match self.0.state() {
                State::Idle | State::Left => return None,
                State::Done => return Some(self.0.take().into_answer()),
                State::Gone => {
                    let result = Err(io::Error::from_raw_os_error(libc::EOWNERDEAD));
                    return Some(Answer { result, statuses: Vec::new(), took: begin.elapsed() });
                }
                State::Asked => {
                    let left = patience.saturating_sub(begin.elapsed());
                    if left.is_zero() {
                        return None;
                    }
                    self.0.wait_while(State::Asked, Some(left));
                }
            }
        }
    }

    /// The pid of the companion, or of this process if a thread of it makes the calls; 0 before either has begun.
    pub fn pid(&self) -> i32 {
        self.0.pid()
    }

    /// Leaves the call behind. The companion ends when it has returned.
    pub fn leave(self) -> LeftCall {
        LeftCall(self.0.clone())
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl LeftCall {
    /// Whether the call has returned, and its companion has ended.
    pub fn has_returned(&self) -> bool {
        self.0.state() == State::Gone
    }

    /// The pid of the companion.
    pub fn pid(&self) -> i32 {
        self.0.pid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_bytes;
    use std::{
        fs::{self, File},
        path::PathBuf,
    };

    const LONG: Duration = Duration::from_secs(60);

    fn to_node(address: u64, node: u32) -> Request {
        Request::Move { pid: 0, addresses: vec![address], node, flag: MoveFlag::Own }
    }

    #[test]
    fn calls_are_made_for_this_process_one_after_the_other() {
        let page = vec![1u8; 2 * page_bytes()];
        let address = (page.as_ptr() as u64).next_multiple_of(page_bytes() as u64);
        let mut companion = Companion::start().expect("a thread");
        for _ in 0..3 {
            companion.ask(to_node(address, 0));
            let answer = companion.answer(LONG).expect("it returns");
            assert_eq!(answer.statuses, [0], "{answer:?}");
        }
        companion.ask(to_node(address, 4000));
        let error = companion.answer(LONG).expect("it returns").result.expect_err("no such node");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        assert_ne!(companion.pid(), std::process::id() as i32, "a process of its own");
    }

    /// A pipe with a name. A process that opens it for writing waits until another one opens it for reading.
    struct Pipe(PathBuf);

    impl Pipe {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("numaloc-{name}-{}", std::process::id()));
            let pipe = Self(path);
            // SAFETY: the kernel reads the string, which lives during the call.
            assert_eq!(unsafe { libc::mkfifo(pipe.path().as_ptr(), 0o600) }, 0);
            pipe
        }

        fn path(&self) -> CString {
            CString::new(self.0.to_str().expect("UTF-8")).expect("no zeros")
        }
    }

    impl Drop for Pipe {
        fn drop(&mut self) {
            fs::remove_file(&self.0).ok();
        }
    }

    /// Waits until the companion is in its call, for which it has left its files first.
    fn begins(companion: &mut Companion) {
        let is_named = |pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim_end() == "numaloc-calls")
        };
        // Its pid is 0 until it exists.
        while companion.pid() == 0 || !is_named(companion.pid()) {
            thread::yield_now();
        }
        assert!(companion.answer(Duration::from_millis(50)).is_none());
    }

    #[test]
    fn a_call_that_does_not_return_is_left_behind_without_files() {
        let pipe = Pipe::new("left");
        let mut companion = Companion::start().expect("a thread");
        companion.ask(Request::Write { path: pipe.path(), text: b"text".to_vec() });
        begins(&mut companion);
        let files = fs::read_dir(format!("/proc/{}/fd", companion.pid())).expect("it lives");
        assert_eq!(files.count(), 0, "its files would stay open and locked");
        let left = companion.leave();
        assert!(!left.has_returned());
        let reader = File::open(&pipe.0).expect("a pipe");
        while !left.has_returned() {
            thread::yield_now();
        }
        drop(reader);
        assert!(
            !PathBuf::from(format!("/proc/{}", left.pid())).exists(),
            "no process waits for it"
        );
    }

    #[test]
    fn a_companion_that_is_killed_answers_with_an_error() {
        let pipe = Pipe::new("killed");
        let mut companion = Companion::start().expect("a thread");
        companion.ask(Request::Write { path: pipe.path(), text: Vec::new() });
        begins(&mut companion);
        // SAFETY: takes two integers.
        assert_eq!(unsafe { libc::kill(companion.pid(), libc::SIGKILL) }, 0);
        let error =
            companion.answer(LONG).expect("it has ended").result.expect_err("it was killed");
        assert_eq!(error.raw_os_error(), Some(libc::EOWNERDEAD));
    }

    #[test]
    fn a_file_is_written_to_in_one_call() {
        let path = std::env::temp_dir().join(format!("numaloc-written-{}", std::process::id()));
        fs::write(&path, "").expect("a file");
        let name = CString::new(path.to_str().expect("UTF-8")).expect("no zeros");
        let mut companion = Companion::start().expect("a thread");
        companion.ask(Request::Write { path: name, text: b"1\n".to_vec() });
        assert_eq!(companion.answer(LONG).expect("it returns").result.expect("written"), 2);
        assert_eq!(fs::read_to_string(&path).expect("a file"), "1\n");
        fs::remove_file(&path).expect("a file");
    }
}
