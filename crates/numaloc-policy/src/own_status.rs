//! The annotation `numaloc.io/status`: the source that has decided, the result, and the reason why memory stays.

use numaloc_config::written::{ERROR_MAX, SHOWN_MAX, shown};
use serde::{Deserialize, Serialize};

/// The key of the annotation.
pub const OWN_STATUS_KEY: &str = "numaloc.io/status";

/// Most containers in the annotation.
const CONTAINERS_MAX: usize = 16;
/// Most events that it remembers.
const SAID_MAX: usize = 16;
/// Longest text of a problem, in characters.
const PROBLEM_MAX: usize = 400;
/// Most problems that it has.
const PROBLEMS_MAX: usize = 4;
/// Most runs that it remembers.
const RUNS_MAX: usize = 5;
/// Longest message of a run that it remembers, in characters.
const MESSAGE_MAX: usize = 120;
/// Longest status that is read, in bytes.
const STATUS_MAX: usize = 16 << 10;

/// An agent's report about a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnStatus {
    /// Its containers, in its order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerStatus>,
    /// The program that acts for the pod instead of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stands_back: Option<String>,
    /// Events posted about the pod's requests, by the agent's own numbers of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
    /// The messages of these events, the first few of them: the API server keeps events for an hour.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// The ends of its last runs, newest first; runs that end together are one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_runs: Vec<PastRun>,
}

/// The end of a run of a pod's policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PastRun {
    /// When it ended (RFC 3339).
    pub ended: String,
    /// The reason that an event for it has.
    pub result: String,
    /// Bytes that it has moved.
    pub moved_bytes: u64,
    /// Bytes that were remote afterwards; `None`: the memory could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_bytes: Option<u64>,
    /// What numalocd reports about it, such as why memory stays.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// An agent's report about a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Its name within the pod.
    pub name: String,
    /// The source that has decided.
    pub source: String,
    /// The result of the last run, and the reason why memory stays; `None` before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The job of that run; empty before the first.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job: String,
    /// When it ended.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ended: String,
}

impl OwnStatus {
    /// Remembers a run as the newest.
    pub fn remember(&mut self, run: PastRun) {
        self.last_runs.insert(0, run);
        self.last_runs.truncate(RUNS_MAX);
    }

    /// The value of the annotation. It is bounded: texts are cut, and containers beyond the first are left out.
    pub fn to_json(&self) -> String {
        let mut bounded = self.clone();
        bounded.containers.truncate(CONTAINERS_MAX);
        bounded.said.truncate(SAID_MAX);
        bounded.problems.truncate(PROBLEMS_MAX);
        bounded.problems.iter_mut().for_each(|problem| *problem = shown(problem, PROBLEM_MAX));
        bounded.said.iter_mut().for_each(|said| *said = shown(said, SHOWN_MAX));
        bounded.last_runs.truncate(RUNS_MAX);
        for run in &mut bounded.last_runs {
            run.ended = shown(&run.ended, SHOWN_MAX);
            run.result = shown(&run.result, SHOWN_MAX);
            run.message = shown(&run.message, MESSAGE_MAX);
        }
        bounded.stands_back = bounded.stands_back.map(|other| shown(&other, ERROR_MAX));
        for container in &mut bounded.containers {
            container.name = shown(&container.name, SHOWN_MAX);
            container.job = shown(&container.job, SHOWN_MAX);
            container.ended = shown(&container.ended, SHOWN_MAX);
            container.source = shown(&container.source, ERROR_MAX);
            container.result = container.result.as_ref().map(|result| shown(result, ERROR_MAX));
        }
        // Texts alone: nothing in it can fail.
        serde_json::to_string(&bounded).unwrap_or_default()
    }

    /// A run by its job and its end.
    pub fn run(job: &str, ended: &str) -> String {
        format!("{job} {ended}")
    }

    /// The runs of the results; `None` if it does not have all of them.
    pub fn runs(&self) -> Option<Vec<String>> {
        let results = || self.containers.iter().filter(|container| container.result.is_some());
        let is_whole = self.containers.len() < CONTAINERS_MAX && results().next().is_some();
        let runs = results().filter(|container| !container.job.is_empty());
        let runs: Vec<String> =
            runs.map(|container| Self::run(&container.job, &container.ended)).collect();
        (is_whole && runs.len() == results().count()).then_some(runs)
    }

    /// Reads the annotation's value. A value that cannot be parsed counts as empty: the next one replaces it.
    pub fn read(text: &str) -> Self {
        let text = if text.len() > STATUS_MAX { "" } else { text };
        serde_json::from_str(text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_read_again() {
        let run = |moved_bytes| PastRun {
            ended: "2026-05-28T20:26:40Z".to_owned(),
            result: "MemoryLocalityCompleted".to_owned(),
            moved_bytes,
            remote_bytes: Some(u64::MAX),
            message: "z".repeat(10_000),
        };
        let container = |number| ContainerStatus {
            name: format!("c{number}"),
            source: "annotation numaloc.io/policy".to_owned(),
            result: Some("x".repeat(10_000)),
            job: format!("jobs/{number}"),
            ended: "2026-05-28T20:26:40Z".to_owned(),
        };
        let status = OwnStatus {
            containers: (0..1000).map(container).collect(),
            stands_back: None,
            said: vec!["0123456789abcdef".to_owned()],
            problems: vec!["y".repeat(10_000); 1000],
            last_runs: vec![run(0); 1000],
        };
        let json = status.to_json();
        assert!(json.len() < 8 << 10, "{} bytes", json.len());
        let read = OwnStatus::read(&json);
        assert_eq!((read.containers.len(), &read.said), (CONTAINERS_MAX, &status.said));
        assert_eq!((read.problems.len(), read.runs()), (PROBLEMS_MAX, None), "some are left out");
        let mut read = read;
        assert_eq!(read.last_runs.len(), RUNS_MAX);
        (1..=3).for_each(|number| read.remember(run(number)));
        let moved: Vec<u64> = read.last_runs.iter().map(|run| run.moved_bytes).collect();
        assert_eq!(moved, [3, 2, 1, 0, 0]);
        for nonsense in ["", "{", "[]", r#"{"said": 1}"#] {
            assert_eq!(OwnStatus::read(nonsense), OwnStatus::default(), "{nonsense}");
        }
    }
}
