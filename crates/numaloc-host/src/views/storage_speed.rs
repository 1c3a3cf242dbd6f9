//! Measures what a file on persistent memory costs on the CPUs of each node. The file is a new one without a name, which nothing else can open
//! and which ends with this process; files that exist are never opened.

use super::speed::{rate, run_on};
use crate::{
    Error, Roots,
    files::file_system::{FileSystemOf, device_numbers, file_system, is_served, open_path},
    nodes::storage::node_of_block,
};
use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, OFlag, fallocate},
    sys::statvfs::fstatvfs,
};
use numaloc_core::{
    CpuSet, NodeId,
    speed::{AccessPattern, BLOCK, FileSpeed, Operation, Walk, median, quantile},
};
use numaloc_sys::{StorageFile, is_dax, store_through, write_back};
use std::{
    fs::File,
    hint::black_box,
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

const BLOCK_WORDS: usize = BLOCK / size_of::<u64>();
/// Largest number of operations of which each one's time is kept.
const MOST: usize = 1 << 20;
/// Bytes of a write(2) that fills the file.
const FILL: usize = 1 << 20;

const NOT_A_DIRECTORY: &str =
    "it is not a directory: name the mount, or a directory in it; a file that exists is never used";
const NO_DAX: &str = "files that are made in it have page cache (no DAX), and the figures would be those of DRAM: mount the file system with \
     dax=always (ext4 or xfs on persistent memory), or set the attribute of the directory (xfs_io -c 'chattr +x')";

/// A new file on a mount with DAX.
#[derive(Debug)]
pub struct OwnStorage {
    file: StorageFile,
    directory: PathBuf,
    /// The type of its file system, for example `ext4`.
    pub file_system: String,
    /// The node that the storage is attached to; `None` if that is not known.
    pub node: Option<NodeId>,
}

impl OwnStorage {
    /// Makes a file of `bytes` bytes in a directory, and writes all of it once, so that no block is allocated while it is measured.
    ///
    /// # Errors
    /// [`Error::NoFile`]; [`Error::StorageRefused`]: it is no directory, its files have no DAX, belong to a server or have no room;
    /// [`Error::MeasureStorage`], [`Error::Read`] and [`Error::Write`].
    pub fn new(roots: &Roots, directory: &Path, bytes: u64) -> Result<Self, Error> {
        let refused =
            |reason: String| Error::StorageRefused { directory: directory.into(), reason };
        let by_path = open_path(directory).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NoFile { path: directory.into() },
            _ => Error::Read { path: directory.into(), source },
        })?;
        let FileSystemOf { kind, .. } = file_system(roots, &by_path);
        // Before anything is asked of it: its server may not answer.
        if is_served(&kind) {
            return Err(refused(format!("it is on {kind}, whose files another program has")));
        }
        let metadata = by_path.metadata().map_err(failed(directory, "stat"))?;
        if !metadata.is_dir() {
            return Err(refused(NOT_A_DIRECTORY.into()));
        }
        let file = unnamed(directory).map_err(|source| {
            match Errno::from_raw(source.raw_os_error().unwrap_or_default()) {
                Errno::EOPNOTSUPP => {
                    refused(format!("{kind} has no files without a name (O_TMPFILE)"))
                }
                _ => Error::Write { path: directory.into(), source },
            }
        })?;
        if !is_dax(&file).map_err(failed(directory, "statx"))? {
            return Err(refused(NO_DAX.into()));
        }
        let room = fstatvfs(&file).map_err(|error| failed(directory, "statvfs")(error.into()))?;
        let free = room.blocks_available().saturating_mul(room.fragment_size());
        let full = |free: u64| {
            let (free, wanted) = (free >> 20, bytes.div_ceil(1 << 20));
            refused(format!("it has {free} MiB free, and --size is {wanted} MiB"))
        };
        if free < bytes {
            return Err(full(free));
        }
        let file = filled(file, bytes).map_err(|source| {
            match Errno::from_raw(source.raw_os_error().unwrap_or_default()) {
                Errno::ENOSPC => full(free),
                Errno::EDQUOT => {
                    refused("the quota has no room for the file: give a smaller --size".into())
                }
                _ => failed(directory, "writing a file of its own")(source),
            }
        })?;
        let node = node_of_block(roots, device_numbers(metadata.dev()));
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let file = StorageFile::map(file, length).map_err(failed(directory, "mmap"))?;
        Ok(Self { file, directory: directory.into(), file_system: kind, node })
    }

    /// Whether writes are persistent without a system call (MAP_SYNC).
    pub fn is_synchronous(&self) -> bool {
        self.file.is_synchronous()
    }

    /// Measures one operation in one order on `cpus` of `cpu_node`: for `each` on one of them, and then for `each` on all.
    ///
    /// # Errors
    /// [`Error::MeasureStorage`].
    pub fn measure(
        &mut self,
        cpu_node: NodeId,
        cpus: &CpuSet,
        (pattern, operation): (AccessPattern, Operation),
        each: Duration,
    ) -> Result<FileSpeed, Error> {
        let failed = failed(&self.directory, "a trial");
        let step = Step { operation, is_synchronous: self.file.is_synchronous() };
        let words = self.file.words_mut();
        let times = times(words, cpus, pattern, step, each).map_err(&failed)?;
        let seed = u64::from(cpu_node.0);
        let walk = |words: usize| Walk::new(pattern, words / BLOCK_WORDS, seed);
        let one = |part: &mut [u64], walk: &mut Walk| step.take(part, walk);
        let bandwidth = rate(words, cpus, each, walk, one).map_err(&failed)?;
        let (latency_ns, latency_p99_ns) = (median(times.clone()), quantile(times, 99));
        Ok(FileSpeed { cpu_node, pattern, operation, bandwidth, latency_ns, latency_p99_ns })
    }
}

