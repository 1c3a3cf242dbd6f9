//! Which cached pages are mapped by others: how often the kernel says that their frames are mapped, less the mapping through which they are
//! looked at.

use super::cached_file::CachedPiece;
use crate::{
    Roots,
    files::{kpage::FrameFile, pagemap::Pagemap},
};
use numaloc_core::PAGE;
use std::fs::File;

/// Counts mapped pages of this process's [`CachedPiece`]s.
#[derive(Debug)]
pub struct MappedPages {
    pagemap: Pagemap,
    counts: FrameFile,
    bytes: Vec<u8>,
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
        self.counts.refresh();
        let (mut bytes, addresses) = (0, piece.addresses());
        for run in addresses.chunk_by(|one, next| one + PAGE == *next) {
            self.bytes.resize(run.len() * 8, 0);
            for entry in self.pagemap.read(run[0], &mut self.bytes).ok()?.iter() {
                // A page may have been dropped since.
                if entry.is_present() {
                    let frame = Some(entry.pfn()).filter(|pfn| *pfn != 0)?;
                    bytes += if self.counts.get(frame)? > 1 { PAGE } else { 0 };
                }
            }
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CachedFile;
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
        fs::write(&path, vec![7; 8 * PAGE as usize]).expect("a file");
        let piece = CachedFile::open(&roots, &path).map(|file| file.piece(0));
        let piece = piece.expect("tmpfs").expect("it can be mapped");
        assert_eq!(mapped.bytes_of(&piece), Some(0));
        let file = File::open(&path).expect("just written");
        let other = FilePages::map(&file, 0, 3 * PAGE as usize).expect("addresses");
        assert_eq!(mapped.bytes_of(&piece), Some(0), "no page has an address yet");
        other.populate(0..3).expect("it is in memory");
        assert_eq!(mapped.bytes_of(&piece), Some(3 * PAGE));
    }
}
