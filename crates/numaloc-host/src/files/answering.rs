//! Whether the kernel lets the memory of processes be read now.
//!
//! Page maps, maps and numa_maps are read, and pages are moved, under the mmap_lock of the process (mm_struct). A thread of the
//! process may hold it for as long as it likes: in a page fault on a file system that does not answer (FUSE, NFS), with another
//! thread that waits to map. All who come later wait as well. So one entry of each page map is read first, in a thread that is
//! given up if it does not return. `pagemap_read` (fs/proc/task_mmu.c) takes the lock killably: such threads end with the process.

use crate::files::pagemap::Pagemap;
use numaloc_core::Identity;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// How long the first page map of a batch that does not return is waited for. Large munmap(2) calls and forks hold the lock for some
/// hundred milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same for the others of the batch, so that many such processes do not take long together.
const LESS: Duration = Duration::from_millis(200);
/// Time between two looks at how far the thread is.
const TURN: Duration = Duration::from_millis(50);
/// Most threads that wait for page maps at a time. With so many, processes count as not answering without a look.
const MOST: usize = 1024;
/// Processes whose page maps a thread has open at a time.
pub(crate) const AT_ONCE: usize = 64;
/// The threads call read(2) and nothing else.
const STACK: usize = 64 << 10;

/// Processes whose memory cannot be read now. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Answering(Arc<Mutex<BTreeMap<Identity, Arc<ReadQueue>>>>);

/// Page maps that one thread reads, in their order.
#[derive(Debug)]
struct ReadQueue {
    /// The page map that it is at.
    at: AtomicUsize,
    is_done: AtomicBool,
    is_given_up: AtomicBool,
}

impl Answering {
    /// Which of these processes do not answer, in order: the numbers that they came with. Returns within seconds.
    pub(crate) fn silent<N>(&self, processes: Vec<(N, Identity, Arc<Pagemap>)>) -> Vec<N> {
        let (numbers, questions): (Vec<N>, Vec<Question>) = processes
            .into_iter()
            .enumerate()
            .map(|(index, (number, identity, pagemap))| -> (N, Question) {
                (number, (index, identity, Arc::new(move || one(&pagemap))))
            })
            .unzip();
        let mut silent = self.without_answer(questions, PATIENCE, LESS).into_iter().peekable();
        let numbered = numbers.into_iter().enumerate();
        numbered.filter_map(|(index, number)| silent.next_if_eq(&index).map(|_| number)).collect()
    }

    fn without_answer(
        &self,
        questions: Vec<Question>,
        mut patience: Duration,
        less: Duration,
    ) -> Vec<usize> {
        let (known, mut rest): (Vec<_>, Vec<_>) =
            questions.into_iter().partition(|(_, identity, _)| self.is_silent(*identity));
        let mut silent: Vec<usize> = known.into_iter().map(|(index, ..)| index).collect();
        while !rest.is_empty() {
            let reads = rest.iter().map(|(.., read)| read.clone()).collect();
            let stuck = if self.threads() < MOST { ask(reads, patience) } else { Some((0, None)) };
            let Some((at, batch)) = stuck else { break };
            let (index, identity, _) = rest[at];
            self.lock().extend(batch.map(|batch| (identity, batch)));
            silent.push(index);
            // The next thread has those behind it.
            rest.drain(..=at);
            patience = less;
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

    fn threads(&self) -> usize {
        self.lock().len()
    }

    /// A poisoned lock is used nevertheless: nothing panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Identity, Arc<ReadQueue>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type EntryRead = Arc<dyn Fn() + Send + Sync>;

/// Its index, the process, and what reads an entry of its page map.
type Question = (usize, Identity, EntryRead);

/// Reads the entry of address 0. What it says does not matter.
fn one(pagemap: &Pagemap) {
    let _ = pagemap.read(0, &mut [0; 8]);
}

/// Reads in a thread. If one takes longer than `patience`, gives back its index, and the thread that is still in it.
fn ask(reads: Vec<EntryRead>, patience: Duration) -> Option<(usize, Option<Arc<ReadQueue>>)> {
    let batch = Arc::new(ReadQueue {
        at: AtomicUsize::new(0),
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
        drop(done);
    };
    let thread = thread::Builder::new().name("page-map".to_owned()).stack_size(STACK);
    // Without a thread nothing is found out, and nobody counts as silent.
    thread.spawn(body).ok()?;
    let (mut at, mut since) = (0, Instant::now());
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TURN.min(patience)) {
        let now = batch.at.load(Relaxed);
        if now != at {
            (at, since) = (now, Instant::now());
        } else if since.elapsed() >= patience {
            batch.is_given_up.store(true, Relaxed);
            return Some((at, Some(batch)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Condvar;

    /// A page map that does not return until it is released.
    #[derive(Clone, Default)]
    struct Held(Arc<(Mutex<bool>, Condvar)>);

    impl Held {
        fn read(&self) -> EntryRead {
            let held = self.0.clone();
            Arc::new(move || {
                let mut released = held.0.lock().expect("no panic");
                while !*released {
                    released = held.1.wait(released).expect("no panic");
                }
            })
        }

        fn release(&self) {
            *self.0.0.lock().expect("no panic") = true;
            self.0.1.notify_all();
        }
    }

    fn process(pid: i32) -> Identity {
        Identity { pid, start_time: 1 }
    }

    #[test]
    fn those_that_hang_are_found_and_the_others_are_asked_all_the_same() {
        let (answering, held, asked) =
            (Answering::default(), Held::default(), Arc::new(AtomicUsize::new(0)));
        let questions = || -> Vec<Question> {
            let count = asked.clone();
            let answers: EntryRead = Arc::new(move || {
                count.fetch_add(1, Relaxed);
            });
            let reads = [held.read(), answers.clone(), held.read(), answers];
            let numbered = reads.into_iter().enumerate();
            numbered.map(|(index, read)| (index, process(index as i32), read)).collect()
        };
        let silent =
            |patience| answering.without_answer(questions(), Duration::from_millis(patience), LESS);
        assert_eq!(silent(300), [0, 2]);
        assert_eq!((asked.load(Relaxed), answering.threads()), (2, 2));
        // Those that are known are not asked again.
        assert_eq!(silent(60_000), [0, 2]);
        assert_eq!((asked.load(Relaxed), answering.threads()), (4, 2));
        held.release();
        while answering.is_silent(process(0)) || answering.is_silent(process(2)) {
            thread::yield_now();
        }
        assert!(silent(60_000).is_empty());
        assert_eq!(answering.threads(), 0);
    }

    #[test]
    fn without_room_for_another_thread_nobody_is_asked() {
        let (answering, held) = (Answering::default(), Held::default());
        let batch = || ReadQueue {
            at: AtomicUsize::new(0),
            is_done: AtomicBool::new(false),
            is_given_up: AtomicBool::new(true),
        };
        let threads = (0..MOST as i32).map(|pid| (process(pid), Arc::new(batch())));
        answering.lock().extend(threads);
        let next = MOST as i32;
        let silent = answering.without_answer(vec![(7, process(next), held.read())], LESS, LESS);
        assert_eq!(silent, [7]);
        assert_eq!(answering.threads(), MOST);
    }
}
