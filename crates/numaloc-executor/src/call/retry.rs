//! Visits windows again in which something could not be moved: after pauses, with a fresh scan.

use crate::{
    call::{
        batch::{Mover, PagesOf},
        deferred::Marks,
        find::Found,
    },
    pages::{
        folio::Folio,
        row::{self, Row},
    },
    work::Work,
};
use numaloc_core::Reason;
use std::{ops::Range, time::Duration};

/// The first pause before pages that could not be moved are tried again; it grows fourfold each time.
const PAUSE: Duration = Duration::from_millis(5);

/// Visits what a mover has set aside.
#[derive(Debug)]
pub struct Retry<'m, 'a> {
    work: &'a Work<'a>,
    mover: &'m mut Mover<'a>,
    /// Number of earlier visits of the windows that are visited now.
    tries: u32,
}

impl<'m, 'a> Retry<'m, 'a> {
    /// Begins after the first visit.
    pub fn new(work: &'a Work<'a>, mover: &'m mut Mover<'a>) -> Self {
        Self { work, mover, tries: 0 }
    }

    /// Visits the deferred pages again, with growing pauses, until none are left.
    pub fn run(mut self) {
        let mut pause = PAUSE;
        while !self.mover.deferred.is_empty() {
            self.mover.rests.pause(pause);
            self.mover.rests.rest();
            pause *= 4;
            self.tries += 1;
            let mut todo = self.mover.deferred.take();
            while let Some(marks) = todo.next() {
                self.revisit(marks);
                self.mover.flush_from(self.work.pacer.most_bytes);
                self.mover.rests.rest();
            }
            self.mover.flush();
        }
    }

    /// Moves the pages of a window that are found remote and are marked. Marked pages that are not found are settled.
    fn revisit(&mut self, mut marks: Marks) {
        let move_index = marks.move_index;
        let mut reason = self.work.stop();
        if reason.is_none() {
            let Found { rows, strangers, is_growing, error } =
                self.mover.find(move_index, marks.range.clone(), self.tries);
            for (account, bytes) in strangers {
                for marked in marks.take(account, bytes) {
                    let of = PagesOf { move_index, account };
                    self.mover.leave_shared(of, marked, self.tries, is_growing);
                }
            }
            rows.into_iter().for_each(|row| self.put_marked(row, &mut marks));
            if is_growing && error.is_none() {
                self.await_mapping(&mut marks);
            }
            reason = error.map(|_| Reason::Unreadable);
        }
        for (account, bytes) in marks.rest() {
            match reason {
                Some(reason) => self.mover.ledger.left(account, reason, bytes),
                None if !self.mover.outlives(move_index, account) => {
                    self.mover.ledger.left(account, Reason::ProcessGone, bytes)
                }
                None => self.mover.ledger.vanished(account, bytes),
            }
        }
    }

    /// Isolates the marked pages again that no process maps at the moment: the next process that comes to the target
    /// may.
    fn await_mapping(&mut self, marks: &mut Marks) {
        for account in marks.accounts() {
            for Range { start, end } in marks.take(account, marks.range.clone()) {
                let of = PagesOf { move_index: marks.move_index, account };
                if self.mover.set_aside(of, start..end, self.tries).is_none() {
                    self.mover.ledger.vanished(account, end - start);
                }
            }
        }
    }

    /// Puts the marked pages of some folios into batches. If only a part of a folio is marked, each marked stretch counts as one
    /// folio: it moves as a whole through any of its pages.
    fn put_marked(&mut self, row: Row, marks: &mut Marks) {
        let (mut rows, folio) = (Vec::new(), row.first);
        let start = folio.offset();
        for at in (0..row.count).map(|index| index * folio.bytes) {
            for marked in marks.take(folio.account, start + at..start + at + folio.bytes) {
                let address = folio.address + (marked.start - start);
                let bytes = marked.end - marked.start;
                row::push(&mut rows, Folio { address, bytes, ..folio });
            }
        }
        self.mover.put(&rows);
    }
}
