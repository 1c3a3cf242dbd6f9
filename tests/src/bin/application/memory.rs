//! All regions of the process, and the content that is expected in them.

use crate::spec::{Access, Kind, Spec};
use anyhow::{Context, Result};
use nix::sys::memfd::{MFdFlags, memfd_create};
use numaloc_sys::{
    fixture::{
        Advice, Backing, Missing, PinnedBuffer, Region, new_segment, packet_ring, perf_event,
        remove_segment, secret,
    },
    page_bytes,
};
use numaloc_tests::settings::HUGETLB_BYTES;
use parking_lot::{Mutex, MutexGuard};
use std::{
    fs::{File, OpenOptions},
    io,
    ops::Range,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

/// Pages of a sparse region are touched in runs of this many pages.
const SPARSE_RUN: usize = 16;
/// Size of one write of a `direct` region. It is small enough for one bio, so all of its pages are pinned until the write is
/// done.
const DIRECT_BYTES: usize = 256 << 10;

/// A region, with the generation of each page that this process writes.
pub struct Slot {
    pub spec: Spec,
    /// Shared with the thread that writes it to a device.
    pub region: Arc<Region>,
    /// Numbers of the pages whose content this process writes and checks.
    pub pages: Vec<u32>,
    /// The generation that was last written to each of `pages`.
    pub generations: Vec<u32>,
    /// Number of `pages`, counted from the end, that are rewritten. The others are only checked.
    pub rewritten: usize,
    _pinned: Option<PinnedBuffer>,
    _missing: Option<Missing>,
}

/// All regions. A slot is empty once it has been unmapped.
pub struct Memory {
    slots: Vec<Mutex<Option<Slot>>>,
}

impl Memory {
    pub fn new(specs: &[Spec]) -> Result<Self> {
        let slot =
            |spec: &Spec| Slot::new(spec.clone()).with_context(|| format!("region {}", spec.name));
        let slots = specs.iter().map(|spec| slot(spec).map(|slot| Mutex::new(Some(slot))));
        Ok(Self { slots: slots.collect::<Result<_>>()? })
    }

    /// The slots. Each is locked only while it is visited.
    pub fn slots(&self) -> impl Iterator<Item = MutexGuard<'_, Option<Slot>>> {
        self.slots.iter().map(|slot| slot.lock())
    }

    /// Whether a region is shared with a child.
    pub fn wants_child(&self) -> bool {
        self.slots().any(|slot| slot.as_ref().is_some_and(|slot| slot.spec.kind == Kind::Cow))
    }

    /// Writes to the second half of each region that is shared with the child.
    pub fn rewrite_cow(&self) {
        for mut slot in self.slots() {
            if let Some(slot) = slot.as_mut().filter(|slot| slot.spec.kind == Kind::Cow) {
                let all = slot.pages.len();
                (all - slot.rewritten..all).for_each(|index| slot.write(index, 2));
            }
        }
    }

    pub fn ranges(&self) -> Vec<(String, Range<u64>)> {
        let slots = self.slots();
        slots
            .filter_map(|slot| {
                Some((slot.as_ref()?.spec.name.clone(), slot.as_ref()?.region.range()))
            })
            .collect()
    }

    /// Begins the writes of `direct` regions.
    pub fn start_io(&self) -> Result<()> {
        for slot in self.slots() {
            let Some(slot) = slot.as_ref().filter(|slot| slot.spec.kind == Kind::Direct) else {
                continue;
            };
            let path = slot.spec.path.as_ref().context("direct has a path")?;
            let direct = nix::fcntl::OFlag::O_DIRECT.bits();
            let device = OpenOptions::new().write(true).custom_flags(direct).open(path)?;
            let region = slot.region.clone();
            thread::spawn(move || {
                loop {
                    region.write_to(&device, DIRECT_BYTES).expect("write to the device");
                }
            });
        }
        Ok(())
    }
}

