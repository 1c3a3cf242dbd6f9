//! Scans the host, as the loop of `top` does, and publishes the results. Carries out the changes that were confirmed on
//! the page.

use super::{
    doc::{HostDoc, MigrationDoc, ViewDoc},
    records::Records,
    route::{Change, Refusal},
};
use crate::{
    doc::{DetailDoc, TopDoc},
    engine::{Chosen, ViewFeed},
    exit::Failure,
    output::json_line,
    signals, text,
    top::{MigrationThread, RowKey, Stage},
};
use http::StatusCode;
use numaloc_api::v1;
use numaloc_core::Identity;
use numaloc_http::Bytes;
use std::{
    sync::{
        atomic::Ordering::Relaxed,
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::sync::{oneshot, watch};

/// The longest wait for an order. Between waits the host is looked at.
const TURN: Duration = Duration::from_millis(100);
/// Most plans that are still being made after their clients have left.
const PLANS: usize = 2;
/// Most mappings of a process that are shown.
const MAPPINGS: usize = 200;
/// Time between two views while a migration reports its progress.
const PROGRESS: Duration = Duration::from_millis(500);

/// A change, and where its result goes.
pub type Order = (Change, oneshot::Sender<Result<Done, Refusal>>);

/// What came of a change: the number of the plan that was begun, if it began one.
pub type Done = Option<u64>;
/// A view as JSON, with its number.
pub type Published = (u64, Bytes);

/// The sources of the page.
pub struct Desk {
    pub feed: Box<dyn ViewFeed>,
    /// Carries out migrations.
    pub engine: Chosen,
    pub records: Option<Records>,
    pub about: HostDoc,
    /// A note to show first.
    pub note: Option<String>,
    /// Time between two views.
    pub delay: Duration,
}

struct Work {
    desk: Desk,
    migration: Option<MigrationDoc>,
    mover: Option<(MigrationThread, RowKey)>,
    /// Threads of plans that were given up.
    left: Vec<JoinHandle<()>>,
    /// The process that is opened.
    opened: Option<Identity>,
    serial: u64,
    plans: u64,
}

/// Looks and carries out orders until Ctrl-C.
///
/// # Errors
/// Signals cannot be caught, or a view cannot be written as JSON.
pub fn run(
    desk: Desk,
    orders: &Receiver<Order>,
    views: &watch::Sender<Published>,
) -> Result<(), Failure> {
    let interrupted = signals::interrupted()?;
    let (migration, mover, left, opened) = (None, None, Vec::new(), None);
    let mut work = Work { desk, migration, mover, left, opened, serial: 0, plans: 0 };
    let (mut due, mut at) = (Instant::now(), None::<Instant>);
    let mut is_old = true;
    while !interrupted.load(Relaxed) {
        work.desk.feed.work();
        let now = Instant::now();
        if now >= due {
            work.refresh();
            // The first views come sooner, because they have little in them.
            due = now + if work.serial < 4 { TURN * 3 } else { work.desk.delay };
            is_old = true;
            at = None;
        }
        is_old |= work.hear();
        if is_old && at.is_none_or(|at| at.elapsed() >= PROGRESS) {
            views.send_replace(work.view()?);
            (is_old, at) = (false, Some(Instant::now()));
        }
        match orders.recv_timeout(TURN) {
            Ok((change, result)) => {
                if matches!(change, Change::Watch(_)) {
                    due = Instant::now() + TURN * 3;
                }
                // The caller may have gone.
                let _ = result.send(work.take(change));
                (is_old, at) = (true, None);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    work.end();
    Ok(())
}

impl Work {
    fn refresh(&mut self) {
        self.desk.feed.refresh();
        self.desk.feed.work();
        self.desk.records.iter_mut().for_each(Records::take);
    }

    fn view(&mut self) -> Result<Published, Failure> {
        self.serial += 1;
        let document = self.desk.document(self.serial, self.opened, self.migration.as_ref());
        Ok((self.serial, json_line(&document)?.into()))
    }

    /// Takes the migration's reports. Returns whether there was anything.
    fn hear(&mut self) -> bool {
        let Some((mover, _)) = &self.mover else { return false };
        let stages = mover.stages();
        let is_new = !stages.is_empty();
        if let Some(migration) = &mut self.migration {
            stages.into_iter().for_each(|stage| migration.reach(stage));
        }
        is_new
    }

    fn take(&mut self, change: Change) -> Result<Done, Refusal> {
        let conflict = |message: &str| Err(Refusal::new(StatusCode::CONFLICT, message));
        let is_running = self.migration.as_ref().is_some_and(MigrationDoc::is_running);
        match change {
            Change::Watch(process) => {
                self.opened = process;
                self.desk.feed.watch(process);
            }
            Change::Plan(_) if is_running => {
                return conflict(
                    "a migration of this page is under way: cancel it or wait for its end",
                );
            }
            Change::Plan(_) if self.given_up() >= PLANS => {
                return conflict("plans that were given up are still being made: wait a moment");
            }
            Change::Plan(row) => {
                self.give_up();
                self.plans += 1;
                let (plan, target) = (self.plans, words(&row));
                let mut migration = MigrationDoc { plan, target, ..MigrationDoc::default() };
                migration.reach(Stage::Planning);
                self.migration = Some(migration);
                self.mover = Some((MigrationThread::plan(self.desk.engine.clone(), &row), row));
                return Ok(Some(plan));
            }
            Change::Migrate(plan, profile) => {
                let asked = |doc: &MigrationDoc| doc.plan == plan && doc.stage == "asked";
                let (Some((mover, _)), Some(migration)) =
                    (&self.mover, self.migration.as_mut().filter(|doc| asked(doc)))
                else {
                    return conflict(
                        "there is no such plan that waits for a confirmation: plan again",
                    );
                };
                mover.begin(profile);
                migration.stage = "running";
            }
            Change::CancelMigration if is_running => {
                self.mover.iter().for_each(|(mover, _)| mover.cancel());
                self.migration.iter_mut().for_each(|doc| doc.is_cancelled = true);
            }
            Change::CancelMigration => {
                self.give_up();
                self.migration = None;
            }
            Change::CancelJob(_) => return conflict("jobs are the daemon's"),
        }
        Ok(None)
    }

    /// Leaves the plan that is being made or waits for a confirmation. Its survey cannot be stopped.
    fn give_up(&mut self) {
        let left = self.mover.take().and_then(|(mover, _)| mover.give_up());
        self.left.extend(left);
    }

    /// The number of given-up plans that are still being made.
    fn given_up(&mut self) -> usize {
        self.left.retain(|thread| !thread.is_finished());
        self.left.len()
    }

    fn end(self) {
        self.mover.into_iter().for_each(|(mover, _)| mover.end());
    }
}

impl Desk {
    /// The latest state.
    pub fn document<'a>(
        &'a self,
        serial: u64,
        opened: Option<Identity>,
        migration: Option<&'a MigrationDoc>,
    ) -> ViewDoc<'a> {
        let view = self.feed.view();
        let is_opened = |detail: &DetailDoc| opened.is_some_and(|opened| detail.is_of(opened));
        let detail = view.detail.as_ref().map(DetailDoc::new).filter(is_opened);
        let records = self.records.as_ref();
        let untold = || records?.trouble.clone();
        let listed = records.and_then(|records| records.listed.as_ref());
        let jobs = listed.map(|listed| &listed.jobs[..]);
        let schedules = listed.map(|listed| &listed.schedules[..]);
        let of_jobs = jobs.unwrap_or_default().iter().map(|job| (&job.name, job.spec.as_ref()));
        let of_schedules = schedules.unwrap_or_default().iter();
        let of_schedules = of_schedules.map(|each| (&each.name, each.spec.as_ref()));
        ViewDoc {
            serial,
            host: &self.about,
            top: TopDoc::new(&view, self.feed.source()),
            detail: detail.map(|detail| detail.largest(MAPPINGS)),
            jobs,
            schedules,
            targets: of_jobs.chain(of_schedules).map(target_of).collect(),
            status: listed.map(|listed| &listed.status),
            migration,
            trouble: self.feed.trouble().or_else(untold),
            note: self.note.as_deref(),
        }
    }
}

/// The name of a record, and its target.
fn target_of<'a>((name, spec): (&'a String, Option<&v1::MigrationSpec>)) -> (&'a str, String) {
    (name, text::target(spec.and_then(|spec| spec.target.as_ref())))
}

fn words(row: &RowKey) -> String {
    match row {
        RowKey::Cgroup(path) => path.clone(),
        RowKey::Process(pid, _) => format!("process {pid}"),
    }
}
