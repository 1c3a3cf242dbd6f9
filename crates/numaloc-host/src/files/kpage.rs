//! /proc/kpagecount and /proc/kpageflags: what the kernel knows of a page frame, by frame number
//! (Documentation/admin-guide/mm/pagemap.rst).

use crate::Roots;
use std::{cell::OnceCell, fs::File, os::unix::fs::FileExt, path::PathBuf};

const WINDOW: usize = 512;
/// A gap of this many frames is cheaper to read over than to skip with a new read.
const NEAR: u64 = 8;

/// A file that is opened when it is first needed, because most looks need none of its values.
#[derive(Debug)]
struct LateFile {
    path: PathBuf,
    file: OnceCell<Option<File>>,
}

impl LateFile {
    /// `None` without CAP_SYS_ADMIN or where the kernel lacks the file.
    fn get(&self) -> Option<&File> {
        self.file.get_or_init(|| File::open(&self.path).ok()).as_ref()
    }
}

/// One of the two files, read in runs when the frames asked for are close together.
#[derive(Debug)]
pub struct FrameFile {
    file: LateFile,
    first: u64,
    values: Vec<u64>,
    last: u64,
    bytes: Vec<u8>,
}

impl FrameFile {
    /// How often a frame is mapped. `None` without CAP_SYS_ADMIN or where the kernel lacks the file.
    pub fn counts(roots: &Roots) -> Option<Self> {
        let counts = Self::new(roots, "kpagecount");
        counts.file.get().is_some().then_some(counts)
    }

    /// What kind of page a frame holds. Where the file cannot be opened, no frame has a value.
    pub fn flags(roots: &Roots) -> Self {
        Self::new(roots, "kpageflags")
    }

    fn new(roots: &Roots, name: &str) -> Self {
        let file = LateFile { path: roots.proc.join(name), file: OnceCell::new() };
        Self { file, first: 0, values: Vec::new(), last: u64::MAX - 1, bytes: Vec::new() }
    }

    /// Forgets what was read ahead. Call it before each look at fresh page tables.
    pub fn refresh(&mut self) {
        self.values.clear();
    }

    /// The value of a frame; `None` where it cannot be read, as for a frame that does not exist.
    pub fn get(&mut self, pfn: u64) -> Option<u64> {
        let known =
            pfn.checked_sub(self.first).and_then(|index| self.values.get(index as usize).copied());
        let follows = pfn.wrapping_sub(self.last) <= NEAR;
        self.last = pfn;
        known.or_else(|| self.fetch(pfn, if follows { WINDOW } else { 1 }))
    }

    fn fetch(&mut self, pfn: u64, frames: usize) -> Option<u64> {
        self.bytes.resize(frames * 8, 0);
        let file = self.file.get();
        let read = file.and_then(|file| file.read_at(&mut self.bytes, pfn * 8).ok()).unwrap_or(0);
        self.first = pfn;
        self.values.clear();
        let values = self.bytes[..read]
            .chunks_exact(8)
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")));
        self.values.extend(values);
        self.values.first().copied()
    }
}

/// KPF_COMPOUND_HEAD: the first page of a folio of more than one page.
pub const COMPOUND_HEAD: u64 = 1 << 15;
/// KPF_COMPOUND_TAIL: another page of it.
pub const COMPOUND_TAIL: u64 = 1 << 16;
/// KPF_KSM: a page that KSM has merged.
pub(crate) const KSM: u64 = 1 << 21;
/// KPF_ZERO_PAGE: the base page or the huge page of zeros.
pub(crate) const ZERO_PAGE: u64 = 1 << 24;
