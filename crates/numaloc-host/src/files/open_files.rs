//! Descriptors of page maps: a bounded number of them is open at a time, however many processes there are.
//!
//! A target may have more processes than this process may open files (RLIMIT_NOFILE). So a page map is opened when it
//! is read, and closed when another one needs its place. The clock algorithm chooses which one to close: the first that
//! has not been read again since its last turn.

use crate::files::pagemap::Pagemap;
use nix::{
    libc::{EMFILE, ENFILE},
    sys::resource::{Resource, getrlimit},
};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Page maps take 1/SHARE of the files that this process may open. The rest is for everything else.
const SHARE: u64 = 2;
/// Number of further attempts without a descriptor, and the pause before each. Others, in this process or on the
/// host, may close a file meanwhile.
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// The bound on open page maps, and the open ones. Clones share both.
#[derive(Clone, Debug)]
pub struct OpenFiles(Arc<OpenMaps>);

#[derive(Debug)]
struct OpenMaps {
    most: usize,
    /// Page maps that are open, in the order of their turns, and some that no longer exist.
    open: Mutex<VecDeque<Weak<KeptMap>>>,
}

impl Default for OpenFiles {
    /// Half of the files that this process may open as of now.
    fn default() -> Self {
        let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        Self::at_most(usize::try_from(limit / SHARE).unwrap_or(usize::MAX))
    }
}

impl OpenFiles {
    /// At most `most` page maps are open, and one more for each thread that reads.
    pub fn at_most(most: usize) -> Self {
        Self(Arc::new(OpenMaps { most: most.max(1), open: Mutex::default() }))
    }

    /// Repeats `attempt` as long as it fails for want of a descriptor (EMFILE, ENFILE), each time with fewer page maps
    /// open. `why` finds the kernel's error in that of `attempt`. Returns what the last attempt returned.
    pub(crate) fn patiently<T, E>(
        &self,
        why: impl Fn(&E) -> Option<&io::Error>,
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let is_full = |error: &io::Error| matches!(error.raw_os_error(), Some(EMFILE | ENFILE));
        for _ in 0..TRIES {
            match attempt() {
                Err(error) if why(&error).is_some_and(is_full) => {
                    if !self.close_half() {
                        thread::sleep(PAUSE);
                    }
                }
                done => return done,
            }
        }
        attempt()
    }

    /// Closes half of the open page maps, at least one. Returns whether there was any.
    fn close_half(&self) -> bool {
        let mut open = self.0.open.lock();
        let wanted = open.len().div_ceil(2);
        (0..wanted).filter(|_| close_one(&mut open)).count() > 0
    }

    /// Makes room for a page map that has been opened, and adds it to the list.
    fn admit(&self, kept: &Arc<KeptMap>) {
        let mut open = self.0.open.lock();
        while open.len() >= self.0.most && close_one(&mut open) {}
        open.push_back(Arc::downgrade(kept));
    }
}

/// Closes the first page map that has not been read since its last turn, or takes out one that no longer exists.
/// Returns whether there was either.
fn close_one(open: &mut VecDeque<Weak<KeptMap>>) -> bool {
    for _ in 0..2 * open.len() {
        let Some(first) = open.pop_front() else { break };
        let Some(kept) = first.upgrade() else { return true };
        // A locked one is being opened or read.
        match kept.file.try_lock() {
            Some(mut file) if !kept.used.swap(false, Relaxed) => {
                *file = None;
                return true;
            }
            _ => open.push_back(first),
        }
    }
    false
}

/// A page map that is open or can be opened again.
#[derive(Debug, Default)]
pub(crate) struct KeptMap {
    file: Mutex<Option<Arc<Pagemap>>>,
    used: AtomicBool,
}

impl KeptMap {
    /// The page map, if it is open; that does not count as reading.
    pub(crate) fn if_open(&self) -> Option<Arc<Pagemap>> {
        // One that is just being opened is not open yet.
        self.file.try_lock()?.clone()
    }

    /// The page map; `open` opens it if it is closed.
    pub(crate) fn get(
        self: &Arc<Self>,
        files: &OpenFiles,
        open: impl FnMut() -> io::Result<Pagemap>,
    ) -> io::Result<Arc<Pagemap>> {
        let mut file = self.file.lock();
        // Only what is read again after it was opened gets another turn: most are read once and never again.
        self.used.store(file.is_some(), Relaxed);
        if let Some(file) = &*file {
            return Ok(file.clone());
        }
        let opened = Arc::new(files.patiently(|error| Some(error), open)?);
        files.admit(self);
        Ok(file.insert(opened).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::Cell, fs::File};

    fn open() -> io::Result<Pagemap> {
        File::open("/dev/null").map(Pagemap::new)
    }

    fn is_open(kept: &Arc<KeptMap>) -> bool {
        kept.file.lock().is_some()
    }

    #[test]
    fn no_more_are_open_than_may_be_and_all_can_be_read() {
        let files = OpenFiles::at_most(4);
        let kept: Vec<Arc<KeptMap>> = (0..100).map(|_| Arc::default()).collect();
        for _ in 0..3 {
            for kept in &kept {
                kept.get(&files, open).unwrap();
                assert!(is_open(kept));
            }
            assert_eq!(kept.iter().filter(|kept| is_open(kept)).count(), 4);
        }
    }

    #[test]
    fn what_is_read_again_and_again_stays_open() {
        let files = OpenFiles::at_most(4);
        let (favourite, opened) = (Arc::<KeptMap>::default(), Cell::new(0));
        let others: Vec<Arc<KeptMap>> = (0..100).map(|_| Arc::default()).collect();
        for other in &others {
            other.get(&files, open).unwrap();
            let count = || {
                opened.set(opened.get() + 1);
                open()
            };
            favourite.get(&files, count).unwrap();
        }
        assert_eq!(opened.get(), 1);
    }

    #[test]
    fn closed_ones_take_no_room() {
        let files = OpenFiles::at_most(2);
        let last: Arc<KeptMap> = Arc::default();
        last.get(&files, open).unwrap();
        for _ in 0..100 {
            Arc::<KeptMap>::default().get(&files, open).unwrap();
            last.get(&files, open).unwrap();
        }
        assert!(files.0.open.lock().len() <= 2 && is_open(&last));
    }

    #[test]
    fn want_of_descriptors_closes_page_maps_and_nothing_else_does() {
        let files = OpenFiles::at_most(8);
        let kept: Vec<Arc<KeptMap>> = (0..8).map(|_| Arc::default()).collect();
        kept.iter().for_each(|kept| drop(kept.get(&files, open)));
        let count = || kept.iter().filter(|kept| is_open(kept)).count();
        let attempt = |errno: i32, until: usize| {
            files.patiently(
                |error| Some(error),
                || if count() > until { Err(io::Error::from_raw_os_error(errno)) } else { Ok(()) },
            )
        };
        assert_eq!(
            attempt(nix::libc::EACCES, 3).unwrap_err().raw_os_error(),
            Some(nix::libc::EACCES)
        );
        assert_eq!(count(), 8);
        attempt(EMFILE, 3).unwrap();
        assert_eq!(count(), 2);
        attempt(ENFILE, 0).unwrap();
        assert_eq!(count(), 0);
    }

    #[test]
    fn the_bound_leaves_half_of_the_limit() {
        let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(OpenFiles::default().0.most as u64, (limit / 2).max(1));
    }
}
