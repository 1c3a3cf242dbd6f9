//! The daemon's jobs, schedules and state, polled in a thread of its own, as in `top`.

use crate::{
    exit::Failure,
    remote::{Daemon, Reconnecting},
};
use numaloc_api::{
    v1,
    value::{JobFilter, ScheduleFilter},
};
use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

/// Jobs that are shown: the latest. And schedules: the first.
const MOST: usize = 200;

/// The last answer of the daemon about its records and itself.
pub struct Records {
    answers: Receiver<Result<Listed, String>>,
    pub listed: Option<Listed>,
    /// The reason why a later answer is missing.
    pub trouble: Option<String>,
}

/// What the daemon has, and its state.
pub struct Listed {
    pub jobs: Vec<v1::Job>,
    pub schedules: Vec<v1::Schedule>,
    pub status: v1::GetStatusResponse,
}

impl Records {
    /// Asks each `delay` until this value is dropped.
    pub fn ask(daemon: Reconnecting, delay: Duration) -> Self {
        let (sender, answers) = channel();
        thread::spawn(move || ask(daemon, delay, &sender));
        Self { answers, listed: None, trouble: None }
    }

    /// Takes the answers received meanwhile. Without an answer, the last one is kept.
    pub fn take(&mut self) {
        for answer in self.answers.try_iter() {
            match answer {
                Ok(listed) => (self.listed, self.trouble) = (Some(listed), None),
                Err(why) => self.trouble = Some(why),
            }
        }
    }
}

fn ask(mut daemon: Reconnecting, delay: Duration, sender: &Sender<Result<Listed, String>>) {
    loop {
        let answer = daemon.ask(listed).map_err(|failure| failure.to_string());
        if sender.send(answer).is_err() {
            return;
        }
        thread::sleep(delay);
    }
}

/// The records, without what only their own page shows.
fn listed(daemon: &Daemon) -> Result<Listed, Failure> {
    let mut jobs = daemon.list_jobs(&JobFilter::default(), Some(MOST as u64))?.jobs;
    for job in &mut jobs {
        (job.plan, job.members) = (None, Vec::new());
        if let Some(outcome) = &mut job.outcome {
            outcome.processes.clear();
        }
    }
    let mut schedules = daemon.list_schedules(&ScheduleFilter::default())?.schedules;
    schedules.truncate(MOST);
    schedules.iter_mut().for_each(|schedule| schedule.pinned_processes.clear());
    Ok(Listed { jobs, schedules, status: daemon.status()? })
}