fn failed<'a>(directory: &'a Path, what: &'static str) -> impl Fn(io::Error) -> Error + use<'a> {
    move |source| Error::MeasureStorage { directory: directory.into(), what, source }
}

/// A file without a name, which cannot get one (open(2), O_TMPFILE with O_EXCL).
fn unnamed(directory: &Path) -> io::Result<File> {
    let flags = OFlag::O_TMPFILE | OFlag::O_EXCL;
    File::options().read(true).write(true).mode(0o600).custom_flags(flags.bits()).open(directory)
}

/// The file with this length, written. All blocks are allocated first: a fault in a mapping of a full disk would raise SIGBUS.
fn filled(mut file: File, bytes: u64) -> io::Result<File> {
    let length = i64::try_from(bytes).map_err(io::Error::other)?;
    fallocate(&file, FallocateFlags::empty(), 0, length)?;
    let block = vec![7; FILL];
    let mut left = bytes;
    while left > 0 {
        let piece = usize::try_from(left).unwrap_or(FILL).min(FILL);
        file.write_all(&block[..piece])?;
        left -= piece as u64;
    }
    file.sync_all()?;
    Ok(file)
}

/// One operation on a block.
#[derive(Clone, Copy, Debug)]
struct Step {
    operation: Operation,
    is_synchronous: bool,
}

impl Step {
    /// Does it to the next block of a part. Returns the bytes of it.
    fn take(self, part: &mut [u64], walk: &mut Walk) -> io::Result<usize> {
        let start = walk.next().unwrap_or_default() * BLOCK_WORDS;
        let block = &mut part[start..start + BLOCK_WORDS];
        let mut copy = [start as u64; BLOCK_WORDS];
        match self.operation {
            Operation::Read => {
                copy.copy_from_slice(block);
                black_box(&copy);
            }
            Operation::Write => {
                store_through(block, black_box(&copy));
                if !self.is_synchronous {
                    write_back(block)?;
                }
            }
        }
        Ok(BLOCK)
    }
}

