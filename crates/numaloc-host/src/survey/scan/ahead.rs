//! Neighbouring mappings, whose page map is read in one go.
//!
//! An allocator with guard pages, or a runtime that changes the protection of single pages, has tens of thousands of mappings of a few
//! pages each. To read each by itself takes a system call for every page; a read over them all costs next to nothing for the holes
//! between them, as long as these are small.

use super::{Halt, MappedView, PageRun, Scanner};
use crate::{Error, files::pagemap::Entries, survey::space::AddressSpace};
use numaloc_core::{Identity, number, page_size};
use std::ops::Range;

/// The entries of a range of addresses of one process.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// The process; `None`: nothing was read.
    of: Option<Identity>,
    addresses: Range<u64>,
    entries: Vec<u8>,
}

impl ReadAhead {
    /// The entries of these addresses, if they were read.
    fn of(&self, space: &AddressSpace, addresses: Range<u64>) -> Option<Entries<'_>> {
        let is_read = self.of == Some(space.process.identity)
            && self.addresses.start <= addresses.start
            && addresses.end <= self.addresses.end;
        let first = number::index(addresses.start.wrapping_sub(self.addresses.start) / page_size());
        let pages = number::index((addresses.end - addresses.start) / page_size());
        is_read.then(|| Entries::of(&self.entries).slice(first, pages))
    }
}

impl Scanner {
    /// Reads the page map of neighbouring mappings in one go. Until [`Self::forget`], scans of base pages between these addresses
    /// use what was read now. Of an address space that has ended nothing is kept.
    ///
    /// # Errors
    /// [`Error::Pages`] if the pages of an address space that exists cannot be read.
    pub fn read_ahead(&mut self, space: &AddressSpace, addresses: Range<u64>) -> Result<(), Error> {
        self.forget();
        self.refresh();
        let pages = number::index((addresses.end - addresses.start) / page_size());
        let view = MappedView::of(space, addresses.start);
        let read = self.gaps.count(|| view.read(0, pages, &mut self.ahead.entries).map(drop));
        if Halt::unless_ended(read)?.is_some() {
            (self.ahead.of, self.ahead.addresses) = (Some(space.process.identity), addresses);
        }
        self.gaps.leave();
        Ok(())
    }

    /// Forgets what was read ahead.
    pub fn forget(&mut self) {
        self.ahead.of = None;
    }

    /// Visits the page runs of a range of an extent with one mapping if they were read ahead; `None`: they were not.
    pub(super) fn scan_ahead(
        &mut self,
        view: MappedView<'_>,
        range: &Range<u64>,
        visit: &mut dyn FnMut(PageRun<'_>),
    ) -> Option<Result<(), Halt>> {
        let ahead = std::mem::take(&mut self.ahead);
        let addresses = view.start + range.start..view.start + range.end;
        let entries = ahead.of(view.space, addresses);
        let result = entries.map(|entries| self.page_runs(view, range.start, entries, visit));
        self.ahead = ahead;
        Some(result?.map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::*, *};
    use crate::fake::Fake;
    use numaloc_core::{Claims, Mapping, Pages};
    use std::fs;

    /// The bytes that are found in single pages of a process.
    fn found(scanner: &mut Scanner, space: &AddressSpace, pages: &[u64]) -> Vec<u64> {
        let (spaces, claims) = (std::slice::from_ref(space), Claims::default());
        let found = pages.iter().map(|page| {
            let mappings = [Mapping { process: 0, start: page * page_size() }];
            let scanned = super::super::Scanned::counted(spaces, &claims, &mappings, &Pages::All);
            let mut bytes = 0;
            scanner
                .scan(&scanned, 0..page_size(), &mut |run| bytes += run.bytes)
                .expect("it can be read");
            bytes
        });
        found.collect()
    }

    #[test]
    fn what_was_read_ahead_is_used_for_its_process_and_addresses_until_it_is_forgotten() {
        let fake = Fake::new();
        let one = space(&fake, 100, Content::Pages(8));
        let other = space(&fake, 200, Content::Pages(8));
        let mut scanner = scanner(&fake);
        scanner.read_ahead(&one, 2 * page_size()..6 * page_size()).expect("it can be read");
        // From now on no page is present.
        for pid in [100, 200] {
            fs::write(fake.path(&format!("proc/{pid}/pagemap")), [0; 64]).expect("a file");
        }
        let pages = [1, 2, 3, 5, 6];
        assert_eq!(
            found(&mut scanner, &one, &pages),
            [0, page_size(), page_size(), page_size(), 0]
        );
        assert_eq!(found(&mut scanner, &other, &pages), [0; 5]);
        scanner.forget();
        assert_eq!(found(&mut scanner, &one, &pages), [0; 5]);
    }

    #[test]
    fn of_a_process_that_has_ended_nothing_is_read_ahead_and_what_cannot_be_read_is_an_error() {
        let fake = Fake::new();
        let ended = space(&fake, 100, Content::Pages(2));
        fs::write(fake.path("proc/100/pagemap"), "").expect("a file");
        let mut scanner = scanner(&fake);
        scanner.read_ahead(&ended, 0..2 * page_size()).expect("no error");
        assert_eq!(scanner.ahead.of, None);
        let unreadable = space(&fake, 200, Content::Error);
        let error = scanner.read_ahead(&unreadable, 0..2 * page_size()).expect_err("a directory");
        assert!(matches!(error, Error::Pages { pid: 200, .. }), "{error}");
    }
}
