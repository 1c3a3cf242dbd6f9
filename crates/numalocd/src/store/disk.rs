//! The file below the database. At first it is only read, and writes stay in memory. The reason: opening a database
//! repairs what it finds, and must not touch a file that turns out to be damaged. [`Disk::release`] then carries out
//! all these writes, in order.

use parking_lot::Mutex;
use redb::StorageBackend;
use std::{borrow::Cow, collections::BTreeMap, fs::File, io, os::unix::fs::FileExt, sync::Arc};

const PAGE: usize = 4096;
/// Offset of the byte in redb's header that selects one of the two commit slots, and the bit in it.
const SLOT_BYTE: usize = 9;
const SLOT_BIT: u8 = 1;
/// Offsets of the transaction numbers of the two slots.
const TRANSACTIONS: [usize; 2] = [168, 296];

/// Selects one of the two latest commits to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The one that the header selects.
    Current,
    Other,
}

/// The file. Clones share the same file and state.
#[derive(Clone, Debug)]
pub struct Disk {
    file: Arc<File>,
    state: Arc<Mutex<DiskState>>,
}

#[derive(Debug)]
struct DiskState {
    stage: DiskStage,
    /// The error of the first operation that failed.
    error: Option<io::Error>,
    #[cfg(test)]
    fault: Option<InjectedFault>,
}

#[derive(Debug)]
enum DiskStage {
    Held(HeldWrites),
    Live,
    Cut,
}

/// Writes that are not in the file yet.
#[derive(Debug)]
struct HeldWrites {
    len: u64,
    /// The file's own bytes count up to here. Beyond, it counts as zeros, because it was truncated in memory.
    file_len: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    log: Vec<Operation<'static>>,
}

#[derive(Debug)]
enum Operation<'a> {
    Write(u64, Cow<'a, [u8]>),
    SetLen(u64),
    Sync,
}

/// An operation that fails, for tests.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub struct InjectedFault {
    /// Number of writing operations that succeed first.
    pub after: usize,
    /// Whether the failing operation takes effect all the same.
    pub takes_effect: bool,
    /// The error that it fails with.
    pub errno: i32,
}

impl Disk {
    /// A file that is written to at once.
    pub fn live(file: Arc<File>) -> Self {
        Self::new(file, DiskStage::Live)
    }

    /// A file that is only read until [`Self::release`].
    pub fn held(file: Arc<File>, slot: Slot) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let mut held = HeldWrites { len, file_len: len, pages: BTreeMap::new(), log: Vec::new() };
        if slot == Slot::Other {
            let mut first = Box::new([0; PAGE]);
            file.read_exact_at(first.as_mut_slice(), 0)?;
            first[SLOT_BYTE] ^= SLOT_BIT;
            held.pages.insert(0, first);
        }
        Ok(Self::new(file, DiskStage::Held(held)))
    }

    fn new(file: Arc<File>, stage: DiskStage) -> Self {
        let state = DiskState {
            stage,
            error: None,
            #[cfg(test)]
            fault: None,
        };
        Self { file, state: Arc::new(Mutex::new(state)) }
    }

    /// Whether the commit that the header does not select is the later one. Then the daemon died in the middle of this
    /// commit, or the byte that selects the slot is damaged.
    pub fn other_is_later(file: &File) -> io::Result<bool> {
        let mut header = [0; 320];
        file.read_exact_at(&mut header, 0)?;
        let number = |at: usize| {
            header[at..at + 8].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        };
        let [first, second] = TRANSACTIONS.map(number);
        Ok(if header[SLOT_BYTE] & SLOT_BIT == 0 { second > first } else { first > second })
    }

    /// Carries out the writes that were deferred. From now on everything is written at once.
    pub fn release(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if !matches!(state.stage, DiskStage::Held(_)) {
            return Ok(());
        }
        if let DiskStage::Held(held) = std::mem::replace(&mut state.stage, DiskStage::Live) {
            for operation in &held.log {
                state.carry_out(&self.file, operation)?;
            }
        }
        Ok(())
    }

    /// Makes all further writes fail.
    pub fn cut(&self) {
        self.state.lock().stage = DiskStage::Cut;
    }

    /// The error of the first operation that failed.
    pub fn error(&self) -> Option<io::Error> {
        let state = self.state.lock();
        let error = state.error.as_ref()?;
        Some(error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error))
    }

    #[cfg(test)]
    pub fn fail(&self, fault: InjectedFault) {
        self.state.lock().fault = Some(fault);
    }

    fn apply(&self, operation: Operation<'_>) -> io::Result<()> {
        let mut state = self.state.lock();
        match &mut state.stage {
            DiskStage::Held(held) => {
                held.apply(&self.file, &operation)?;
                held.log.push(operation.into_owned());
                Ok(())
            }
            DiskStage::Live => state.carry_out(&self.file, &operation),
            DiskStage::Cut => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl DiskState {
    fn carry_out(&mut self, file: &File, operation: &Operation<'_>) -> io::Result<()> {
        #[cfg(test)]
        if let Some(fault) = &mut self.fault {
            if fault.after == 0 {
                let fault = *fault;
                if fault.takes_effect {
                    operation.carry_out(file)?;
                }
                let failed = || io::Error::from_raw_os_error(fault.errno);
                self.error.get_or_insert_with(failed);
                return Err(failed());
            }
            fault.after -= 1;
        }
        let result = operation.carry_out(file);
        self.noting(result)
    }

    fn noting<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            let copy = || {
                error
                    .raw_os_error()
                    .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
            };
            self.error.get_or_insert_with(copy);
        }
        result
    }
}