impl Slot {
    fn new(spec: Spec) -> Result<Self> {
        let file = match (spec.kind, &spec.path) {
            (Kind::File, Some(path)) if spec.access.is_reading() => Some(File::open(path)?),
            (Kind::File, Some(path)) => Some(long_enough(path, spec.bytes)?),
            (Kind::Memfd, _) => Some(memfd(MFdFlags::empty(), spec.bytes)?),
            (Kind::HugeMemfd, _) => {
                Some(memfd(MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_2MB, spec.bytes)?)
            }
            (Kind::PacketRing, _) => Some(packet_ring(spec.bytes)?),
            (Kind::PerfRing, _) => Some(perf_event()?),
            (Kind::Secret, _) => Some(secret(spec.bytes)?),
            _ => None,
        };
        let id = if spec.kind == Kind::SysV { Some(segment(&spec)?) } else { None };
        let backing = match (&file, spec.kind) {
            (Some(file), Kind::File) if spec.touched_bytes < spec.bytes => {
                Backing::Unreserved(file)
            }
            (Some(file), _) if spec.is_sync => Backing::Synced(file),
            (Some(file), _) if spec.access == Access::Read => Backing::ReadOnly(file),
            (Some(file), _) if spec.access == Access::Private => Backing::Copied(file),
            (Some(file), _) => Backing::File(file),
            (_, Kind::SysV) => Backing::Segment(id.context("a segment has an id")?),
            (_, Kind::Hugetlb) => Backing::Hugetlb(HUGETLB_BYTES as usize),
            (_, Kind::Gigantic) => Backing::Hugetlb(1 << 30),
            (_, Kind::Shm) => Backing::Shared,
            (_, Kind::Sparse | Kind::Heap) => Backing::Reserved,
            _ => Backing::Private,
        };
        let region = Region::map(spec.bytes, backing, spec.at)?;
        if let (Some(id), true) = (id, is_new(&spec)) {
            remove_segment(id)?;
        }
        match spec.kind {
            Kind::Thp => region.advise(Advice::Huge)?,
            Kind::Hugetlb | Kind::Gigantic | Kind::File | Kind::Memfd | Kind::HugeMemfd => {}
            Kind::Shm | Kind::SysV => {}
            Kind::PacketRing | Kind::PerfRing | Kind::Secret => {}
            _ => region.advise(Advice::NoHuge)?,
        }
        if spec.kind == Kind::Merge {
            region.advise(Advice::Mergeable)?;
        }
        if let Some(node) = spec.bind {
            region.bind(node)?;
        }
        let mut slot = Self::filled(spec, region);
        match slot.spec.kind {
            Kind::Mlock => slot.region.lock()?,
            Kind::ProtNone => slot.protect(true)?,
            Kind::IoUring => slot._pinned = Some(PinnedBuffer::new(&slot.region)?),
            _ => {}
        }
        if let (Some(file), Access::ReadOnly) = (&file, slot.spec.access) {
            file.sync_all()?; // clean
        }
        Ok(slot)
    }

    fn filled(spec: Spec, region: Region) -> Self {
        let all = 0..match spec.kind {
            Kind::File | Kind::Heap => region.pages().min(spec.touched_bytes / page_bytes()),
            _ => region.pages(),
        };
        let pages: Vec<u32> = match spec.access {
            access if access.is_touching() => Vec::new(),
            Access::Stripe { first, of } => {
                all.clone().skip(first).step_by(of).map(|page| page as u32).collect()
            }
            _ if spec.kind == Kind::Sparse => sparse(region.pages(), spec.touched_bytes),
            _ => all.clone().map(|page| page as u32).collect(),
        };
        if spec.access.is_touching() || matches!(spec.access, Access::Stripe { .. }) {
            for page in all {
                region.page(page)[0].load(Relaxed);
            }
        }
        let rewritten = match (spec.access, spec.kind) {
            (Access::ReadOnly | Access::Cold, _) | (_, Kind::ProtNone) => 0,
            (_, Kind::Cow) => pages.len() / 2,
            _ => pages.len(),
        };
        let generations = vec![0; pages.len()];
        let region = Arc::new(region);
        let mut slot =
            Self { spec, region, pages, generations, rewritten, _pinned: None, _missing: None };
        for index in 0..slot.pages.len() {
            slot.write(index, 1);
        }
        slot
    }

    /// Gives the first or the last half of each `unit` bytes back to the kernel. The pages in these halves are no longer checked.
    pub fn free_halves(&mut self, unit: usize, first: bool) -> io::Result<()> {
        let half = unit / 2;
        let from = if first { 0 } else { half };
        for start in (from..self.region.pages() * page_bytes()).step_by(unit) {
            self.region.discard(start..start + half)?;
        }
        let stays = |page: u32| (page as usize * page_bytes() % unit < half) != first;
        let kept = self.pages.iter().zip(&self.generations).filter(|(page, _)| stays(**page));
        (self.pages, self.generations) =
            kept.map(|(&page, &generation)| (page, generation)).unzip();
        self.rewritten = self.rewritten.min(self.pages.len());
        Ok(())
    }

