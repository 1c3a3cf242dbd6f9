//! Visits windows again in which something could not be moved: after pauses, with a fresh scan.

use crate::{
    batch::Mover,
    deferred::Marks,
    find::Found,
    folio::Folio,
    row::{self, Row},
    work::Work,
};
use numaloc_core::Reason;
use numaloc_host::Survey;
use std::{ops::Range, time::Duration};

/// The first pause before pages that could not be moved are tried again; it grows fourfold each time.
const PAUSE: Duration = Duration::from_millis(5);

/// Visits what a mover has set aside.
#[derive(Debug)]
pub struct Retry<'m, 'a> {
    work: &'a Work<'a>,
    survey: &'a Survey,
    mover: &'m mut Mover<'a>,
    /// How often the windows that are visited now were visited before.
    tries: u32,
}

impl<'m, 'a> Retry<'m, 'a> {
    /// Begins after the first visit.
    pub fn new(work: &'a Work<'a>, survey: &'a Survey, mover: &'m mut Mover<'a>) -> Self {
        Self { work, survey, mover, tries: 0 }
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
        let mut reason = self.work.stop();
        if reason.is_none() {
            let Found { rows, strangers, error } =
                self.mover.find(marks.move_index, marks.range.clone(), self.tries);
            for (process, bytes) in strangers {
                for Range { start, end } in marks.take(process, bytes) {
                    self.mover.ledger.left(process, Reason::Shared, end - start);
                }
            }
            rows.into_iter().for_each(|row| self.put_marked(row, &mut marks));
            reason = error.map(|_| Reason::Unreadable);
        }
        for (process, bytes) in marks.rest() {
            match reason {
                Some(reason) => self.mover.ledger.left(process, reason, bytes),
                None if !self.survey.spaces[process].is_alive() => {
                    self.mover.ledger.left(process, Reason::ProcessGone, bytes)
                }
                None => self.mover.ledger.vanished(process, bytes),
            }
        }
    }

    /// Puts the marked pages of some folios into batches. If only a part of a folio is marked, each marked stretch counts as one
    /// folio: it moves as a whole through any of its pages.
    fn put_marked(&mut self, row: Row, marks: &mut Marks) {
        let (mut rows, folio) = (Vec::new(), row.first);
        let start = folio.offset(&self.work.plan.moves[folio.move_index]);
        for at in (0..row.count).map(|index| index * folio.bytes) {
            for marked in marks.take(folio.process, start + at..start + at + folio.bytes) {
                let address = folio.address + (marked.start - start);
                let bytes = marked.end - marked.start;
                row::push(&mut rows, Folio { address, bytes, ..folio });
            }
        }
        rows.into_iter().for_each(|row| self.mover.put(row));
    }
}
