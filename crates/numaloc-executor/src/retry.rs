//! Visits windows again in which something could not be moved: after pauses, with a fresh scan.

use crate::{
    deferred::Marks,
    folio::Folio,
    row::{self, Row},
    worker::{Found, Worker},
};
use numaloc_core::Reason;
use std::{ops::Range, time::Duration};

/// The first pause before pages that could not be moved are tried again; it grows fourfold each time.
const PAUSE: Duration = Duration::from_millis(5);

impl Worker<'_> {
    /// Visits the deferred pages again, with growing pauses, until none are left.
    pub(crate) fn retry(&mut self) {
        let mut pause = PAUSE;
        while !self.deferred.is_empty() {
            self.pause(pause);
            self.rest();
            pause *= 4;
            self.tries += 1;
            let mut todo = self.deferred.take();
            while let Some(marks) = todo.next() {
                self.revisit(marks);
                if self.pending_bytes >= self.work.pacer.most_bytes {
                    self.flush();
                }
                self.rest();
            }
            self.flush();
        }
    }

    /// Moves the pages of a window that are found remote and are marked. Marked pages that are not found are settled.
    fn revisit(&mut self, mut marks: Marks) {
        let mut reason = self.work.stop();
        if reason.is_none() {
            let Found { rows, strangers, is_all } = self.find(marks.step, marks.range.clone());
            for (process, bytes) in strangers {
                for Range { start, end } in marks.take(process, bytes) {
                    self.leave(process, Reason::Shared, end - start);
                }
            }
            rows.into_iter().for_each(|row| self.put_marked(row, &mut marks));
            reason = (!is_all).then_some(Reason::Unreadable);
        }
        for (process, bytes) in marks.rest() {
            match reason {
                Some(reason) => self.leave(process, reason, bytes),
                None if !self.survey.spaces[process].is_alive() => {
                    self.leave(process, Reason::ProcessGone, bytes)
                }
                None => self.vanished(process, bytes),
            }
        }
    }

    /// Puts the marked pages of some folios into batches. If only a part of a folio is marked, each marked stretch counts as one
    /// folio: it moves as a whole through any of its pages.
    fn put_marked(&mut self, row: Row, marks: &mut Marks) {
        let (mut rows, folio) = (Vec::new(), row.first);
        let start = self.offset(&folio);
        for at in (0..row.count).map(|index| index * folio.bytes) {
            for marked in marks.take(folio.process, start + at..start + at + folio.bytes) {
                let address = folio.address + (marked.start - start);
                let bytes = marked.end - marked.start;
                row::push(&mut rows, Folio { address, bytes, ..folio });
            }
        }
        rows.into_iter().for_each(|row| self.put(row));
    }

    /// Where a folio is, in bytes from its extent's start.
    pub(crate) fn offset(&self, folio: &Folio) -> u64 {
        let step = &self.work.plan.moves[folio.step];
        let own = step.mappings.iter().filter(|mapping| mapping.process == folio.process);
        let mut offsets = own.filter_map(|mapping| folio.address.checked_sub(mapping.start));
        offsets.find(|&offset| offset < step.bytes).expect("a folio is found in its extent")
    }
}
