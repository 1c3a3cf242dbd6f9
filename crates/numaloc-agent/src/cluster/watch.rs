//! Follows the objects of one kind: a list of all as they are now, then each change.
//!
//! A list replaces the known objects in one step, so nothing is missing while it arrives. A version that the server has
//! forgotten (410) is listed again.

use super::{
    api::{Api, ApiError, Form, Lines, Status},
    objects::{List, Meta, Object},
};
use crate::health::Watch;
use serde::Deserialize;
use std::{convert::Infallible, time::Duration};
use tokio::time::{Instant, sleep};

/// Requested duration of a watch, and the random time added to it, so that agents that were started together do not all
/// return together.
const WATCH_SECONDS: u64 = 300;
const WATCH_JITTER_SECONDS: u64 = 300;
/// A watch that has reported its version once repeats it each minute: one that is silent for longer than this is
/// broken. For a kind that has not changed since the server's start it reports no version until it ends
/// (apiserver/pkg/storage/cacher, `dispatchEvents`).
const PATIENCE: Duration = Duration::from_secs(120);
/// Waits between attempts: doubled each time, by chance up to as much again.
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(8);

/// An attempt that took longer has worked for a while: at a server that hangs its list and its watch end after 10 s
/// each.
const LASTING: Duration = Duration::from_secs(30);

/// Selects the objects to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The path of their collection.
    pub path: String,
    /// The field selector that chooses among them; empty: all of them.
    pub fields: String,
    /// In which form they are asked for.
    pub form: Form,
    /// Whether a cluster may lack this kind: it then has none of its objects.
    pub is_optional: bool,
}

impl Selection {
    fn list(&self) -> String {
        // Without a version the list is that of now, of which servers know by now that their caches have it (1.31, KEP-2340). "Any
        // version" (0) may be older than what was seen: what it lacks would be removed, and its runs cancelled.
        let query = format!("{}?{}", self.path, self.selector());
        query.trim_end_matches(['?', '&']).to_owned()
    }

    fn selector(&self) -> String {
        match self.fields.as_str() {
            "" => String::new(),
            fields => format!("fieldSelector={}&", encoded(fields)),
        }
    }

    fn watch(&self, version: &str, time: Duration) -> String {
        let seconds = time.as_secs();
        format!(
            "{}?watch=true&allowWatchBookmarks=true&{}resourceVersion={}&timeoutSeconds={seconds}",
            self.path,
            self.selector(),
            encoded(version)
        )
    }
}

/// Requested duration of a watch.
fn watch_time() -> Duration {
    Duration::from_secs(WATCH_SECONDS + fastrand::u64(..=WATCH_JITTER_SECONDS))
}

/// A text as a value in a URI.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match is_plain(byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

/// Receives the followed objects.
pub trait Sink<T>: Sync {
    /// All existing objects. Known ones that are not among them are gone.
    fn listed(&self, all: Vec<T>);
    /// One is new, or has changed.
    fn applied(&self, one: T);
    fn deleted(&self, one: T);
}

/// Time that a kind that existed has to be missing before it counts as removed: a server that starts may not know it
/// yet.
const REMOVED: Duration = Duration::from_secs(30);

