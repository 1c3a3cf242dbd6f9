//! The daemon's jobs and its state, polled in a thread of its own, as in `top`.

use crate::{
    exit::Failure,
    remote::{Daemon, Reconnecting},
};
use numaloc_api::{v1, value::JobFilter};
use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

/// Jobs that are shown: the latest.
const MOST: u64 = 200;

/// The last answer of the daemon about its jobs and itself.
pub struct Records {
    answers: Receiver<Answer>,
    pub jobs: Option<Vec<v1::Job>>,
    pub status: Option<v1::GetStatusResponse>,
    /// The reason why a later answer is missing.
    pub trouble: Option<String>,
}

type Answer = Result<(Vec<v1::Job>, v1::GetStatusResponse), String>;

impl Records {
    /// Asks each `delay` until this value is dropped.
    pub fn ask(daemon: Reconnecting, delay: Duration) -> Self {
        let (sender, answers) = channel();
        thread::spawn(move || ask(daemon, delay, &sender));
        Self { answers, jobs: None, status: None, trouble: None }
    }

    /// Takes the answers received meanwhile. Without an answer, the last one is kept.
    pub fn take(&mut self) {
        for answer in self.answers.try_iter() {
            match answer {
                Ok((jobs, status)) => {
                    (self.jobs, self.status, self.trouble) = (Some(jobs), Some(status), None);
                }
                Err(why) => self.trouble = Some(why),
            }
        }
    }
}

fn ask(mut daemon: Reconnecting, delay: Duration, sender: &Sender<Answer>) {
    loop {
        let answer = daemon.ask(told).map_err(|failure| failure.to_string());
        if sender.send(answer).is_err() {
            return;
        }
        thread::sleep(delay);
    }
}

/// The latest jobs, without what only their own page shows.
pub fn told(daemon: &Daemon) -> Result<(Vec<v1::Job>, v1::GetStatusResponse), Failure> {
    let mut jobs = daemon.list_jobs(&JobFilter::default(), Some(MOST))?.jobs;
    for job in &mut jobs {
        (job.plan, job.members) = (None, Vec::new());
        if let Some(outcome) = &mut job.outcome {
            outcome.processes.clear();
        }
    }
    Ok((jobs, daemon.status()?))
}
