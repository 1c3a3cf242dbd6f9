//! The annotation `koordinator.sh/memory-locality-status`, and which results have an event.

use crate::{PodResult, time};
use numaloc_config::written::{SHOWN_MAX, shown};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// The key of the annotation.
pub const STATUS_KEY: &str = "koordinator.sh/memory-locality-status";

/// A result has an event when the local share differs from that of the last reported one by more than this many points.
const POINTS: u64 = 10;
/// Longest status that is read, in bytes. Ours have less than 300.
const STATUS_MAX: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStatus {
    /// Progress of the migration of its memory.
    pub phase: Phase,
    /// The last result; `None`: there is none.
    pub last: Option<LastResult>,
}

/// Progress of the migration of a pod's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It was to be done once, and has been done.
    Completed,
    /// It is being done, or will be done again.
    #[default]
    InProgress,
    /// It was done, and is switched off now.
    Closed,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastResult {
    /// When it ended. The annotation has whole seconds.
    pub completed: SystemTime,
    /// The reason of the event that reported this result, by its name. Other agents have others: koordlet of older clusters
    /// has `MemoryLocalitySuccess`.
    pub reason: String,
    /// Local share in percent; -1 if it could not be read.
    pub ratio: i64,
    /// Remote pages of 4 KiB.
    pub remote_pages: u64,
}

/// The reason why the annotation's value is not a valid status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadStatus {
    /// It is not the JSON of a status.
    #[error("annotation {STATUS_KEY}, line {line} column {column}: is not a status")]
    Json {
        /// Line, from 1; 0 if the whole is meant.
        line: usize,
        /// Column in bytes, from 1; 0 if the line as a whole is meant.
        column: usize,
    },
    #[error("annotation {STATUS_KEY} has {bytes} bytes, and no status has more than {STATUS_MAX}")]
    TooLong { bytes: usize },
    /// Its time is not a time of RFC 3339 after 1970.
    #[error(
        "annotation {STATUS_KEY}, lastResult.completedTime: is not a valid time: expected for example 2026-05-28T20:26:40Z"
    )]
    Time,
}

impl LastResult {
    /// The result of a pod at this time.
    pub fn new(result: &PodResult, completed: SystemTime) -> Self {
        let (reason, ratio) = (result.reason().name().to_owned(), result.ratio());
        Self { completed, reason, ratio, remote_pages: result.remote_pages() }
    }

    /// Whether `self` is to have an event, when `told` is the last result that had one. Always if nothing repeats; else
    /// the first time, when the reason changes, and when the ratio has changed by more than 10 points. A ratio that
    /// could not be read is not a change.
    pub fn is_news(&self, told: Option<&Self>, repeats: bool) -> bool {
        let Some(told) = told.filter(|_| repeats) else { return true };
        let is_known = self.ratio >= 0 && told.ratio >= 0;
        told.reason != self.reason || (is_known && self.ratio.abs_diff(told.ratio) > POINTS)
    }
}

impl PodStatus {
    /// The status of a pod whose memory is to be moved, and that has this last result, if any, from an earlier policy
    /// or run.
    pub fn begun(last: Option<LastResult>) -> Self {
        Self { phase: Phase::InProgress, last }
    }

    /// The status after a run.
    pub fn after(result: &PodResult, completed: SystemTime) -> Self {
        let phase = if result.repeats { Phase::InProgress } else { Phase::Completed };
        Self { phase, last: Some(LastResult::new(result, completed)) }
    }

    /// The status of a pod whose policy is switched off; `None` if it had no status, because it then gets none.
    pub fn closed(before: Option<Self>) -> Option<Self> {
        before.map(|before| Self { phase: Phase::Closed, ..before })
    }

    /// The value of the annotation: the contract's JSON.
    pub fn to_json(&self) -> String {
        let last = self.last.as_ref().map(|last| LastDoc {
            completed_time: time::written(last.completed),
            result: last.reason.clone(),
            ratio: last.ratio,
            remote_pages: last.remote_pages,
        });
        // Strings and numbers: nothing in it can fail.
        serde_json::to_string(&StatusDoc { phase: self.phase, last_result: last })
            .unwrap_or_default()
    }

    /// Reads the annotation's value, also one that koordlet wrote. Keys that are not known are ignored.
    ///
    /// # Errors
    /// It is not a valid status. The next run writes a new one.
    pub fn read(text: &str) -> Result<Self, BadStatus> {
        if text.len() > STATUS_MAX {
            return Err(BadStatus::TooLong { bytes: text.len() });
        }
        let json = |error: serde_json::Error| BadStatus::Json {
            line: error.line(),
            column: error.column(),
        };
        let StatusDoc { phase, last_result } = serde_json::from_str(text).map_err(json)?;
        Ok(Self { phase, last: last_result.map(LastDoc::checked).transpose()? })
    }
}

/// The form of the contract.
#[derive(Serialize, Deserialize)]
struct StatusDoc {
    // koordlet leaves out what is empty or 0.
    #[serde(default)]
    phase: Phase,
    #[serde(rename = "lastResult", default, skip_serializing_if = "Option::is_none")]
    last_result: Option<LastDoc>,
}

#[derive(Serialize, Deserialize)]
struct LastDoc {
    #[serde(rename = "completedTime")]
    completed_time: String,
    #[serde(default)]
    result: String,
    #[serde(rename = "completedTimeLocalityRatio", default)]
    ratio: i64,
    // koordlet signs it.
    #[serde(rename = "completedTimeRemotePages", default, deserialize_with = "pages")]
    remote_pages: u64,
}

fn pages<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    i64::deserialize(from).map(|pages| u64::try_from(pages).unwrap_or(0))
}

impl LastDoc {
    fn checked(self) -> Result<LastResult, BadStatus> {
        let completed = time::read(&self.completed_time).ok_or(BadStatus::Time)?;
        let reason = shown(&self.result, SHOWN_MAX);
        let (ratio, remote_pages) = (self.ratio.clamp(-1, 100), self.remote_pages);
        Ok(LastResult { completed, reason, ratio, remote_pages })
    }
}

#[cfg(test)]
mod tests;
