//! Cached pages that others map: the kernel's number of mappings of their frames, less the mapping through which they
//! are looked at.

use super::{cached_file::CachedFile, cached_piece::CachedPiece};
use crate::{
    Roots,
    files::{kpage::FrameFile, pagemap::Pagemap},
};
use numaloc_core::{NodeId, page_size};
use parking_lot::Mutex;
use std::{collections::BTreeMap, fs::File};

/// Held by a thread that looks for pages that no other process maps: two threads of this process would take each
/// other for another process that maps them.
static LOOKING: Mutex<()> = Mutex::new(());

/// Counts mapped pages of this process's [`CachedPiece`]s.
#[derive(Debug)]
pub struct MappedPages {
    pagemap: Pagemap,
    counts: FrameFile,
    bytes: Vec<u8>,
}

/// Where the pages of a piece are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceNodes {
    /// Bytes by node that are not mapped by others.
    pub unmapped: BTreeMap<NodeId, u64>,
    /// Resident bytes of all mappings.
    pub resident_bytes: u64,
}

impl MappedPages {
    /// `None` without CAP_SYS_ADMIN, or where the kernel does not say how often frames are mapped.
    pub fn open(roots: &Roots) -> Option<Self> {
        let pagemap = Pagemap::new(File::open(roots.proc.join("self/pagemap")).ok()?);
        Some(Self { pagemap, counts: FrameFile::counts(roots)?, bytes: Vec::new() })
    }

    /// Bytes of the piece that others have mapped; `None` if that cannot be read. A folio of several pages counts page by page
    /// (fs/proc/page.c, `get_kpage_count`).
    pub fn bytes_of(&mut self, piece: &CachedPiece) -> Option<u64> {
        Some(
            self.are_mapped(piece)?.into_iter().filter(|is_mapped| *is_mapped).count() as u64
                * page_size(),
        )
    }

    /// The pages of a piece of a file that are not mapped by others; `None` if they cannot be looked at.
    pub fn unmapped_piece(&mut self, file: &CachedFile, number: u64) -> Option<CachedPiece> {
        let _looking = LOOKING.lock();
        let mut piece = file.piece(number).ok()?;
        self.retain_unmapped(&mut piece)?;
        Some(piece)
    }

    /// Bytes by node of a piece of a file that are not mapped by others; `None` if it cannot be looked at.
    pub fn unmapped_nodes(&mut self, file: &CachedFile, number: u64) -> Option<PieceNodes> {
        let _looking = LOOKING.lock();
        // Its mapping has ended before the next look begins.
        let mut piece = file.piece(number).ok()?;
        let resident_bytes = piece.nodes().values().sum();
        self.retain_unmapped(&mut piece)?;
        Some(PieceNodes { unmapped: piece.nodes(), resident_bytes })
    }

    fn retain_unmapped(&mut self, piece: &mut CachedPiece) -> Option<()> {
        let are_mapped = self.are_mapped(piece)?;
        piece.retain(|page| !are_mapped[page]);
        Some(())
    }

    /// For each page of the piece, whether others have mapped it.
    fn are_mapped(&mut self, piece: &CachedPiece) -> Option<Vec<bool>> {
        self.counts.refresh();
        let addresses = piece.addresses();
        let mut are_mapped = Vec::with_capacity(addresses.len());
        for run in addresses.chunk_by(|one, next| one + page_size() == *next) {
            let seen = are_mapped.len() + run.len();
            self.bytes.resize(run.len() * 8, 0);
            for entry in self.pagemap.read(run[0], &mut self.bytes).ok()?.iter() {
                // A page may have been dropped since.
                let mut is_mapped = false;
                if entry.is_present() {
                    let frame = Some(entry.pfn()).filter(|pfn| *pfn != 0)?;
                    is_mapped = self.counts.get(frame)? > 1;
                }
                are_mapped.push(is_mapped);
            }
            are_mapped.resize(seen, true);
        }
        Some(are_mapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_sys::FilePages;
    use std::fs;

    #[test]
    fn pages_that_another_mapping_has_are_mapped() {
        let roots = Roots::default();
        let Some(mut mapped) = MappedPages::open(&roots) else {
            return println!("skipped: without CAP_SYS_ADMIN the kernel hides frames");
        };
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let path = directory.path().join("file");
        fs::write(&path, vec![7; 8 * page_size() as usize]).expect("a file");
        let piece = CachedFile::open(&roots, &path).map(|file| file.piece(0));
        let piece = piece.expect("tmpfs").expect("it can be mapped");
        assert_eq!(mapped.bytes_of(&piece), Some(0));
        let file = File::open(&path).expect("just written");
        let other = FilePages::map(&file, 0, 3 * page_size() as usize).expect("addresses");
        assert_eq!(mapped.bytes_of(&piece), Some(0), "no page has an address yet");
        other.populate(0..3).expect("it is in memory");
        assert_eq!(mapped.bytes_of(&piece), Some(3 * page_size()));
        drop(piece);
        let file = CachedFile::open(&roots, &path).expect("tmpfs");
        let unmapped = mapped.unmapped_nodes(&file, 0).expect("it can be read");
        assert_eq!(unmapped.unmapped.values().sum::<u64>(), 5 * page_size());
        assert_eq!(unmapped.resident_bytes, 8 * page_size());
    }
}
