//! What shows that this process works: when each kind of the cluster was last read, and when the keeper last continued.

use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// A watch that cannot be begun, or was refused, leaves the agent blind after this time.
const REFUSED: Duration = Duration::from_secs(180);
/// A watch that is open may be silent until it ends ([`crate::cluster::watch`]): that is less than this.
const SILENT: Duration = Duration::from_secs(900);
/// A keeper that has not continued for this long is stuck. Each of its calls of numalocd ends sooner.
const STUCK: Duration = Duration::from_secs(600);

/// The state of this process.
#[derive(Debug, Default)]
pub struct Health {
    watches: Mutex<Vec<(String, Arc<Watch>)>>,
    /// The state of the token.
    pub token: Mutex<Renewal>,
    pub pulse: Arc<numaloc_node::Pulse>,
}

/// Whether this process has the next token in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Renewal {
    /// Another program renews it, for example the kubelet.
    #[default]
    Others,
    Done,
    /// The last attempt has failed, for this reason.
    Failed(String),
    /// The token has ended, and what to do about it.
    Ended(String),
}

/// What is known of the watch of a kind.
#[derive(Debug)]
pub struct Watch(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The last sign of the API server: a list, the head of a watch, a change, or a bookmark.
    seen: Instant,
    /// Why the last attempt has failed; `None`: it has not.
    failure: Option<String>,
}

impl Watch {
    /// A watch that has just been seen.
    pub fn new() -> Self {
        Self(Mutex::new(State { seen: Instant::now(), failure: None }))
    }

    /// The API server has shown something of the kind.
    pub fn seen(&self) {
        *self.0.lock() = State { seen: Instant::now(), failure: None };
    }

    /// An attempt has failed.
    pub fn failed(&self, why: &str) {
        self.0.lock().failure = Some(why.to_owned());
    }
}

impl Health {
    /// The watch of a kind, which has just been seen. The kind is that of its collection's path.
    pub fn watch(&self, path: &str) -> Arc<Watch> {
        let kind = path.rsplit('/').next().unwrap_or_default().to_owned();
        let watch = Arc::new(Watch::new());
        self.watches.lock().push((kind, Arc::clone(&watch)));
        watch
    }

    /// The time since each kind was last seen. A kind is named once for each of its watches.
    pub fn ages(&self, now: Instant) -> Vec<(String, Duration)> {
        let watches = self.watches.lock();
        let age = |watch: &Watch| now.saturating_duration_since(watch.0.lock().seen);
        watches.iter().map(|(kind, watch)| (kind.clone(), age(watch))).collect()
    }

    /// The state of the token has changed, or was looked at again.
    pub fn renewal(&self, state: Renewal) {
        *self.token.lock() = state;
    }

    /// A kind that is not read, and why; `None`: all are.
    pub fn unread(&self, now: Instant) -> Option<String> {
        let unread = self.blind(now)?;
        Some(match &*self.token.lock() {
            Renewal::Ended(what_to_do) => format!("{unread}; {what_to_do}"),
            _ => unread,
        })
    }

    fn blind(&self, now: Instant) -> Option<String> {
        let watches = self.watches.lock();
        watches.iter().find_map(|(kind, watch)| {
            let State { seen, failure } = &*watch.0.lock();
            let age = now.saturating_duration_since(*seen);
            let most = if failure.is_some() { REFUSED } else { SILENT };
            let why = failure.as_deref().unwrap_or("its watch is silent");
            (age > most).then(|| format!("{kind}, for {} s: {why}", age.as_secs()))
        })
    }

    /// For how long the keeper has not continued, if it is stuck.
    pub fn stuck(&self, now: Instant) -> Option<Duration> {
        Some(self.pulse.age(now)).filter(|age| *age > STUCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_counts_sooner_than_one_that_is_silent() {
        let health = Health::default();
        let pods = health.watch("/api/v1/pods");
        let nodes = health.watch("/api/v1/nodes");
        let after = |seconds| Instant::now() + Duration::from_secs(seconds);
        assert_eq!(health.unread(after(900)), None);
        assert_eq!(
            health.unread(after(901)).as_deref(),
            Some("pods, for 901 s: its watch is silent")
        );
        pods.failed("forbidden");
        nodes.seen();
        assert_eq!(health.unread(after(180)), None, "it may be a moment");
        assert_eq!(health.unread(after(181)).as_deref(), Some("pods, for 181 s: forbidden"));
        assert_eq!(health.ages(after(7))[0], ("pods".to_owned(), Duration::from_secs(7)));
        health.renewal(Renewal::Ended("make another token".to_owned()));
        let expected = "pods, for 181 s: forbidden; make another token";
        assert_eq!(health.unread(after(181)).as_deref(), Some(expected));
        pods.seen();
        assert_eq!(health.unread(after(181)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_keeper_that_does_not_continue_is_stuck() {
        let health = Health::default();
        let after = |seconds| Instant::now() + Duration::from_secs(seconds);
        assert_eq!(health.stuck(after(600)), None);
        assert_eq!(health.stuck(after(601)), Some(Duration::from_secs(601)));
        tokio::time::advance(Duration::from_secs(300)).await;
        health.pulse.beat();
        assert_eq!(health.stuck(after(600)), None);
    }
}
