//! A worker: takes windows, finds folios in them, and has them moved.

use crate::{
    call::{
        batch::{Mover, PagesOf},
        find::Found,
        retry::Retry,
    },
    room::RoomMakers,
    work::{
        Work,
        report::Report,
        windows::{Window, WindowGroup},
    },
};
use numaloc_host::Survey;

/// Moves the pages of the windows that it takes.
#[derive(Debug)]
pub struct Worker<'a> {
    work: &'a Work<'a>,
    mover: Mover<'a>,
}

impl<'a> Worker<'a> {
    /// Opens the files that a worker needs.
    pub fn new(work: &'a Work<'a>, makers: &'a RoomMakers<'a>, survey: &'a Survey) -> Self {
        Self { work, mover: Mover::new(work, makers, survey) }
    }

    /// Takes windows until none is left, the run must stop, or `continues` says after one that this worker ends.
    /// Settles all bytes that it found.
    pub fn run(mut self, continues: &mut dyn FnMut() -> bool) -> Report {
        while self.work.stop().is_none()
            && let Some(WindowGroup { windows, neighbours }) = self.work.next()
        {
            let fill = windows[0].fill;
            self.mover.read_ahead(neighbours.as_ref());
            windows.into_iter().for_each(|window| self.visit(window));
            // What was read ahead is as old as a call lasts from now on.
            self.mover.read_ahead(None);
            self.mover.flush_from(fill);
            self.mover.rests.rest();
            if !continues() {
                break;
            }
        }
        self.mover.flush();
        Retry::new(self.work, &mut self.mover).run();
        self.mover.into_report()
    }

    /// Moves the remote pages of a window.
    fn visit(&mut self, Window { move_index, range, .. }: Window) {
        let Found { rows, strangers, is_growing, error } = self.mover.find(move_index, range, 0);
        if error.is_some() {
            self.mover.ledger.unread(move_index);
        }
        for (account, bytes) in strangers {
            self.mover.ledger.found(move_index, account, bytes.end - bytes.start);
            self.work.searches.found(move_index, bytes.end - bytes.start);
            self.mover.leave_shared(PagesOf { move_index, account }, bytes, 0, is_growing);
        }
        for row in &rows {
            self.mover.ledger.found(move_index, row.first.account, row.bytes());
            self.work.searches.found(move_index, row.bytes());
        }
        self.mover.put(&rows);
        self.mover.ledger.publish();
    }
}
