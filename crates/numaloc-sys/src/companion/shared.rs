//! State that a process and its companion share, and the work of the companion.
//!
//! The companion uses the memory of this process, and the thread-local storage of the thread that has created it, which sleeps in
//! waitpid(2) meanwhile. It allocates nothing, takes no lock and makes only plain system calls: so it may be killed at any time.

use super::{Answer, Request};
use crate::move_pages::{MoveFlag, UNWRITTEN};
use std::{
    cell::UnsafeCell,
    ffi::CString,
    io, ptr,
    sync::{
        Arc,
        atomic::{
            AtomicI32, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
        },
    },
    time::Duration,
};

/// Bytes of stack for the thread that waits, and for the companion. Neither calls much.
pub const STACK: usize = 64 << 10;

/// CPU time of the companions that this process has had, in nanoseconds.
static CPU_TIME_NS: AtomicU64 = AtomicU64::new(0);

/// CPU time of the companions that this process has had, up to the end of the last call of each. It is not part of this process's own
/// CPU time, and is part of the CPU time of its children only from the end of a companion on.
pub fn companions_cpu_time() -> Duration {
    Duration::from_nanos(CPU_TIME_NS.load(Relaxed))
}

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// There is none. The job belongs to the owner.
    Idle,
    /// It has been asked for. The job belongs to the companion.
    Asked,
    /// It has returned. The job belongs to the owner.
    Done,
    /// The owner wants no more calls.
    Left,
    /// The companion has ended.
    Gone,
}

impl State {
    fn of(value: u32) -> Self {
        let all = [Self::Idle, Self::Asked, Self::Done, Self::Left, Self::Gone];
        all.into_iter().find(|state| *state as u32 == value).unwrap_or(Self::Gone)
    }
}

/// A call with all the memory that the kernel reads and writes for it.
#[derive(Debug)]
pub struct Job {
    call: RawCall,
    nodes: Vec<i32>,
    statuses: Vec<i32>,
    /// The result of the call, or its negative errno.
    result: i64,
    /// Duration in nanoseconds.
    took_ns: u64,
}

#[derive(Debug)]
enum RawCall {
    Move { pid: i32, addresses: Vec<u64>, flags: i32 },
    Write { path: CString, text: Vec<u8> },
}

impl Job {
    pub fn new(request: Request) -> Self {
        let (call, nodes, statuses) = match request {
            Request::Move { pid, addresses, node, flag } => {
                let nodes = vec![node as i32; addresses.len()];
                let statuses = vec![UNWRITTEN; addresses.len()];
                (RawCall::Move { pid, addresses, flags: MoveFlag::bits(flag) }, nodes, statuses)
            }
            Request::Write { path, text } => {
                (RawCall::Write { path, text }, Vec::new(), Vec::new())
            }
        };
        Self { call, nodes, statuses, result: 0, took_ns: 0 }
    }

    pub fn into_answer(self) -> Answer {
        let failed = |_| io::Error::from_raw_os_error(-self.result as i32);
        let (result, took) = (u64::try_from(self.result), Duration::from_nanos(self.took_ns));
        Answer { result: result.map_err(failed), statuses: self.statuses, took }
    }

    /// Makes the call that the request describes, and stores its result.
    fn perform(&mut self) {
        self.result = match &self.call {
            RawCall::Move { pid, addresses, flags } => {
                const { assert!(size_of::<u64>() == size_of::<*const libc::c_void>()) };
                // SAFETY: the kernel reads one pointer and one node for each address and writes one status for each,
                // in Vecs of that length that live during the call. It does not follow the addresses in this
                // process's code. With no address, the nodes still have to be a pointer that is not null (else it is
                // a query), as that of an empty Vec is.
                let result = unsafe {
                    libc::syscall(
                        libc::SYS_move_pages,
                        *pid,
                        addresses.len(),
                        addresses.as_ptr(),
                        self.nodes.as_ptr(),
                        self.statuses.as_mut_ptr(),
                        *flags,
                    )
                };
                returned(result)
            }
            RawCall::Write { path, text } => write(path, text),
        }
    }
}

/// The result of a system call, or its negative errno.
fn returned(result: libc::c_long) -> i64 {
    // SAFETY: the address of errno is valid in each thread, and no other code uses that of this one: see the module.
    if result < 0 { -i64::from(unsafe { *libc::__errno_location() }) } else { result }
}

fn write(path: &CString, text: &[u8]) -> i64 {
    let flags = libc::O_WRONLY | libc::O_CLOEXEC;
    // SAFETY: the kernel reads the path and the text, which live during the calls. The descriptor is used here only.
    unsafe {
        let file = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0);
        if file < 0 {
            return returned(file);
        }
        let written = returned(libc::syscall(libc::SYS_write, file, text.as_ptr(), text.len()));
        libc::syscall(libc::SYS_close, file);
        written
    }
}

/// Shared by owner and companion.
#[derive(Debug)]
pub struct Shared {
    state: AtomicU32,
    pid: AtomicI32,
    job: UnsafeCell<Option<Job>>,
}

// SAFETY: the job is used only by the side that it belongs to in the present state, and each change of the state that hands it over is a
// release by one side and an acquire by the other.
unsafe impl Sync for Shared {}

impl Default for Shared {
    fn default() -> Self {
        Self {
            state: AtomicU32::new(State::Idle as u32),
            pid: AtomicI32::new(0),
            job: UnsafeCell::new(None),
        }
    }
}

