//! numa_maps, read while the pages are looked at. Both take about as long, and a run that has several workers waits for nothing else
//! meanwhile.

use crate::{
    Error,
    files::{
        maps::Vma,
        numa_maps::{self, FILE, Placement},
    },
    survey::{space::AddressSpace, walks::Walks},
};
use std::{
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{Scope, ScopedJoinHandle},
};

/// Least memory, in bytes of mappings, that is worth a thread. It is read in a few milliseconds.
const LEAST: u64 = 64 << 20;

/// The policies that the thread has read; `None`: the process has ended.
type PlacementsRead = Result<Option<Vec<Placement>>, Error>;

/// A thread that reads the numa_maps of one process. It ends once this is dropped.
#[derive(Debug)]
pub struct EarlyRead<'scope> {
    thread: Option<ScopedJoinHandle<'scope, PlacementsRead>>,
    /// It reads up to the mapping that begins here. All of them until that is known.
    last: Arc<AtomicU64>,
}

impl<'scope> EarlyRead<'scope> {
    /// Begins to read if there is one process, which has much to read, and several threads. `vmas` are the mappings of each process:
    /// these were read before, so numa_maps has them.
    pub fn begin<'env>(
        scope: &'scope Scope<'scope, 'env>,
        spaces: &'env [AddressSpace],
        vmas: &[Vec<Vma>],
        threads: usize,
        stop: &'env (dyn Fn() -> bool + Sync),
    ) -> Option<Self> {
        let ([space], [vmas], 2..) = (spaces, vmas, threads) else { return None };
        if vmas.iter().map(|vma| vma.end - vma.start).sum::<u64>() < LEAST {
            return None;
        }
        let last = Arc::new(AtomicU64::new(u64::MAX));
        let until = last.clone();
        let until = move || until.load(Relaxed);
        // What is resident is not known yet.
        let walks: Walks = vmas.iter().map(|vma| (vma.start, vma.end - vma.start)).collect();
        let at_once = move |after| walks.at_once(after);
        let read = move || space.read(FILE, |path| numa_maps::up_to(path, &until, &at_once, stop));
        Some(Self { thread: Some(scope.spawn(read)), last })
    }

    /// Waits until the lines up to that of the mapping at `last` were read.
    ///
    /// # Errors
    /// [`Error::NoRights`]; [`Error::Stopped`]; errors of reading.
    pub fn up_to(mut self, last: u64) -> PlacementsRead {
        self.last.store(last, Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(None) };
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Drop for EarlyRead<'_> {
    fn drop(&mut self) {
        self.last.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fake::Fake, files::maps::parse_line};
    use numaloc_core::{Identity, Mempolicy, NodeSet, Process};
    use std::thread;

    #[test]
    fn it_reads_what_would_be_read_later_if_that_is_much_for_several_threads() {
        let fake = Fake::new();
        fake.process(100, "app", &["0"]);
        let lines = "1000 default N0=1\n5000 bind:1 N1=4\n9000 default N0=1\nb000 default N0=1\n";
        fake.write("proc/100/numa_maps", lines);
        let identity = Identity { pid: 100, start_time: 1100 };
        let (comm, mems_allowed) = ("app".into(), NodeSet::default());
        let (cpus, threads) = (Default::default(), Vec::new());
        let device_nodes = NodeSet::new();
        let process = Process {
            identity,
            comm,
            cpus,
            threads,
            mems_allowed,
            device_nodes,
            swap_bytes: 0,
            page_table_bytes: 0,
            guest: None,
        };
        let spaces = [AddressSpace::open(&Arc::new(fake.roots()), process).unwrap().unwrap()];
        let read = |end: u64, threads| {
            let mapping = parse_line(&format!("1000-{end:x} rw-p 00000000 00:00 0 "));
            let vmas = [mapping.into_iter().collect()];
            thread::scope(|scope| {
                let stop = &|| false;
                let early = EarlyRead::begin(scope, &spaces, &vmas, threads, stop)?;
                early.up_to(0x5000).expect("a file can be read")
            })
        };
        let known = read(0x1000 + LEAST, 2).expect("it is worth it");
        assert_eq!(known[1].policy, Mempolicy::Bind("1".parse().unwrap()));
        assert_eq!(read(LEAST, 2), None);
        assert_eq!(read(0x1000 + LEAST, 1), None);
    }
}
