//! Use of resources per time: token buckets, one for each client and cohort.

use super::{Bound, Client, Holder};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Number of clients that are remembered before idle ones are removed.
const REMEMBERED: usize = 64;

/// Tokens per time. All of them may be used in one burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// Tokens that one client gets.
    pub each: u64,
    /// Tokens of all clients but root together; `u64::MAX`: unbounded.
    pub all: u64,
    /// The time in which they come.
    pub per: Duration,
}

/// A client has to wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    pub bound: Bound,
    pub limit: u64,
    pub retry_after: Duration,
}

/// The buckets of recent clients. An idle client may be forgotten as soon as its bucket is full again.
#[derive(Debug, Default)]
pub(super) struct Rates {
    buckets: HashMap<Holder, Bucket>,
    /// Number of clients left when idle ones were last removed.
    busy: usize,
}

#[derive(Debug)]
struct Bucket {
    /// Units left. A token has one unit for each nanosecond of `per`, so that each nanosecond adds `limit` units. Below
    /// 0: more has been used than was available.
    left: i128,
    updated: Instant,
    limit: u64,
    per: Duration,
}

impl Rates {
    /// Takes one token of each of those whom `client` counts for.
    pub fn take(&mut self, client: &Client, rate: Rate, now: Instant) -> Result<(), Late> {
        for (holder, parts) in client.holders() {
            let bound = Bound::of(&holder);
            let limit = rate.each.saturating_mul(parts as u64);
            let bucket = self.of(holder, limit, rate.per, now);
            if let Some(retry_after) = bucket.take(now) {
                return Err(Late { bound, limit, retry_after });
            }
        }
        Ok(())
    }

    /// Whether `client`, its cohort and all clients have not used more than they had. Always so of root.
    pub fn check(&mut self, client: &Client, rate: Rate, now: Instant) -> Result<(), Late> {
        for (holder, limit) in charged(client, rate) {
            let bound = Bound::of(&holder);
            let bucket = self.of(holder, limit, rate.per, now);
            if let Some(retry_after) = bucket.debt(now) {
                return Err(Late { bound, limit, retry_after });
            }
        }
        Ok(())
    }

    /// Takes `amount` tokens, also if there are fewer.
    pub fn charge(&mut self, client: &Client, rate: Rate, amount: usize, now: Instant) {
        for (holder, limit) in charged(client, rate) {
            let bucket = self.of(holder, limit, rate.per, now);
            bucket.fill(now);
            bucket.left -= units(amount as u64, rate.per);
        }
    }

    /// The holder with the least left in proportion to its limit, and how much it has used.
    pub fn largest(&self) -> Option<(Holder, usize)> {
        let used = |bucket: &Bucket| {
            let used = units(bucket.limit, bucket.per) - bucket.left;
            usize::try_from(used / units(1, bucket.per).max(1)).unwrap_or(0)
        };
        let clients = self.buckets.iter().filter(|(holder, _)| **holder != Holder::All);
        let largest = clients.max_by_key(|(holder, bucket)| {
            let part = used(bucket) as u128 * 1000 / u128::from(bucket.limit.max(1));
            (part, std::cmp::Reverse((*holder).clone()))
        });
        largest.map(|(holder, bucket)| (holder.clone(), used(bucket)))
    }

    /// The bucket of `holder`; a new one is full. Idle holders are forgotten each time their number has doubled, so
    /// that the cost of a call does not depend on their number.
    fn of(&mut self, holder: Holder, limit: u64, per: Duration, now: Instant) -> &mut Bucket {
        if self.buckets.len() >= REMEMBERED.max(2 * self.busy)
            && !self.buckets.contains_key(&holder)
        {
            self.buckets.retain(|_, bucket| bucket.fill(now) < units(bucket.limit, bucket.per));
            self.busy = self.buckets.len();
        }
        let new = || Bucket { left: units(limit, per), updated: now, limit, per };
        let bucket = self.buckets.entry(holder).or_insert_with(new);
        (bucket.limit, bucket.per) = (limit, per);
        bucket
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.buckets.len()
    }
}

/// Whom what `client` writes is charged to, each with what it may use. Root writes without a bound.
fn charged(client: &Client, rate: Rate) -> impl Iterator<Item = (Holder, u64)> {
    let own = client
        .holders()
        .map(move |(holder, parts)| (holder, rate.each.saturating_mul(parts as u64)));
    let is_host = client.is_host();
    own.chain([(Holder::All, rate.all)]).filter(move |_| !is_host)
}

impl Bucket {
    /// Takes one token, or returns how long to wait for it.
    fn take(&mut self, now: Instant) -> Option<Duration> {
        let cost = units(1, self.per);
        let left = self.fill(now);
        if left >= cost {
            self.left = left - cost;
            return None;
        }
        Some(self.time_for(cost - left))
    }

    /// Time until it is not below 0 any more.
    fn debt(&mut self, now: Instant) -> Option<Duration> {
        let left = self.fill(now);
        (left < 0).then(|| self.time_for(-left))
    }

    /// The time in which this number of units comes.
    fn time_for(&self, units: i128) -> Duration {
        let limit = i128::from(self.limit.max(1));
        let nanos = (units + limit - 1) / limit;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Adds the tokens of the time since the last update.
    fn fill(&mut self, now: Instant) -> i128 {
        let passed = now.saturating_duration_since(self.updated).as_nanos();
        let come =
            i128::try_from(passed).unwrap_or(i128::MAX >> 65).saturating_mul(self.limit.into());
        self.left = self.left.saturating_add(come).min(units(self.limit, self.per));
        self.updated = self.updated.max(now);
        self.left
    }
}

/// This number of tokens in units of a bucket.
fn units(tokens: u64, per: Duration) -> i128 {
    i128::from(tokens).saturating_mul(i128::try_from(per.as_nanos()).unwrap_or(i128::MAX >> 65))
}
