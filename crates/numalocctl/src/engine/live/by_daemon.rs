//! A daemon's view of its host, polled in a thread of its own: a daemon that does not answer, or that is started again,
//! must not block the view.

use super::ViewFeed;
use crate::{doc::TopSource, exit::Failure, remote::Reconnecting};
use numaloc_api::v1;
use numaloc_core::Identity;
use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

/// Time between two questions: the daemon knows nothing new sooner, and takes no more interest after a while.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(5);
/// Time until the second question: a daemon that begins to scan knows little at the first one.
const SECOND: Duration = Duration::from_millis(400);

/// The host as of the daemon's last answer.
pub struct DaemonFeed {
    answers: Receiver<Result<v1::LiveView, String>>,
    watched: Sender<Option<Identity>>,
    view: v1::LiveView,
    /// Flows of the first answer: a daemon has moved memory before this feed began.
    first: Vec<v1::Flow>,
    /// The reason why a later answer is missing.
    trouble: Option<String>,
}

impl DaemonFeed {
    /// Asks once, and then about each `delay` until this value is dropped.
    ///
    /// # Errors
    /// The daemon cannot be reached, refuses, or does not know the call.
    pub fn ask(mut daemon: Reconnecting, delay: Duration) -> Result<Self, Failure> {
        let view = daemon.ask(|daemon| daemon.live_view(None))?;
        let (sender, answers) = channel();
        let (watched, watch) = channel();
        thread::spawn(move || ask(daemon, delay.clamp(LEAST, MOST), &watch, &sender));
        let mut feed = Self {
            answers,
            watched,
            first: view.flows.clone(),
            view: v1::LiveView::default(),
            trouble: None,
        };
        feed.take(view);
        Ok(feed)
    }

    fn take(&mut self, mut view: v1::LiveView) {
        view.flows = since(view.flows, &mut self.first);
        (self.view, self.trouble) = (view, None);
    }
}

impl ViewFeed for DaemonFeed {
    fn source(&self) -> TopSource {
        TopSource::Daemon
    }

    fn work(&mut self) {}

    fn refresh(&mut self) {
        // Without an answer, the last one is kept.
        let answers: Vec<_> = self.answers.try_iter().collect();
        for answer in answers {
            match answer {
                Ok(view) => self.take(view),
                Err(why) => {
                    // The known state of jobs is out of date.
                    self.view.jobs.clear();
                    self.trouble = Some(why);
                }
            }
        }
    }

    fn watch(&mut self, process: Option<Identity>) {
        // The thread ends only with this value.
        let _ = self.watched.send(process);
    }

    fn view(&self) -> v1::LiveView {
        self.view.clone()
    }

    fn trouble(&self) -> Option<String> {
        let why = self.trouble.as_ref()?;
        Some(format!("the daemon does not answer, and this is what it said last: {why}"))
    }
}

/// The flows beyond the first ones.
fn since(mut flows: Vec<v1::Flow>, first: &mut Vec<v1::Flow>) -> Vec<v1::Flow> {
    let bytes = |flows: &[v1::Flow], of: &v1::Flow| {
        let nodes = |flow: &v1::Flow| (flow.from_node_id, flow.to_node_id);
        let flow = flows.iter().find(|flow| nodes(flow) == nodes(of));
        flow.map_or(0, |flow| flow.bytes)
    };
    // A restarted daemon counts from 0.
    if first.iter().any(|old| bytes(&flows, old) < old.bytes) {
        first.clear();
    }
    flows.iter_mut().for_each(|flow| flow.bytes -= bytes(first, flow));
    flows
}

fn ask(
    mut daemon: Reconnecting,
    delay: Duration,
    watch: &Receiver<Option<Identity>>,
    sender: &Sender<Result<v1::LiveView, String>>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_count_from_the_beginning_of_the_view_or_the_restart_of_the_daemon() {
        let flow = |from_node_id, bytes| v1::Flow { from_node_id, to_node_id: 0, bytes };
        let mut first = vec![flow(1, 100)];
        let shown = since(vec![flow(1, 100), flow(2, 5)], &mut first);
        assert_eq!(shown, [flow(1, 0), flow(2, 5)]);
        assert_eq!(since(vec![flow(1, 130)], &mut first), [flow(1, 30)]);
        assert_eq!(since(vec![flow(1, 7)], &mut first), [flow(1, 7)], "it has started again");
        assert_eq!(since(Vec::new(), &mut vec![flow(1, 7)]), []);
    }
}