impl Shared {
    pub fn state(&self) -> State {
        State::of(self.state.load(Acquire))
    }

    pub fn pid(&self) -> i32 {
        self.pid.load(Relaxed)
    }

    /// Changes the state if it is `from`, and wakes the other side.
    fn change(&self, from: State, to: State) -> bool {
        let changed = self.state.compare_exchange(from as u32, to as u32, AcqRel, Acquire).is_ok();
        if changed {
            self.wake();
        }
        changed
    }

    fn wake(&self) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the state lives during the call. Both sides share their memory, so a private futex is the same one for both.
        unsafe {
            libc::syscall(libc::SYS_futex, self.state.as_ptr(), operation, i32::MAX);
        }
    }

    /// Sleeps until the state is another one, for a time, or for no reason.
    pub fn wait_while(&self, state: State, longest: Option<Duration>) {
        let longest = longest.map(|time| libc::timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let longest = longest.as_ref().map_or(ptr::null(), ptr::from_ref);
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the state and the time live during the call.
        unsafe {
            libc::syscall(libc::SYS_futex, self.state.as_ptr(), operation, state as u32, longest);
        }
    }

    /// Hands a job to the companion.
    pub fn ask(&self, job: Job) {
        match self.state() {
            State::Idle => {
                // SAFETY: the job belongs to the owner, which calls this.
                unsafe { *self.job.get() = Some(job) };
                self.change(State::Idle, State::Asked);
            }
            // It was killed, which the answer says.
            State::Gone => {}
            state => panic!("the call before is not answered: {state:?}"),
        }
    }

    /// Takes a job back that is done.
    pub fn take(&self) -> Job {
        assert!(self.state() == State::Done, "the call has returned");
        // SAFETY: the job belongs to the owner, which calls this.
        let job = unsafe { (*self.job.get()).take() };
        self.change(State::Done, State::Idle);
        job.expect("there is one until it is taken")
    }

    /// Makes the companion leave its loop.
    pub fn leave(&self) {
        loop {
            match self.state() {
                State::Left | State::Gone => return,
                state => drop(self.change(state, State::Left)),
            }
        }
    }

    /// The companion's life: it makes calls until no more are wanted.
    fn serve(&self, is_process: bool) {
        let mut before = 0;
        loop {
            match self.state() {
                State::Asked => {
                    // SAFETY: the job belongs to the companion, which is who calls this.
                    if let Some(job) = unsafe { &mut *self.job.get() } {
                        let begin = clock_ns(libc::CLOCK_MONOTONIC);
                        job.perform();
                        job.took_ns = clock_ns(libc::CLOCK_MONOTONIC).saturating_sub(begin);
                    }
                    if is_process {
                        let used = clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
                        CPU_TIME_NS.fetch_add(used.saturating_sub(before), Relaxed);
                        before = used;
                    }
                    if !self.change(State::Asked, State::Done) {
                        return;
                    }
                }
                State::Left | State::Gone => return,
                state => self.wait_while(state, None),
            }
        }
    }
}

/// The time of a clock (clock_gettime(2)) in nanoseconds.
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time, which lives during the call.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// The arguments of the companion.
struct Start {
    shared: *const Shared,
    /// The process that it accompanies.
    parent: i32,
}

/// Creates the companion and waits for its end, in a thread of its own.
pub fn accompany(shared: &Arc<Shared>) {
    let mut stack = vec![0u8; STACK];
    let parent = std::process::id() as i32;
    let start = Start { shared: Arc::as_ptr(shared), parent };
    // SAFETY: the signal set is plain data that sigfillset fills. Only this thread's mask changes.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
    }
    // SAFETY: the end of the stack, aligned as both architectures want it. `stack`, `start` and what that points to live in this frame
    // until the companion has ended: this thread waits for it without a signal that could interrupt that.
    let child = unsafe {
        let top = stack.as_mut_ptr().add(STACK);
        let top = top.sub(top as usize % 16);
        let argument = (&raw const start).cast_mut().cast();
        libc::clone(begin, top.cast(), libc::CLONE_VM, argument)
    };
    if child > 0 {
        shared.pid.store(child, Relaxed);
        // SAFETY: the status may be null. Without a signal for its end (CLONE_VM alone) a child is waited for with __WALL.
        while unsafe { libc::waitpid(child, ptr::null_mut(), libc::__WALL) } < 0 {
            if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                break;
            }
        }
    } else {
        shared.pid.store(parent, Relaxed);
        leave_files();
        shared.serve(false);
    }
    shared.state.store(State::Gone as u32, std::sync::atomic::Ordering::Release);
    shared.wake();
    drop(stack);
}

/// Gives the caller a table of descriptors of its own, without any (from Linux 5.9 on).
fn leave_files() {
    // SAFETY: takes three integers. The descriptors of this process stay open; those of the caller's own copy are not
    // used.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, libc::CLOSE_RANGE_UNSHARE);
    }
}

/// The companion begins here.
extern "C" fn begin(start: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `accompany` keeps the value and what it points to until this process has ended. The calls take integers and a string that
    // lives forever.
    unsafe {
        let start = &*start.cast::<Start>();
        leave_files();
        libc::syscall(libc::SYS_prctl, libc::PR_SET_NAME, c"numaloc-calls".as_ptr(), 0, 0, 0);
        libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        // The parent may have died before that.
        if libc::syscall(libc::SYS_getppid) == libc::c_long::from(start.parent) {
            (*start.shared).serve(true);
        }
    }
    0
}