    /// Has the kernel take a page for broken, or all of its huge page of a hugetlb pool. What is in it is not touched any more.
    pub fn poison(&mut self, page: u32) -> io::Result<()> {
        let unit = if self.spec.kind == Kind::Hugetlb {
            HUGETLB_BYTES as u32 / page_bytes() as u32
        } else {
            1
        };
        let lost = page / unit * unit..(page / unit + 1) * unit;
        let untouched = self.pages.len() - self.rewritten;
        let kept = self.pages.iter().zip(&self.generations).enumerate();
        let kept: Vec<_> = kept.filter(|(_, (page, _))| !lost.contains(page)).collect();
        self.rewritten = kept.iter().filter(|(index, _)| *index >= untouched).count();
        (self.pages, self.generations) =
            kept.into_iter().map(|(_, (&page, &generation))| (page, generation)).unzip();
        self.region.poison(page as usize)
    }

    /// Moves all of it to other addresses, and returns them.
    pub fn remap(&mut self) -> io::Result<Range<u64>> {
        let region = Arc::get_mut(&mut self.region).expect("only direct regions are shared");
        region.remap()?;
        Ok(region.range())
    }

    /// Gives all pages back to the kernel permanently. None of them is touched any more.
    pub fn lose(&mut self) -> io::Result<()> {
        (self.pages, self.generations, self.rewritten) = (Vec::new(), Vec::new(), 0);
        self._missing = Some(Missing::all_of(&self.region)?);
        Ok(())
    }

    /// Writes the pattern of a generation to the page at `index` of `pages`.
    pub fn write(&mut self, index: usize, generation: u32) {
        self.generations[index] = generation;
        let seed = self.seed(index);
        for (word, position) in self.words(index) {
            word.store(pattern(seed, position), Relaxed);
        }
    }

    /// Checks the page at `index` of `pages`. Returns what is wrong with it.
    pub fn verify(&self, index: usize) -> Result<(), String> {
        let seed = self.seed(index);
        for (word, position) in self.words(index) {
            let (found, expected) = (word.load(Relaxed), pattern(seed, position));
            if found != expected {
                let page = u64::from(self.pages[index]);
                let address = self.region.range().start + page * page_bytes() as u64 + position * 8;
                let name = &self.spec.name;
                return Err(format!("{name} at {address:x}: {found:x} instead of {expected:x}"));
            }
        }
        Ok(())
    }

    /// Checks all pages, including protected ones.
    pub fn verify_all(&mut self) -> Result<(), String> {
        let protected = self.spec.kind == Kind::ProtNone;
        if protected {
            self.protect(false).map_err(|error| error.to_string())?;
        }
        let result = (0..self.pages.len()).try_for_each(|index| self.verify(index));
        if protected {
            self.protect(true).map_err(|error| error.to_string())?;
        }
        result
    }

    fn protect(&mut self, inaccessible: bool) -> io::Result<()> {
        let region = Arc::get_mut(&mut self.region).expect("only direct regions are shared");
        region.protect(inaccessible)
    }

    /// The words with a pattern of the page at `index` of `pages`, and their positions.
    fn words(&self, index: usize) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let words = self.region.page(self.pages[index] as usize).iter().zip(0..);
        words.step_by(self.spec.every.get())
    }

    fn seed(&self, index: usize) -> u64 {
        u64::from(self.pages[index]) << 32 | u64::from(self.generations[index])
    }
}

/// The word at `position` of the page with `seed`: different for each page, generation and position.
fn pattern(seed: u64, position: u64) -> u64 {
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed).wrapping_add(position << 17 | position)
}

/// Numbers of the pages to touch: runs at equal distances from the first page to the last.
fn sparse(pages: usize, touched_bytes: usize) -> Vec<u32> {
    let runs = (touched_bytes / page_bytes() / SPARSE_RUN).max(1);
    let distance = pages / runs;
    let run = |index: usize| (index * distance..).take(SPARSE_RUN.min(distance));
    (0..runs).flat_map(run).map(|page| page as u32).collect()
}

fn memfd(flags: MFdFlags, bytes: usize) -> Result<File> {
    let file = File::from(memfd_create("numaloc-target", flags)?);
    file.set_len(bytes as u64)?;
    Ok(file)
}

/// The id of a System V segment, which is made if it is to be a new one.
fn segment(spec: &Spec) -> Result<i32> {
    let word = spec.path.as_deref().and_then(Path::to_str).context("sysv has an id")?;
    Ok(if is_new(spec) { new_segment(spec.bytes)? } else { word.parse()? })
}

fn is_new(spec: &Spec) -> bool {
    spec.path.as_deref() == Some(Path::new("new"))
}

fn long_enough(path: &Path, bytes: usize) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.len() < bytes as u64 {
        file.set_len(bytes as u64)?;
    }
    Ok(file)
}
