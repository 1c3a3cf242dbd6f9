//! The time after which a missing right counts as permanent. Pure.

use crate::cluster::api::Refusal;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// An API server that starts refuses with 403 until it has read its roles. After this time the refusal counts: the agent
/// has lost the right.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time after which such a write is tried again. Writes to other namespaces continue meanwhile.
const AGAIN: Duration = Duration::from_secs(2);
/// Writes that were refused this long ago get their patience again.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// Writes of one kind to one namespace that are refused.
#[derive(Debug)]
struct Refused {
    since: Instant,
    last: Instant,
    /// The API server's reason, if it is believed.
    why: Option<String>,
}

/// Refused writes, and since when, by kind and namespace, such as "events of shop": a queue behind a refusal waits once
/// for each of them. A quota for events leaves statuses alone.
#[derive(Debug, Default)]
pub struct Refusals {
    of_writes: BTreeMap<String, Refused>,
}

impl Refusals {
    /// Whether a refusal is believed.
    pub fn is_final(&mut self, writes: &str, refusal: &Refusal, now: Instant) -> bool {
        let Refusal { code, message: why, is_lasting } = refusal;
        match code {
            // A token that has expired, until the kubelet has written the next one and its file is read again: nothing
            // of it is about what is written.
            401 => return false,
            403 => {}
            _ => return true,
        }
        self.of_writes.retain(|_, refused| now - refused.last < FORGOTTEN);
        let refused = self.of_writes.entry(writes.to_owned());
        let refused = refused.or_insert(Refused { since: now, last: now, why: None });
        refused.last = now;
        let is_final = *is_lasting || now - refused.since >= PATIENCE;
        if is_final {
            refused.why = Some(why.clone());
        }
        is_final
    }

    /// The current refusal: the first kind of writes, the number of other kinds, and the reason.
    pub fn problem(&self) -> Option<String> {
        let mut refused = self
            .of_writes
            .iter()
            .filter_map(|(writes, refused)| Some((writes, refused.why.as_ref()?)));
        let (writes, why) = refused.next()?;
        let others = match refused.count() {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        Some(format!("{writes}{others}: {why}"))
    }

    /// Whether such a write may be tried now: not shortly after it was refused, if that is not believed yet.
    pub fn is_open(&self, writes: &str, now: Instant) -> bool {
        self.of_writes.get(writes).is_none_or(|of| of.why.is_some() || now - of.last >= AGAIN)
    }

    /// When a write that may not be tried now may be; `None`: all may.
    pub fn next_open(&self, now: Instant) -> Option<Instant> {
        let refused = self.of_writes.iter().filter(|(writes, _)| !self.is_open(writes, now));
        refused.map(|(_, refused)| refused.last + AGAIN).min()
    }

    /// Such a write has been taken.
    pub fn taken(&mut self, writes: &str) {
        self.of_writes.remove(writes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16, message: &str) -> Refusal {
        let is_lasting = message.contains("quota") || message == "terminating";
        Refusal { code, message: message.to_owned(), is_lasting }
    }

    #[test]
    fn a_missing_right_counts_after_a_while_and_once_for_each_namespace() {
        let mut refusals = Refusals::default();
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let mut is_final = |writes, code, now| refusals.is_final(writes, &refusal(code, "no"), now);
        assert!(!is_final("events of shop", 403, begin));
        assert!(is_final("events of shop", 422, begin), "no time makes it right");
        assert!(!is_final("events of shop", 403, after(29)));
        assert!(is_final("events of shop", 403, after(30)));
        assert!(is_final("events of shop", 403, after(31)), "nobody waits behind it again");
        assert!(!is_final("events of other", 403, after(31)));
        assert!(!is_final("events of shop", 401, after(31)), "the next token may have the right");
        refusals.taken("events of shop");
        assert!(!refusals.is_final("events of shop", &refusal(403, "no"), after(32)));
        let last = refusals.is_final("events of shop", &refusal(403, "no"), after(700));
        assert!(!last, "the last one is long ago");
    }

    #[test]
    fn a_refusal_that_lasts_counts_at_once_and_another_one_blocks_its_namespace_alone() {
        let mut refusals = Refusals::default();
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert!(refusals.is_final("events of ci", &refusal(403, "terminating"), begin));
        assert!(refusals.is_open("events of ci", begin), "the next one is refused, too");
        assert_eq!(refusals.next_open(begin), None);
        assert!(!refusals.is_final("events of shop", &refusal(403, "no"), begin));
        assert!(
            !refusals.is_open("events of shop", after(1))
                && refusals.is_open("events of bank", begin)
        );
        assert_eq!(refusals.next_open(after(1)), Some(after(2)));
        assert!(refusals.is_open("events of shop", after(2)));
    }

    #[test]
    fn what_is_refused_is_named_until_it_is_taken() {
        let mut refusals = Refusals::default();
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        for writes in ["events of shop", "events of bank"] {
            refusals.is_final(writes, &refusal(403, "no"), begin);
        }
        assert_eq!(refusals.problem(), None, "it may be a moment");
        refusals.is_final("events of shop", &refusal(403, "exceeded quota"), after(1));
        assert_eq!(refusals.problem().as_deref(), Some("events of shop: exceeded quota"));
        refusals.is_final("events of bank", &refusal(403, "terminating"), after(31));
        let both = refusals.problem();
        assert_eq!(both.as_deref(), Some("events of bank (and 1 more): terminating"));
        refusals.taken("events of bank");
        refusals.taken("events of shop");
        assert_eq!(refusals.problem(), None);
    }
}
