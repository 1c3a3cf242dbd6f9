//! Memory that the daemon has moved between nodes, polled in a thread of its own: a daemon that does not answer must
//! not block the view.

use crate::{args::ConnectArgs, doc::MovedFlows, endpoint::Endpoint, remote::Reconnecting};
use std::{
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

/// The daemon's moved bytes, as of its last answer.
pub struct Flows {
    answers: Receiver<MovedFlows>,
    /// Bytes that it has moved since the beginning.
    pub moved: MovedFlows,
}

impl Flows {
    /// Asks each `delay` until this value is dropped.
    pub fn ask(endpoint: Endpoint, connect: ConnectArgs, delay: Duration) -> Self {
        let (sender, answers) = channel();
        thread::spawn(move || ask(Reconnecting::new(endpoint, connect), delay, &sender));
        Self { answers, moved: MovedFlows::new() }
    }

    /// Takes the answers received meanwhile.
    pub fn take(&mut self) {
        if let Some(moved) = self.answers.try_iter().last() {
            self.moved = moved;
        }
    }
}

fn ask(mut daemon: Reconnecting, delay: Duration, sender: &Sender<MovedFlows>) {
    let mut before: Option<MovedFlows> = None;
    loop {
        // This caller may lack the right to metrics; the view's other calls report why there is no answer.
        let flows = daemon.ask(|daemon| daemon.metrics()).map(|text| flows(&text));
        let flows = flows.unwrap_or_default();
        // A restarted daemon counts from 0.
        let first = before.get_or_insert_with(|| flows.clone());
        if flows.iter().any(|(nodes, bytes)| first.get(nodes).is_some_and(|old| old > bytes)) {
            first.clear();
        }
        let since = |(nodes, bytes): (&(u32, u32), &u64)| {
            (*nodes, bytes.saturating_sub(first.get(nodes).copied().unwrap_or(0)))
        };
        if sender.send(flows.iter().map(since).collect()).is_err() {
            return;
        }
        thread::sleep(delay);
    }
}

/// Reads lines such as `numaloc_moved_bytes_total{from="1",to="0"} 4096` (docs/metrics.md).
fn flows(metrics: &str) -> MovedFlows {
    let flow = |line: &str| {
        let (labels, value) = line.strip_prefix("numaloc_moved_bytes_total{")?.split_once('}')?;
        let node = |name: &str| {
            let mut labels = labels.split(',').filter_map(|label| label.split_once('='));
            let (_, node) = labels.find(|(label, _)| *label == name)?;
            node.trim_matches('"').parse().ok()
        };
        Some(((node("from")?, node("to")?), value.trim().parse().ok()?))
    };
    metrics.lines().filter_map(flow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_read_from_metrics() {
        let text = "# TYPE numaloc_moved_bytes counter
numaloc_moved_bytes_total{from=\"1\",to=\"0\"} 4096
numaloc_moved_bytes_total{to=\"8\",from=\"0\"} 8192
numaloc_moved_bytes_total{from=\"x\",to=\"0\"} 1
numaloc_jobs{state=\"running\"} 1\n";
        assert_eq!(flows(text), [((1, 0), 4096), ((0, 8), 8192)].into());
    }
}
