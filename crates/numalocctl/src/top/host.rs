//! The source of the view: the daemon, where one is reached, with its state of the host and its jobs; else this program
//! reads the host itself.

use super::{flows::Flows, moving::ThreadReport, state::Stage, views::Views};
use crate::{
    doc::{MovedFlows, Moving, RowJobs, TopDoc, TopSource},
    endpoint::{Address, Endpoint},
    exit::Failure,
    remote::HostView,
};
use numaloc_core::{Identity, live::Snapshot};
use numaloc_host::{Roots, live::Live, read, topology};
use std::{
    collections::VecDeque,
    time::{Duration, Instant, SystemTime},
};

/// Migrations without the daemon that are remembered.
const REMEMBERED: usize = 100;

enum Feed {
    /// This program, since a moment.
    Here(Box<Live>, Instant),
    Daemon(Box<Views>),
}

/// Scan interval and CPU budget.
#[derive(Clone, Copy, Debug)]
pub struct ScanPace {
    /// Time between two scans.
    pub delay: Duration,
    /// In percent of one CPU.
    pub cpu_budget: f64,
}

/// The name of this host.
fn own_name(roots: &Roots) -> String {
    read::host_name(roots).unwrap_or_else(|_| "unknown host".to_owned())
}

/// The host that the view shows, as this program or the daemon sees it.
pub struct Host {
    /// The name of the host that is shown.
    name: String,
    feed: Feed,
    /// The daemon's moved bytes.
    moved: Option<Flows>,
    /// Migrations that this program has carried out itself, the latest last.
    own: VecDeque<Moving>,
    flows: MovedFlows,
}

impl Host {
    /// This program looks from now on, at this pace.
    ///
    /// # Errors
    /// The host cannot be read.
    pub fn here(roots: &Roots, pace: ScanPace, moved: Option<Flows>) -> Result<Self, Failure> {
        // Values that are due with each refresh were last read a little after the one before.
        let (topology, pause) = (topology::topology(roots)?, pace.delay / 2);
        let live = Live::new(roots, topology, pace.cpu_budget, pause, Duration::ZERO)?;
        Ok(Self::fed(own_name(roots), Feed::Here(Box::new(live), Instant::now()), moved))
    }

    /// The daemon at `endpoint` scans.
    pub fn of_daemon(roots: &Roots, endpoint: &Endpoint, views: Views, moved: Flows) -> Self {
        let name = match &endpoint.address {
            Address::Unix(_) | Address::Http => own_name(roots),
            Address::Https => {
                let rest = endpoint.uri.trim_start_matches("https://").trim_end_matches('/');
                rest.rsplit_once(':').map_or(rest, |(host, _)| host).to_owned()
            }
        };
        Self::fed(name, Feed::Daemon(Box::new(views)), Some(moved))
    }

    fn fed(name: String, feed: Feed, moved: Option<Flows>) -> Self {
        Self { name, feed, moved, own: VecDeque::new(), flows: MovedFlows::new() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Continues to look, as far as the budget allows. The daemon does so automatically.
    pub fn work(&mut self) {
        if let Feed::Here(live, begin) = &mut self.feed {
            let begin = *begin;
            live.work(&move || begin.elapsed());
        }
    }

    pub fn refresh(&mut self) {
        match &mut self.feed {
            Feed::Here(live, begin) => {
                let begin = *begin;
                live.refresh(&move || begin.elapsed());
            }
            Feed::Daemon(views) => views.take(),
        }
        if let Some(moved) = &mut self.moved {
            moved.take();
        }
    }

    /// Watches a process closely, or none.
    pub fn watch(&mut self, process: Option<Identity>) {
        match &mut self.feed {
            Feed::Here(live, _) => live.watch(&process.into_iter().collect()),
            Feed::Daemon(views) => views.watch(process),
        }
    }

    /// The latest state.
    pub fn now(&self) -> (TopDoc, Snapshot) {
        let own: Vec<Moving> = self.own.iter().cloned().collect();
        let mut flows = self.flows.clone();
        for (nodes, bytes) in self.moved.iter().flat_map(|daemon| &daemon.moved) {
            *flows.entry(*nodes).or_default() += bytes;
        }
        match &self.feed {
            Feed::Here(live, begin) => {
                let up = begin.elapsed();
                let snapshot = live.snapshot(up);
                let (none, now) = (RowJobs::default(), SystemTime::now());
                (TopDoc::new(&snapshot, &none, &own, &flows, now, up), snapshot)
            }
            Feed::Daemon(views) => {
                let HostView { snapshot, jobs, left_out, up } = &views.view;
                let document = TopDoc::new(snapshot, jobs, &own, &flows, views.at, *up);
                let (source, left_out_count) = (TopSource::Daemon, *left_out);
                (TopDoc { source, left_out_count, ..document }, snapshot.clone())
            }
        }
    }

    /// A migration that this program carries out itself has begun.
    pub fn begins(&mut self, moving: Moving) {
        self.own.push_back(moving);
        if self.own.len() > REMEMBERED {
            self.own.pop_front();
        }
    }

    /// Takes a report of the thread of a migration. Returns its new stage, if it reports one.
    pub fn hear(&mut self, report: ThreadReport) -> Option<Stage> {
        let own = self.own.back_mut().filter(|moving| moving.is_open);
        match (report, own) {
            (ThreadReport::Stage(stage), own) => {
                own.into_iter().for_each(|moving| reach(moving, &stage));
                return Some(stage);
            }
            (ThreadReport::Moved(bytes), Some(moving)) => moving.moved_bytes = bytes,
            (ThreadReport::Moved(_), None) => {}
            (ThreadReport::Flows(flows), _) => {
                for (nodes, bytes) in flows {
                    *self.flows.entry(nodes).or_default() += bytes;
                }
            }
        }
        None
    }

    /// Information that the daemon does not provide, and the reason.
    pub fn trouble(&self) -> Option<String> {
        let Feed::Daemon(views) = &self.feed else { return None };
        let why = views.trouble.as_ref()?;
        Some(format!("the daemon does not answer, and this is what it said last: {why}"))
    }
}

/// Shows in rows how far a migration of this program's own is.
fn reach(moving: &mut Moving, stage: &Stage) {
    match stage {
        Stage::Ended(_) => moving.is_open = false,
        Stage::Running(progress) => {
            let percent = progress.settled_bytes * 100 / progress.planned_bytes.max(1);
            moving.job = format!("here {percent} %");
            let why = &progress.held_back;
            moving.held_back = (!why.is_empty()).then(|| why.clone());
        }
        Stage::Planning | Stage::Asked(_) => {}
    }
}
