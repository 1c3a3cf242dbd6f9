//! The dispatcher's task: handles commands, reports and the passing of time, one after the other.

use super::{
    command::Command,
    commits::COMMIT_BYTES,
    dispatcher::{Dispatcher, ProbeAnswer},
    handle::Handle,
    measured::Measured,
    run::{Run, ShownState},
};
use crate::{order::EngineReport, refusal::Refusal, store::Kept};
use numaloc_api::value::JobId;
use numaloc_engine::FoundTarget;
use std::time::Duration;
use tokio::{
    sync::mpsc,
    task::yield_now,
    time::{Instant, sleep_until},
};

/// Interval between reports of the progress of watched jobs.
const PROGRESS: Duration = Duration::from_millis(100);
/// Interval between reports of each job's progress to clients that watch all jobs.
const PROGRESS_OF_ALL: Duration = Duration::from_secs(1);
/// Interval between attempts to store what could not be stored.
const RETRY: Duration = Duration::from_secs(1);
/// Interval between searches for old records.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// Number of commands that may be queued. When the queue is full, callers wait.
const COMMANDS: usize = 256;

/// The channels from the engine.
#[derive(Debug)]
pub struct Ears {
    /// Reports of the engine on its orders.
    pub reports: mpsc::UnboundedReceiver<EngineReport>,
    /// Findings of the engine for probes.
    pub probed: mpsc::UnboundedReceiver<ProbeAnswer>,
    /// Answers to lookups; `None`: nothing was found.
    pub looked_up: mpsc::UnboundedReceiver<(JobId, Option<FoundTarget>)>,
}

/// Something that the dispatcher does each time `.1` has passed: feeding a watchdog.
pub type Pulse = (Box<dyn FnMut() + Send>, Duration);

/// Makes the dispatcher's task and the handle that talks to it. The task ends after [`Handle::stop`].
pub fn start(
    dispatcher: Dispatcher,
    ears: Ears,
    pulse: Pulse,
) -> (Handle, impl Future<Output = ()> + Send) {
    let (sender, commands) = mpsc::channel(COMMANDS);
    let handle = Handle::new(sender, dispatcher.records.watch_events());
    (handle, dispatcher.serve(commands, ears, pulse))
}

impl Dispatcher {
    async fn serve(
        mut self,
        mut commands: mpsc::Receiver<Command<Self>>,
        mut ears: Ears,
        mut pulse: Pulse,
    ) {
        let mut config = self.edges.config.clone();
        let mut forget = Instant::now();
        let mut retry: Option<Instant> = None;
        let mut pulse_due = Instant::now();
        let mut slice: Option<Instant> = None;
        let mut left = None;
        loop {
            let now = Instant::now();
            if pulse_due <= now {
                (pulse.0)();
                pulse_due = now + pulse.1;
            }
            if slice.is_some_and(|slice| slice <= now) {
                // A job has moved for a whole slice: it may be the turn of others.
                self.changed = true;
            }
            if retry.is_none_or(|retry| retry <= now) {
                retry = self.advance(&mut forget).err().map(|_| now + RETRY);
            }
            if self.has_stopped(now) {
                self.records.under_way().stop();
                return;
            }
            self.make_room();
            slice = self.next_slice(now);
            let next = self.next_tick(now);
            // If something cannot be stored now, the ends of leases and what is to be forgotten wait for the next try,
            // too: they stay due, and this would spin.
            let lease = self.next_lease().filter(|_| retry.is_none());
            let forgets = retry.is_none().then_some(forget);
            let wake = [retry, next, slice, lease, forgets, Some(pulse_due), self.stopping];
            let wake = wake.into_iter().flatten().min().unwrap_or(now + RETRY);
            if wake <= now {
                // There is more to do at once. Calls that were answered are woken on this thread, and only this task's
                // giving way lets them run.
                yield_now().await;
            }
            tokio::select! {
                command = next_command(&mut left, &mut commands) => match command {
                    Some(command) => left = self.on_commands(command, &mut commands),
                    None => self.begin_stop(),
                },
                Some(report) = ears.reports.recv() => self.on_report(report),
                Some(probed) = ears.probed.recv() => self.on_answered(probed),
                Some((job, found)) = ears.looked_up.recv() => self.on_looked_up(&job, found),
                // Without a sender the configuration stays as it is.
                Ok(()) = config.changed() => (self.changed, self.undeclared) = (true, true),
                () = sleep_until(wake) => {}
            }
            self.show_progress();
        }
    }