/// Follows objects forever. A failed call is retried after a delay, which grows.
pub async fn follow<T: Object>(
    api: &Api,
    selection: &Selection,
    sink: &impl Sink<T>,
    health: &Watch,
) -> Infallible {
    let mut version = None;
    let mut wait = FIRST;
    let mut said = None;
    // Since when the kind has been missing, and whether it has ever been there.
    let (mut missing, mut was_there) = (None, false);
    loop {
        let begin = Instant::now();
        let done = follow_once(api, selection, sink, health, &mut version).await;
        was_there |= version.is_some();
        match &done {
            Err(error) if selection.is_optional && error.refused() == Some(404) => {
                health.seen();
                version = None;
                let since = *missing.get_or_insert(begin);
                if !was_there || since.elapsed() >= REMOVED {
                    sink.listed(Vec::new());
                    was_there = false;
                    // As often as a watch is begun: this is how a new definition is noticed.
                    sleep(watch_time()).await;
                    continue;
                }
            }
            _ => missing = None,
        }
        if begin.elapsed() > LASTING {
            (wait, said) = (FIRST, None);
        }
        let Err(error) = done else {
            // The server ends each watch at its time; one that it ends at once is not begun again at once.
            if begin.elapsed() < LONGEST {
                sleep(wait).await;
            }
            continue;
        };
        let pause = match error {
            // There is nothing to wait for.
            ApiError::Expired => {
                version = None;
                Duration::ZERO
            }
            ApiError::TooMuch(after) => after,
            ApiError::Refused(_) | ApiError::Lost(_) => Duration::ZERO,
        };
        let why = error.to_string();
        // A kind that is not defined is one that is known.
        if missing.is_none() {
            health.failed(&why);
        }
        if said.as_ref() != Some(&why) {
            tracing::warn!(path = %selection.path, fields = %selection.fields, "{why}. It is tried again");
            said = Some(why);
        }
        sleep(pause + wait.mul_f64(1.0 + fastrand::f64())).await;
        wait = (2 * wait).min(LONGEST);
    }
}

/// A change as the server reports it.
#[derive(Deserialize)]
#[serde(tag = "type", content = "object", rename_all = "UPPERCASE")]
enum Change<T> {
    Added(T),
    Modified(T),
    Deleted(T),
    Bookmark(BookmarkObject),
    Error(Status),
}

#[derive(Deserialize)]
struct BookmarkObject {
    metadata: Meta,
}

/// Lists, if `version` is not known, and watches until the server ends that.
async fn follow_once<T: Object>(
    api: &Api,
    selection: &Selection,
    sink: &impl Sink<T>,
    health: &Watch,
    version: &mut Option<String>,
) -> Result<(), ApiError> {
    let from = match version.clone() {
        Some(from) => from,
        None => {
            let List { metadata, items } = api.list(&selection.list(), selection.form).await?;
            health.seen();
            sink.listed(items);
            version.insert(metadata.resource_version).clone()
        }
    };
    let time = watch_time();
    let mut lines: Lines = api.watch(&selection.watch(&from, time), selection.form).await?;
    let mut patience = time + PATIENCE;
    health.seen();
    while let Some(line) = lines.next(patience).await? {
        let change: Change<T> = match serde_json::from_slice(&line) {
            Ok(change) => change,
            Err(error) => {
                // On any error, list again.
                *version = None;
                return Err(ApiError::Lost(format!("a change cannot be read: {error}")));
            }
        };
        let meta = match &change {
            Change::Added(one) | Change::Modified(one) | Change::Deleted(one) => one.meta(),
            Change::Bookmark(bookmark) => &bookmark.metadata,
            Change::Error(_) => &Meta::default(),
        };
        if !meta.resource_version.is_empty() {
            *version = Some(meta.resource_version.clone());
        }
        if !matches!(change, Change::Error(_)) {
            health.seen();
        }
        match change {
            Change::Added(one) | Change::Modified(one) => sink.applied(one),
            Change::Deleted(one) => sink.deleted(one),
            Change::Bookmark(_) => patience = PATIENCE,
            Change::Error(status) => return Err(status.error()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_encoded() {
        let selection = Selection {
            path: "/api/v1/pods".to_owned(),
            fields: "spec.nodeName=a&b".to_owned(),
            form: Form::Whole,
            is_optional: false,
        };
        assert_eq!(selection.list(), "/api/v1/pods?fieldSelector=spec.nodeName%3Da%26b");
        let all = Selection { fields: String::new(), ..selection.clone() };
        assert_eq!(all.list(), "/api/v1/pods");
        assert!(selection.watch("7", FIRST).contains("&resourceVersion=7&timeoutSeconds="));
    }
}
