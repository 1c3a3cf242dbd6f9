//! The daemon's state of its host, polled in a thread of its own: a daemon that does not answer, or that is started
//! again, must not block the view.

use crate::{
    args::ConnectArgs,
    endpoint::Endpoint,
    exit::Failure,
    remote::{HostView, Reconnecting},
};
use numaloc_core::Identity;
use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, SystemTime},
};

/// Time between two questions: the daemon knows nothing new sooner, and takes no more interest after a while.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(5);
/// Time until the second question: a daemon that begins to scan knows little at the first one.
const SECOND: Duration = Duration::from_millis(400);

/// The host as of the daemon's last answer.
pub struct Views {
    answers: Receiver<Result<HostView, String>>,
    watched: Sender<Option<Identity>>,
    pub view: HostView,
    /// When the answer came, by this program's wall clock.
    pub at: SystemTime,
    /// The reason why a later one is missing.
    pub trouble: Option<String>,
}

impl Views {
    /// Asks once, and then about each `delay` until this value is dropped.
    ///
    /// # Errors
    /// The daemon cannot be reached, refuses, or does not know the call.
    pub fn ask(endpoint: Endpoint, connect: ConnectArgs, delay: Duration) -> Result<Self, Failure> {
        let mut daemon = Reconnecting::new(endpoint, connect);
        let view = daemon.ask(|daemon| daemon.live_view(None))?;
        let (sender, answers) = channel();
        let (watched, watch) = channel();
        thread::spawn(move || ask(daemon, delay.clamp(LEAST, MOST), &watch, &sender));
        Ok(Self { answers, watched, view, at: SystemTime::now(), trouble: None })
    }

    /// Asks for a process closely from now on, or for none.
    pub fn watch(&self, process: Option<Identity>) {
        // The thread ends only with this value.
        let _ = self.watched.send(process);
    }

    /// Takes the answers received meanwhile. Without an answer, the last one is kept.
    pub fn take(&mut self) {
        for answer in self.answers.try_iter() {
            match answer {
                Ok(view) => {
                    (self.view, self.at, self.trouble) = (view, SystemTime::now(), None);
                }
                Err(why) => {
                    // The known state of jobs is out of date.
                    self.view.jobs.end();
                    self.trouble = Some(why);
                }
            }
        }
    }
}

fn ask(
    mut daemon: Reconnecting,
    delay: Duration,
    watch: &Receiver<Option<Identity>>,
    sender: &Sender<Result<HostView, String>>,
) {
    let (mut process, mut pause) = (None, SECOND);
    loop {
        match watch.recv_timeout(pause) {
            Ok(watched) => process = watched,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let answer = daemon.ask(|daemon| daemon.live_view(process));
        if sender.send(answer.map_err(|failure| failure.to_string())).is_err() {
            return;
        }
        // A process that is watched closely since this request comes with a later answer.
        pause = if process.is_some() { LEAST } else { delay };
    }
}
