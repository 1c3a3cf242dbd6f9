//! The pieces of a file that can have cached pages: work in proportion to the cached pages, not to the length of the
//! file.
//!
//! A sparse file may be as long as 8 EiB and have a few pages. From Linux 6.5 on cachestat(2) counts the pages of a range; a range that
//! has none is one call, and one that has some is halved. Before that, lseek(2) finds data. In tmpfs data is memory, and preallocated
//! pages are reported as a hole. On a disk a hole has cached pages only after someone has read it: of holes, the part
//! next to data and the first of each file are looked at, too ([`HOLES`]).

use super::preallocated::is_whole;
use numaloc_core::file_cache::{cached_range, piece_bytes};
use numaloc_sys::{cached_pages, next_data, next_hole};
use std::{fs::File, io, ops::Range};

/// Bytes of a file's holes that are looked at where they may have cached pages and only lseek(2) is available.
/// mincore(2) takes 50 ns a page of a hole, so this takes 0.1 s.
const HOLES: u64 = 8 << 30;

/// The means by which pages are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// By cachestat(2), since Linux 6.5.
    Counts,
    /// By SEEK_DATA and SEEK_HOLE of lseek(2).
    Data,
    /// Not at all: every piece may have some.
    None,
}

/// Goes through a file from its begin to its end.
#[derive(Clone, Debug)]
pub struct CacheSearch {
    means: Means,
    is_memory: bool,
    /// Bytes of holes that may still be looked at.
    holes: u64,
    /// A range whose pieces may all have cached pages.
    found: Range<u64>,
}

impl CacheSearch {
    /// `is_memory`: the file is on tmpfs, where a hole has no pages.
    pub fn new(is_memory: bool) -> Self {
        Self::by(Means::Counts, is_memory)
    }

    fn by(means: Means, is_memory: bool) -> Self {
        Self { means, is_memory, holes: if is_memory { 0 } else { HOLES }, found: 0..0 }
    }

    /// Where the first piece begins, from `from` (the begin of a piece) up to `end`, that may have cached pages.
    pub fn next(&mut self, file: &File, from: u64, end: u64) -> Option<u64> {
        if from >= end {
            return None;
        }
        if !self.found.contains(&from) {
            self.found = self.search(file, from, end)?;
        }
        Some(self.found.start.max(from)).filter(|next| *next < end)
    }

    fn search(&mut self, file: &File, from: u64, end: u64) -> Option<Range<u64>> {
        if self.means == Means::Counts {
            let count =
                |range: Range<u64>| cached_pages(file, range.start, range.end - range.start);
            match cached_range(from, end, count) {
                Ok(found) => return found,
                // An older kernel, or a filter of system calls.
                Err(_) => self.means = Means::Data,
            }
        }
        if self.means == Means::Data {
            match self.by_data(file, from, end) {
                Ok(found) => return found,
                Err(_) => self.means = Means::None,
            }
        }
        Some(from..end)
    }

    fn by_data(&mut self, file: &File, from: u64, end: u64) -> io::Result<Option<Range<u64>>> {
        if self.is_memory && is_whole(file) {
            return Ok(Some(from..end));
        }
        let data = next_data(file, from)?.unwrap_or(u64::MAX).min(end);
        // Readahead may have read the neighbours of data.
        let neighbour = if self.is_memory { 0 } else { piece_bytes() };
        let start = (data / piece_bytes() * piece_bytes()).saturating_sub(neighbour).max(from);
        let hole = (start - from).min(self.holes / piece_bytes() * piece_bytes());
        if hole > 0 {
            self.holes -= hole;
            return Ok(Some(from..from + hole));
        }
        if data >= end {
            return Ok(None);
        }
        let until = next_hole(file, data)?.unwrap_or(end).max(data + 1);
        Ok(Some(start..until.next_multiple_of(piece_bytes()).saturating_add(neighbour)))
    }
}

#[cfg(test)]
mod tests;
