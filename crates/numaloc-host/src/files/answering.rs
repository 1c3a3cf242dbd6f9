//! Whether the kernel lets the memory of processes be read now.
//!
//! Page maps, maps and numa_maps are read, and pages are moved, under the mmap_lock of the process (mm_struct). A thread of the
//! process may hold it for as long as it likes: in a page fault on a file system that does not answer (FUSE, NFS), with another
//! thread that waits to map. All who come later wait as well. So one entry of each page map is read first, in a thread that is
//! given up if it does not return. `pagemap_read` (fs/proc/task_mmu.c) takes the lock killably: such threads end with the process.
//!
//! So each such process costs a thread, and any user can start some. There are few of these threads (`places`), few
//! of them for one user, and some for processes of the host alone. Where there is no room for one more, a process
//! counts as not answering without a look: it is never read in the thread that works.

mod places;

pub use places::MOST as PAGE_MAP_THREADS;
pub(crate) use places::ProcessOwner;

use crate::files::pagemap::Pagemap;
use numaloc_core::Identity;
use parking_lot::{Mutex, MutexGuard};
use places::{Place, Places};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// Time to wait for the first page map of a batch that does not return. Large munmap(2) calls and forks hold the lock
/// for some hundred milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time to wait for the others of the batch, so that many such processes do not take long together.
const LESS: Duration = Duration::from_millis(200);
/// Time between two looks at how far the thread is.
const TURN: Duration = Duration::from_millis(50);
/// Processes whose page maps a thread has open at a time.
pub(crate) const AT_ONCE: usize = 64;
/// The threads call read(2) and nothing else.
const STACK: usize = 64 << 10;
/// A [`ReadQueue`] whose thread does not run yet.
const NOT_BEGUN: usize = usize::MAX;

/// Processes whose memory cannot be read now. All of this program share them, and the bound on threads: the kernel's own bound is one for all
/// of it, and a process that hangs costs one thread and not one for each that asks.
#[derive(Clone, Debug)]
pub struct Answering {
    silent: Arc<Mutex<BTreeMap<Identity, Arc<ReadQueue>>>>,
    places: Arc<Places>,
    /// Bytes of stack of each thread.
    stack: usize,
}

impl Default for Answering {
    fn default() -> Self {
        static ALL: LazyLock<Answering> = LazyLock::new(Answering::new);
        ALL.clone()
    }
}

/// Page maps that one thread reads, in their order.
#[derive(Debug)]
struct ReadQueue {
    /// The page map that it is at, or [`NOT_BEGUN`].
    at: AtomicUsize,
    is_done: AtomicBool,
    is_given_up: AtomicBool,
}

impl Answering {
    fn new() -> Self {
        Self { silent: Arc::default(), places: Arc::default(), stack: STACK }
    }

    /// The processes that do not answer, in order: the numbers that they came with. Returns within seconds. `owner`
    /// gives the owner of a process.
    pub(crate) fn silent<N>(
        &self,
        owner: &dyn Fn(Identity) -> ProcessOwner,
        processes: Vec<(N, Identity, Arc<Pagemap>)>,
    ) -> Vec<N> {
        let (numbers, questions): (Vec<N>, Vec<Question>) = processes
            .into_iter()
            .enumerate()
            .map(|(index, (number, identity, pagemap))| -> (N, Question) {
                (number, (index, identity, Arc::new(move || one(&pagemap))))
            })
            .unzip();
        let silent = self.without_answer(questions, owner, PATIENCE, LESS);
        let mut silent = silent.into_iter().peekable();
        let numbered = numbers.into_iter().enumerate();
        numbered.filter_map(|(index, number)| silent.next_if_eq(&index).map(|_| number)).collect()
    }

    fn without_answer(
        &self,
        questions: Vec<Question>,
        owner: &dyn Fn(Identity) -> ProcessOwner,
        mut patience: Duration,
        less: Duration,
    ) -> Vec<usize> {
        let (known, mut rest): (Vec<_>, Vec<_>) =
            questions.into_iter().partition(|(_, identity, _)| self.is_silent(*identity));
        let mut silent: Vec<usize> = known.into_iter().map(|(index, ..)| index).collect();
        loop {
            let full = self.places.full();
            if full.is_any() {
                let is_full = |(_, identity, _): &mut Question| full.has(owner(*identity));
                silent.extend(rest.extract_if(.., is_full).map(|(index, ..)| index));
            }
            if rest.is_empty() {
                break;
            }
            let reads = rest.iter().map(|(.., read)| read.clone()).collect();
            // Where there is no thread for users any more, the processes that are left are the host's.
            let place = self.places.take(full.users);
            let asked = place.map(|place| ask(reads, patience, place, self.stack));
            match asked.unwrap_or(AskOutcome::NoThread) {
                AskOutcome::All => break,
                AskOutcome::NoThread => {
                    silent.extend(rest.drain(..).map(|(index, ..)| index));
                }
                AskOutcome::Stuck { at, thread, queue } => {
                    let (index, identity, _) = rest[at];
                    self.places.charge(thread, owner(identity));
                    self.lock().insert(identity, queue);
                    silent.push(index);
                    // The next thread has those behind it.
                    rest.drain(..=at);
                    patience = less;
                }
            }
        }
        silent.sort_unstable();
        silent
    }