/// Nanoseconds of each operation on the first of these CPUs.
fn times(
    words: &mut [u64],
    cpus: &CpuSet,
    pattern: AccessPattern,
    step: Step,
    each: Duration,
) -> io::Result<Vec<f64>> {
    let cpu = cpus.iter().next();
    let one = || {
        cpu.map_or(Ok(()), run_on)?;
        let mut walk = Walk::new(pattern, words.len() / BLOCK_WORDS, 1);
        let (begin, mut all) = (Instant::now(), Vec::new());
        while all.is_empty() || begin.elapsed() < each && all.len() < MOST {
            let before = Instant::now();
            step.take(words, &mut walk)?;
            all.push(before.elapsed().as_nanos() as f64);
        }
        Ok(all)
    };
    thread::scope(|scope| scope.spawn(one).join())
        .map_err(|_| io::Error::other("a thread has panicked"))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::read;
    use std::fs;

    fn storage(bytes: u64) -> OwnStorage {
        let directory = std::env::temp_dir();
        let file = filled(unnamed(&directory).expect("a file"), bytes).expect("it has room");
        let file = StorageFile::map(file, bytes as usize).expect("it is mapped");
        OwnStorage { file, directory, file_system: "ext4".into(), node: None }
    }

    /// Of a file with page cache, where each write is an msync: the kernel of this host has no persistent memory.
    #[test]
    fn each_operation_is_measured_in_each_order() {
        let cpus = read::cpus_allowed(&Roots::default()).expect("of this process");
        let mut storage = storage(1 << 20);
        assert!(!storage.is_synchronous());
        for pattern in AccessPattern::ALL {
            for operation in Operation::ALL {
                let each = Duration::from_millis(5);
                let what = (pattern, operation);
                let speed = storage.measure(NodeId(3), &cpus, what, each).expect("measured");
                assert_eq!((speed.cpu_node, speed.pattern), (NodeId(3), pattern));
                assert_eq!(speed.operation, operation);
                assert!(speed.bandwidth > 0.0 && speed.latency_ns > 0.0, "{speed:?}");
                assert!(speed.latency_p99_ns >= speed.latency_ns, "{speed:?}");
            }
        }
    }

    #[test]
    fn reads_change_nothing_and_writes_are_in_the_block() {
        let mut storage = storage(4 * BLOCK as u64);
        let before = storage.file.words_mut().to_vec();
        let mut walk = Walk::new(AccessPattern::Sequential, 4, 1);
        let mut step = Step { operation: Operation::Read, is_synchronous: true };
        step.take(storage.file.words_mut(), &mut walk).expect("it is read");
        assert_eq!(storage.file.words_mut(), before);
        step.operation = Operation::Write;
        step.take(storage.file.words_mut(), &mut walk).expect("it is written");
        let after = storage.file.words_mut();
        assert!(after[BLOCK_WORDS..2 * BLOCK_WORDS].iter().all(|&word| word == BLOCK_WORDS as u64));
        assert_eq!(after[2 * BLOCK_WORDS..], before[2 * BLOCK_WORDS..]);
    }

    #[test]
    fn what_is_not_on_dax_is_refused_and_nothing_is_left_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("data");
        fs::write(&file, "precious").expect("it has room");
        let refused = |path: &Path| {
            let refused = OwnStorage::new(&Roots::default(), path, 1 << 20);
            refused.expect_err("there is none").to_string()
        };
        let text = refused(directory.path());
        assert!(text.contains("have page cache (no DAX)") && text.contains("dax=always"), "{text}");
        let text = refused(&file);
        assert!(text.contains("it is not a directory"), "{text}");
        let text = refused(&directory.path().join("other"));
        assert!(text.starts_with("no file "), "{text}");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "precious");
        assert_eq!(fs::read_dir(directory.path()).expect("it is there").count(), 1);
    }
}
