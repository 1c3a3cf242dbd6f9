//! How long a missing right is no more than a moment. Pure.

use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// An API server that starts refuses with 403 until it has read its roles. After this time the refusal counts: the namespace is being
/// removed, a quota is used up, or the agent has lost the right.
const PATIENCE: Duration = Duration::from_secs(30);
/// A namespace that was refused this long ago gets its patience again.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// Since when writes to which namespaces have been refused. What waits behind a refusal waits once for each namespace.
#[derive(Debug, Default)]
pub struct Refusals {
    since: BTreeMap<String, Instant>,
}

impl Refusals {
    /// Whether a refusal with this code is to be believed.
    pub fn is_final(&mut self, namespace: &str, code: u16, now: Instant) -> bool {
        match code {
            // A token that has expired, until the kubelet has written the next one and its file is read again: nothing of it is about
            // what is written.
            401 => return false,
            403 => {}
            _ => return true,
        }
        self.since.retain(|_, since| now - *since < FORGOTTEN);
        let since = *self.since.entry(namespace.to_owned()).or_insert(now);
        now - since >= PATIENCE
    }

    /// A write has been taken.
    pub fn taken(&mut self, namespace: &str) {
        self.since.remove(namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_counts_after_a_while_and_once_for_each_namespace() {
        let mut refusals = Refusals::default();
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert!(!refusals.is_final("shop", 403, begin));
        assert!(refusals.is_final("shop", 422, begin), "no time makes it right");
        assert!(!refusals.is_final("shop", 403, after(29)));
        assert!(refusals.is_final("shop", 403, after(30)));
        assert!(refusals.is_final("shop", 403, after(31)), "nobody waits behind it again");
        assert!(!refusals.is_final("other", 403, after(31)));
        assert!(!refusals.is_final("shop", 401, after(31)), "the next token may have the right");
        refusals.taken("shop");
        assert!(!refusals.is_final("shop", 403, after(32)));
        assert!(!refusals.is_final("shop", 403, after(700)));
    }
}