    /// Whether a thread still waits for this process.
    fn is_silent(&self, identity: Identity) -> bool {
        let mut silent = self.lock();
        silent.retain(|_, batch| !batch.is_done.load(Relaxed));
        silent.contains_key(&identity)
    }
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Identity, Arc<ReadQueue>>> {
        self.silent.lock()
    }
}

type EntryRead = Arc<dyn Fn() + Send + Sync>;

/// Its index, the process, and what reads an entry of its page map.
type Question = (usize, Identity, EntryRead);

/// Reads the entry of address 0. Its value does not matter.
fn one(pagemap: &Pagemap) {
    let _ = pagemap.read(0, &mut [0; 8]);
}

/// The result of asking a batch.
enum AskOutcome {
    /// Every process has answered.
    All,
    /// No thread is free for it.
    NoThread,
    /// The one at this index does not answer; the number of the thread that is still in it.
    Stuck { at: usize, thread: u64, queue: Arc<ReadQueue> },
}

/// Reads in a thread, which has this place until it ends. A read that takes longer than `patience` is left. The time until the thread runs
/// does not count: on a busy host the process is not the reason for it.
fn ask(reads: Vec<EntryRead>, patience: Duration, place: Place, stack: usize) -> AskOutcome {
    let number = place.number;
    let batch = Arc::new(ReadQueue {
        at: AtomicUsize::new(NOT_BEGUN),
        is_done: AtomicBool::new(false),
        is_given_up: AtomicBool::new(false),
    });
    let (done, ended) = mpsc::channel::<()>();
    let theirs = batch.clone();
    let body = move || {
        for (at, read) in reads.iter().enumerate() {
            theirs.at.store(at, Relaxed);
            read();
            if theirs.is_given_up.load(Relaxed) {
                break;
            }
        }
        theirs.is_done.store(true, Relaxed);
        drop(place);
        drop(done);
    };
    let thread = thread::Builder::new().name("page-map".to_owned()).stack_size(stack);
    if thread.spawn(body).is_err() {
        return AskOutcome::NoThread;
    }
    let (mut at, mut since) = (NOT_BEGUN, Instant::now());
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TURN.min(patience)) {
        let now = batch.at.load(Relaxed);
        if now != at || now == NOT_BEGUN {
            (at, since) = (now, Instant::now());
        } else if since.elapsed() >= patience {
            batch.is_given_up.store(true, Relaxed);
            return AskOutcome::Stuck { at, thread: number, queue: batch };
        }
    }
    AskOutcome::All
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Condvar;

    /// Time for what has to come.
    const LONG: Duration = Duration::from_secs(60);

    /// A page map that does not return until it is released.
    #[derive(Clone, Default)]
    struct Held(Arc<(Mutex<bool>, Condvar)>);

    impl Held {
        fn read(&self) -> EntryRead {
            let held = self.0.clone();
            Arc::new(move || {
                let mut released = held.0.lock();
                while !*released {
                    held.1.wait(&mut released);
                }
            })
        }

        fn release(&self) {
            *self.0.0.lock() = true;
            self.0.1.notify_all();
        }
    }

    fn process(pid: i32) -> Identity {
        Identity { pid, start_time: 1 }
    }

    fn counted(count: &Arc<AtomicUsize>) -> EntryRead {
        let count = count.clone();
        Arc::new(move || {
            count.fetch_add(1, Relaxed);
        })
    }

    #[test]
    fn hanging_ones_are_found_and_the_others_are_asked_all_the_same() {
        let (answering, held, asked) =
            (Answering::new(), Held::default(), Arc::new(AtomicUsize::new(0)));
        let questions = || -> Vec<Question> {
            let reads = [held.read(), counted(&asked), held.read(), counted(&asked)];
            let numbered = reads.into_iter().enumerate();
            numbered.map(|(index, read)| (index, process(index as i32), read)).collect()
        };
        let silent = |patience| {
            answering.without_answer(questions(), &|_| ProcessOwner::Host, patience, patience)
        };
        let waiting = || answering.places.taken();
        assert_eq!(silent(Duration::from_millis(500)), [0, 2]);
        assert_eq!((asked.load(Relaxed), waiting()), (2, 2));
        // Known ones are not asked again.
        assert_eq!(silent(LONG), [0, 2]);
        assert_eq!((asked.load(Relaxed), waiting()), (4, 2));
        held.release();
        while waiting() > 0 {
            thread::yield_now();
        }
        assert!(silent(LONG).is_empty());
        assert_eq!(waiting(), 0);
    }

    /// Asks about processes that hang, one for each thread, of users with these ids in turns, and then about one of
    /// each of these owners that answer. Returns which of these are asked.
    fn beside_hanging(users: std::ops::Range<u32>, others: &[ProcessOwner]) -> Vec<bool> {
        let (answering, held) = (Answering::new(), Held::default());
        let many = PAGE_MAP_THREADS as i32;
        let asked: Vec<_> = others.iter().map(|_| Arc::new(AtomicUsize::new(0))).collect();
        let reads = (0..many).map(|_| held.read()).chain(asked.iter().map(counted));
        let questions: Vec<Question> =
            reads.enumerate().map(|(index, read)| (index, process(index as i32), read)).collect();
        let user = |pid: i32| users.start + pid as u32 % users.len() as u32;
        let owner = |Identity { pid, .. }| match usize::try_from(pid - many) {
            Ok(other) => others[other],
            Err(_) => ProcessOwner::User(user(pid)),
        };
        let short = Duration::from_millis(30);
        let silent = answering.without_answer(questions, &owner, short, short);
        let is_asked: Vec<bool> = asked.iter().map(|asked| asked.load(Relaxed) == 1).collect();
        let is_silent = |at: usize| silent.contains(&(many as usize + at));
        assert!((0..others.len()).all(|at| is_asked[at] != is_silent(at)), "{silent:?}");
        assert!((0..many as usize).all(|at| silent.contains(&at)), "{silent:?}");
        held.release();
        is_asked
    }

    #[test]
    fn processes_of_one_user_do_not_take_the_threads_of_others() {
        let others = [ProcessOwner::User(7), ProcessOwner::User(8), ProcessOwner::Host];
        assert_eq!(beside_hanging(7..8, &others), [false, true, true]);
    }

    #[test]
    fn processes_of_eight_users_leave_threads_for_a_ninth_and_those_of_many_for_the_host() {
        let others = [ProcessOwner::User(7), ProcessOwner::Host];
        assert_eq!(beside_hanging(10..18, &others), [true; 2]);
        assert_eq!(beside_hanging(10..60, &others), [false, true]);
    }

    #[test]
    fn without_room_for_another_thread_no_process_is_asked() {
        let (answering, asked) = (Answering::new(), Arc::new(AtomicUsize::new(0)));
        let silent = |answering: &Answering| {
            let questions = vec![(7, process(1), counted(&asked))];
            answering.without_answer(questions, &|_| ProcessOwner::Host, LONG, LONG)
        };
        let take = |is_host_alone| answering.places.take(is_host_alone);
        let users: Vec<Place> = std::iter::from_fn(|| take(false)).collect();
        let host: Vec<Place> = std::iter::from_fn(|| take(true)).collect();
        assert_eq!((silent(&answering), users.len() + host.len()), (vec![7], PAGE_MAP_THREADS));
        drop(host);
        assert_eq!((silent(&answering), asked.load(Relaxed)), (vec![], 1));
    }

    #[test]
    fn where_no_thread_can_be_made_no_process_is_read_in_the_one_that_works() {
        // No address space has room for this stack.
        let (answering, asked) =
            (Answering { stack: 1 << 60, ..Answering::new() }, Arc::new(AtomicUsize::new(0)));
        let questions = [3, 4].map(|index| (index, process(1), counted(&asked)));
        let silent =
            answering.without_answer(questions.into(), &|_| ProcessOwner::Host, LONG, LONG);
        assert_eq!(silent, [3, 4]);
        assert_eq!((asked.load(Relaxed), answering.places.taken()), (0, 0));
    }

    #[test]
    fn all_roots_of_this_program_have_one_bound_and_know_the_same() {
        let [one, other] = [(); 2].map(|()| crate::Roots::default().answering);
        assert!(Arc::ptr_eq(&one.places, &other.places) && Arc::ptr_eq(&one.silent, &other.silent));
    }
}
