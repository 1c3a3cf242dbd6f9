//! What feeds the view: the host, and the daemon's jobs where there is one.

use super::jobs::Jobs;
use crate::{
    args::TopArgs,
    doc::{MovedFlows, Moving, TopDoc},
    exit::Failure,
};
use numaloc_core::Identity;
use numaloc_host::{
    Roots,
    live::{Live, Snapshot},
    topology,
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant, SystemTime},
};

/// Migrations without the daemon that are remembered.
const REMEMBERED: usize = 100;

/// The host under view.
pub struct Host {
    live: Live,
    begin: Instant,
    jobs: Option<Jobs>,
    /// Migrations that this program has carried out itself, the latest last.
    own: VecDeque<Moving>,
    flows: MovedFlows,
}

impl Host {
    /// Begins to look.
    ///
    /// # Errors
    /// The host cannot be read.
    pub fn new(roots: &Roots, args: &TopArgs, jobs: Option<Jobs>) -> Result<Self, Failure> {
        // What is due with each refresh was last read a little after the one before.
        let (topology, pause) = (topology::topology(roots)?, args.delay / 2);
        let live = Live::new(roots, topology, args.cpu_budget, pause, Duration::ZERO)?;
        let (own, flows) = (VecDeque::new(), MovedFlows::new());
        Ok(Self { live, begin: Instant::now(), jobs, own, flows })
    }

    /// Goes on looking, as far as the budget allows.
    pub fn work(&mut self) {
        let begin = self.begin;
        self.live.work(&move || begin.elapsed());
    }

    /// Begins a new interval.
    pub fn refresh(&mut self) {
        let begin = self.begin;
        self.live.refresh(&move || begin.elapsed());
        if let Some(jobs) = &mut self.jobs {
            jobs.take();
        }
    }

    /// Watches a process closely, or none.
    pub fn watch(&mut self, process: Option<Identity>) {
        self.live.watch(process);
    }

    /// What is known by now.
    pub fn now(&self) -> (TopDoc, Snapshot) {
        let up = self.begin.elapsed();
        let snapshot = self.live.snapshot(up);
        let mut moving: Vec<Moving> = self.own.iter().cloned().collect();
        let mut flows = self.flows.clone();
        if let Some(jobs) = &self.jobs {
            moving.extend(jobs.moving.iter().cloned());
            for (nodes, bytes) in &jobs.flows {
                *flows.entry(*nodes).or_default() += bytes;
            }
        }
        (TopDoc::new(&snapshot, &moving, &flows, SystemTime::now(), up), snapshot)
    }

    /// A migration that this program carries out itself has begun.
    pub fn begins(&mut self, moving: Moving) {
        self.own.push_back(moving);
        if self.own.len() > REMEMBERED {
            self.own.pop_front();
        }
    }

    /// How far that one is.
    pub fn own(&mut self) -> Option<&mut Moving> {
        self.own.back_mut().filter(|moving| moving.is_open)
    }

    /// What was moved by it.
    pub fn moved(&mut self, flows: &MovedFlows) {
        for (nodes, bytes) in flows {
            *self.flows.entry(*nodes).or_default() += bytes;
        }
    }

    /// Why the daemon's jobs are not known.
    pub fn trouble(&self) -> Option<String> {
        self.jobs.as_ref()?.trouble.clone()
    }
}