    /// Does everything that is due now.
    fn advance(&mut self, forget: &mut Instant) -> Result<(), Refusal> {
        let now = Instant::now();
        self.recover()?;
        let declared = self.declare();
        self.catch_up();
        self.give_up(now)?;
        self.tick_schedules(now);
        self.tick_cpusets();
        // Repeated until nothing changes any more. For example, a job that could not start has ended, so another one
        // may start.
        while self.changed {
            self.changed = false;
            let started = self.start_jobs();
            let status = self.status();
            (self.edges.tell)(&status);
            (self.edges.measured)(Measured::OldestQueued(&self.oldest()));
            // Jobs that could not be started are tried again.
            self.changed |= started.is_err();
            started?;
        }
        self.end_leases(now)?;
        // Earlier than planned if jobs of much weight have ended since, or events of much weight were stored.
        let is_much = self.ended_bytes.max(self.event_bytes) > self.config().retention.bytes / 8;
        if *forget <= now || is_much {
            *forget = now + if self.forget()? { RETRY } else { FORGET_EVERY };
        }
        declared?;
        if self.late.is_empty() { Ok(()) } else { Err(self.unsaved()) }
    }

    fn unsaved(&self) -> Refusal {
        Refusal::Unavailable { message: self.records.problem().unwrap_or_default().to_owned() }
    }

    fn next_tick(&self, now: Instant) -> Option<Instant> {
        let due = self.agenda.next_due().filter(|_| self.may_probe());
        let is_shown = |number: &u64| {
            self.records
                .jobs()
                .get(number)
                .is_some_and(|kept| self.records.is_watched(&kept.job.id))
        };
        let progress = self.runs.keys().any(is_shown).then(|| now + PROGRESS);
        let is_told = self.records.jobs().changes().is_watched();
        let is_told = is_told && self.runs.values().any(Run::is_moving);
        let of_all = is_told.then(|| now + PROGRESS_OF_ALL);
        let given_up = self.runs.values().filter_map(Run::given_up).min();
        let cpusets = self.cpusets.as_ref().map(|_| now);
        [due, progress, of_all, given_up, cpusets].into_iter().flatten().min()
    }

    /// Shows watchers of jobs under way how far they are and what holds them back, where that has changed.
    fn show_progress(&mut self) {
        let now = Instant::now();
        let wall = self.wall();
        let are_all_watched = self.records.jobs().changes().is_watched();
        for (number, run) in self.runs.iter_mut().filter(|(_, run)| run.is_moving()) {
            let Some(Kept { job, .. }) = self.records.jobs().get(number) else { continue };
            let is_watched = self.records.is_watched(&job.id);
            if !is_watched && !are_all_watched {
                continue;
            }
            let id = job.id.clone();
            let progress = run.progress_now(wall);
            let (settled_bytes, held_back) = (progress.settled_bytes, progress.held_back.clone());
            let state = ShownState { settled_bytes, held_back };
            if are_all_watched && run.listed.take_news(&state, now, PROGRESS_OF_ALL) {
                self.records.progressed(&id);
            }
            if is_watched && run.shown.take_news(&state, now, PROGRESS) {
                self.records.show_progress(*number, progress);
            }
        }
    }

    fn begin_stop(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(Instant::now() + self.config().stop.grace);
            self.runs.values().for_each(Run::cancel);
            // Jobs that only wait for a place to move end at once.
            self.changed = true;
        }
    }

    /// Whether the dispatcher is to stop, and either no run is left or the time for runs to end is over.
    fn has_stopped(&self, now: Instant) -> bool {
        self.stopping.is_some_and(|until| {
            let late = until <= now;
            if late && !self.runs.is_empty() {
                tracing::warn!(
                    jobs = self.runs.len(),
                    "jobs did not end in time: they count as interrupted"
                );
            }
            late || self.runs.is_empty()
        })
    }

    /// Handles a command and those queued behind it. Questions are answered first, so that none waits for more than one
    /// commit. Changes share one commit, as far as they fit into it; the first that does not is given back, for the
    /// next turn.
    fn on_commands(
        &mut self,
        first: Command<Self>,
        rest: &mut mpsc::Receiver<Command<Self>>,
    ) -> Option<Command<Self>> {
        let (mut changes, mut bytes, mut left) = (Vec::new(), 0, None);
        let mut waiting = std::iter::once(first).chain(std::iter::from_fn(|| rest.try_recv().ok()));
        for command in waiting.by_ref().take(COMMANDS) {
            match command {
                Command::Question(answer) => answer(self),
                Command::Change(change) if bytes > 0 && bytes + change.bytes > COMMIT_BYTES => {
                    left = Some(Command::Change(change));
                    break;
                }
                Command::Change(change) => {
                    bytes += change.bytes;
                    changes.push(change.make);
                }
                Command::Stop => self.begin_stop(),
            }
        }
        self.on_changes(changes);
        left
    }
}

/// The command that is `left` over, or else the next one.
async fn next_command<S>(
    left: &mut Option<Command<S>>,
    commands: &mut mpsc::Receiver<Command<S>>,
) -> Option<Command<S>> {
    match left.take() {
        None => commands.recv().await,
        left => left,
    }
}
