//! A worker: takes windows, finds folios in them, and has them moved.

use crate::{batch::Mover, find::Found, report::Report, retry::Retry, windows::Window, work::Work};
use numaloc_core::Reason;
use numaloc_host::{Roots, Survey};
use std::ops::Range;

/// Moves the pages of the windows that it takes.
#[derive(Debug)]
pub struct Worker<'a> {
    work: &'a Work<'a>,
    survey: &'a Survey,
    mover: Mover<'a>,
}

impl<'a> Worker<'a> {
    /// Opens the files that a worker needs.
    pub fn new(roots: &Roots, work: &'a Work<'a>, survey: &'a Survey) -> Self {
        Self { work, survey, mover: Mover::new(roots, work, survey) }
    }

    /// Takes windows until there are no more or the run must stop. Settles all bytes that it found.
    pub fn run(mut self) -> Report {
        while self.work.stop().is_none()
            && let Some(window) = self.work.next()
        {
            let fill = window.fill;
            self.visit(window);
            self.mover.flush_from(fill);
            self.mover.rests.rest();
        }
        self.mover.flush();
        Retry::new(self.work, self.survey, &mut self.mover).run();
        self.mover.into_report()
    }

    /// Moves the pages of a window that are away from home.
    fn visit(&mut self, Window { move_index, range, .. }: Window) {
        let Found { rows, strangers, error } = self.mover.find(move_index, range, 0);
        if error.is_some() {
            self.mover.ledger.unread(move_index);
        }
        for (process, Range { start, end }) in strangers {
            self.mover.ledger.found(move_index, process, end - start);
            self.mover.ledger.left(process, Reason::Shared, end - start);
        }
        for row in rows {
            self.mover.ledger.found(move_index, row.first.process, row.bytes());
            self.mover.put(row);
        }
    }
}
