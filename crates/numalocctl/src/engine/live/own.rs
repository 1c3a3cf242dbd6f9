//! A view of this host by this process.

use super::{OwnWork, ScanPace, ViewFeed};
use crate::{doc::TopSource, exit::Failure};
use numaloc_api::{SnapshotView, moved_of, v1};
use numaloc_core::Identity;
use numaloc_host::{Roots, live::Live, topology};
use std::time::{Duration, Instant, SystemTime};

/// Looks at this host at the pace of a view.
pub struct OwnFeed {
    live: Live,
    begin: Instant,
    closely: Option<Identity>,
    work: OwnWork,
}

impl OwnFeed {
    /// Looks from now on. The view has this work of this process.
    ///
    /// # Errors
    /// The host cannot be read.
    pub fn new(roots: &Roots, pace: ScanPace, work: OwnWork) -> Result<Self, Failure> {
        // Values that are due with each refresh were last read a little after the one before.
        let (topology, pause) = (topology::topology(roots)?, pace.delay / 2);
        let live = Live::new(roots, topology, pace.cpu_budget, pause, Duration::ZERO)?;
        Ok(Self { live, begin: Instant::now(), closely: None, work })
    }
}

impl ViewFeed for OwnFeed {
    fn source(&self) -> TopSource {
        TopSource::Standalone
    }

    fn work(&mut self) {
        let begin = self.begin;
        self.live.work(&move || begin.elapsed());
    }

    fn refresh(&mut self) {
        let begin = self.begin;
        self.live.moved(moved_of(&self.work.now().0));
        self.live.refresh(&move || begin.elapsed());
    }

    fn watch(&mut self, process: Option<Identity>) {
        self.closely = process;
        self.live.watch(&process.into_iter().collect());
    }

    fn view(&self) -> v1::LiveView {
        let (up, time) = (self.begin.elapsed(), SystemTime::now());
        let snapshot = &self.live.snapshot(up);
        let (jobs, flows) = &self.work.now();
        let (detail, is_bounded) = (self.closely.map(|process| (process, true)), false);
        SnapshotView { snapshot, jobs, detail, up, time, flows, is_bounded }.into()
    }

    fn trouble(&self) -> Option<String> {
        None
    }
}