impl Operation<'_> {
    fn carry_out(&self, file: &File) -> io::Result<()> {
        match self {
            Self::Write(offset, bytes) => file.write_all_at(bytes, *offset),
            Self::SetLen(len) => file.set_len(*len),
            Self::Sync => file.sync_data(),
        }
    }

    /// The same, to be kept.
    fn into_owned(self) -> Operation<'static> {
        match self {
            Self::Write(offset, bytes) => Operation::Write(offset, bytes.into_owned().into()),
            Self::SetLen(len) => Operation::SetLen(len),
            Self::Sync => Operation::Sync,
        }
    }
}

impl HeldWrites {
    fn apply(&mut self, file: &File, operation: &Operation<'_>) -> io::Result<()> {
        match operation {
            Operation::Write(offset, bytes) => {
                let mut done = 0;
                for (page, within) in pieces(*offset, bytes.len()) {
                    let part = &bytes[done..done + within.len()];
                    done += within.len();
                    self.page(file, page)?[within].copy_from_slice(part);
                }
                self.len = self.len.max(offset.saturating_add(bytes.len() as u64));
            }
            Operation::SetLen(len) => {
                self.pages.retain(|page, _| page * (PAGE as u64) < *len);
                self.len = *len;
                self.file_len = self.file_len.min(*len);
            }
            Operation::Sync => {}
        }
        Ok(())
    }

    /// The copy of a page that writes go to. It is read from the file first if need be.
    fn page(&mut self, file: &File, page: u64) -> io::Result<&mut [u8; PAGE]> {
        if !self.pages.contains_key(&page) {
            let mut bytes = Box::new([0; PAGE]);
            self.read_file(file, page * PAGE as u64, bytes.as_mut_slice())?;
            self.pages.insert(page, bytes);
        }
        self.pages.get_mut(&page).map(Box::as_mut).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn read(&self, file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_file(file, offset, out)?;
        let mut done = 0;
        for (page, within) in pieces(offset, out.len()) {
            let part = &mut out[done..done + within.len()];
            done += within.len();
            if let Some(bytes) = self.pages.get(&page) {
                part.copy_from_slice(&bytes[within]);
            }
        }
        Ok(())
    }

    /// Reads the file's own bytes, and zeros beyond `file_len`.
    fn read_file(&self, file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = self.file_len.saturating_sub(offset);
        let there = usize::try_from(there).unwrap_or(usize::MAX).min(out.len());
        file.read_exact_at(&mut out[..there], offset)?;
        out[there..].fill(0);
        Ok(())
    }
}

/// The pages that a range touches, and the part of each.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let (first, mut start) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
    let mut left = len;
    (first..).map_while(move |page| {
        let part = (PAGE - start).min(left);
        let piece = (page, start..start + part);
        (start, left) = (0, left - part);
        (part > 0).then_some(piece)
    })
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        match &self.state.lock().stage {
            DiskStage::Held(held) => Ok(held.len),
            _ => Ok(self.file.metadata()?.len()),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        let result = match &state.stage {
            DiskStage::Held(held) => held.read(&self.file, offset, out),
            _ => self.file.read_exact_at(out, offset),
        };
        state.noting(result)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.apply(Operation::SetLen(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.apply(Operation::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.apply(Operation::Write(offset, data.into()))
    }
}
