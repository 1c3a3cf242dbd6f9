//! The daemon's jobs, asked for again and again in a thread of its own: a daemon that does not answer must not hold up the view.

use crate::{
    args::ConnectArgs,
    doc::{MovedFlows, Moving},
    endpoint::Endpoint,
    exit::Failure,
    fields::amount,
    job::{is_end, state},
    remote::{Daemon, Reconnecting},
};
use numaloc_api::{
    v1,
    value::{JobFilter, JobState as TopState},
};
use std::{
    collections::BTreeMap,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, SystemTime},
};

/// Jobs that are asked for at most.
const MOST: u64 = 1000;

/// The jobs and flows of the daemon's last answers.
#[derive(Debug, Default)]
struct JobsAnswer {
    moving: Vec<Moving>,
    flows: MovedFlows,
}

/// What the daemon does, as of its last answer.
pub struct Jobs {
    answers: Receiver<Result<JobsAnswer, String>>,
    /// Its jobs: those that are open, and those that ended since the beginning.
    pub moving: Vec<Moving>,
    /// Bytes that it has moved since the beginning.
    pub flows: MovedFlows,
    /// Why the last answer is missing.
    pub trouble: Option<String>,
}

impl Jobs {
    /// Asks each `delay` until this value is dropped.
    pub fn ask(endpoint: Endpoint, connect: ConnectArgs, delay: Duration) -> Self {
        let (sender, answers) = channel();
        thread::spawn(move || ask(Reconnecting::new(endpoint, connect), delay, &sender));
        Self { answers, moving: Vec::new(), flows: MovedFlows::new(), trouble: None }
    }

    /// Takes what was answered meanwhile.
    pub fn take(&mut self) {
        for answer in self.answers.try_iter() {
            match answer {
                Ok(told) => {
                    (self.moving, self.flows, self.trouble) = (told.moving, told.flows, None);
                }
                // What is known of jobs is not true any more.
                Err(why) => (self.moving, self.trouble) = (Vec::new(), Some(why)),
            }
        }
    }
}

fn ask(mut daemon: Reconnecting, delay: Duration, sender: &Sender<Result<JobsAnswer, String>>) {
    let (begin, mut before) = (SystemTime::now(), None);
    loop {
        let told = daemon.ask(|daemon| told(daemon, begin)).map(|(moving, flows)| {
            // A restarted daemon counts from 0.
            let first = before.get_or_insert_with(|| flows.clone());
            if flows.iter().any(|(nodes, bytes)| first.get(nodes).is_some_and(|old| old > bytes)) {
                first.clear();
            }
            let since = |(nodes, bytes): (&(u32, u32), &u64)| {
                (*nodes, bytes.saturating_sub(first.get(nodes).copied().unwrap_or(0)))
            };
            JobsAnswer { moving, flows: flows.iter().map(since).collect() }
        });
        if sender.send(told.map_err(|failure| failure.to_string())).is_err() {
            return;
        }
        thread::sleep(delay);
    }
}

fn told(daemon: &Daemon, begin: SystemTime) -> Result<(Vec<Moving>, MovedFlows), Failure> {
    let open = [
        TopState::Queued,
        TopState::Planning,
        TopState::Running,
        TopState::Paused,
        TopState::Suspended,
    ];
    let open = JobFilter { states: open.into(), ..JobFilter::default() };
    let recent = JobFilter { created_since: Some(begin), ..JobFilter::default() };
    let mut jobs = BTreeMap::new();
    for filter in [recent, open] {
        for job in daemon.list_jobs(&filter, Some(MOST))?.jobs {
            jobs.insert(job.name.clone(), job);
        }
    }
    // Metrics may be for others; the jobs are what matters.
    let flows = daemon.metrics().map(|text| flows(&text)).unwrap_or_default();
    Ok((jobs.values().map(moving).collect(), flows))
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

fn moving(job: &v1::Job) -> Moving {
    let target = job.spec.as_ref().and_then(|spec| spec.target.clone()).unwrap_or_default();
    let progress = job.progress.as_ref();
    let shown = match (job.state(), progress) {
        (v1::JobState::Running, Some(progress)) => {
            let planned_bytes = amount(progress.planned_bytes).max(1);
            format!("{} %", amount(progress.settled_bytes) * 100 / planned_bytes)
        }
        _ => state(job),
    };
    let why = progress.map(|progress| progress.held_back.clone()).unwrap_or_default();
    let why = if why.is_empty() { job.state_message.clone() } else { why };
    let account = job.outcome.as_ref().and_then(|outcome| outcome.account.as_ref());
    let outcome = account.map(|account| account.moved_bytes);
    let moved_bytes = progress.map(|progress| progress.moved_bytes).max(outcome).unwrap_or(0);
    Moving {
        job: format!("{} {shown}", job.name),
        is_open: !is_end(job.state()),
        pids: target.pids.into_iter().chain(target.processes.iter().map(|each| each.pid)).collect(),
        cgroups: target.cgroups.into_iter().collect(),
        units: target.units.into_iter().collect(),
        moved_bytes: amount(moved_bytes),
        held_back: Some(why).filter(|why| !why.is_empty()),
    }
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
