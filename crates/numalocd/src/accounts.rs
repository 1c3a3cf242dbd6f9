//! One account for each client: each resource that a client can use up is charged to it, by one rule.
//!
//! **The rule** (`ledger`). A client gets one part of each resource. The members of the group of one grant get two
//! parts together, and so do all clients without a role: they may be very many, because who may use a range of user ids
//! (subuid(5)) is a client with each of them. All clients together get as much as [`Part::all`] says. Root and the
//! daemon's own user get two parts beside all others, so no client locks root out. The resources that schedules need
//! for their runs count for their owners, and the bound of all clients together does not refuse them.
//!
//! **What is charged** ([`Resource`]): connections, calls per second, bytes of requests and answers that the daemon
//! keeps, watches, bytes of records, and bytes that changes write. The number of calls that are answered at a time
//! follows the same rule over turns (`access::lines`).
//!
//! **A bound of all clients that refuses is seen** (`refusals`): a line in the log that names the client with the most,
//! a problem in GetStatus for some minutes, and metrics.

mod bound;
mod client;
mod held;
mod ledger;
mod rates;
mod refusals;
mod resource;
#[cfg(test)]
mod tests;

pub use bound::Bound;
pub use client::{Client, Cohort, Holder, is_host, is_host_name};
pub use held::{HeldShare, Watching};
pub use resource::Resource;

use crate::{
    config::{Config, Quota},
    refusal::Refusal,
};
use ledger::{Ledger, Refused};
use parking_lot::{Mutex, MutexGuard};
use rates::{Rate, Rates};
use refusals::Refusals;
use resource::Part;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Keeps each client within its part of each resource, by the configuration in force. Clones share the same accounts.
#[derive(Clone, Debug)]
pub struct Accounts {
    config: watch::Receiver<Arc<Config>>,
    /// Most connections of each kind of socket.
    connections: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    ledgers: [Ledger; Resource::ALL.len()],
    calls: Rates,
    written: Rates,
    refusals: Refusals,
}

/// With the quotas of the default configuration.
impl Default for Accounts {
    fn default() -> Self {
        Self::new(watch::channel(Arc::default()).1)
    }
}

impl Accounts {
    /// With the quotas of `config`. Changes of the configuration take effect at once.
    pub fn new(config: watch::Receiver<Arc<Config>>) -> Self {
        Self { config, connections: resource::CONNECTIONS, state: Arc::default() }
    }

    /// With another number of connections.
    #[cfg(test)]
    pub fn with_connections(connections: usize) -> Self {
        Self { connections, ..Self::default() }
    }

    pub fn quota(&self) -> Quota {
        self.config.borrow().quota
    }

    /// Charges `amount` to `client` until the result is dropped.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: the client, its cohort, or all clients together, have as much as they may.
    pub fn take(
        &self,
        client: &Client,
        resource: Resource,
        amount: usize,
    ) -> Result<HeldShare, Refusal> {
        let mut share = HeldShare::nothing(self.clone(), client.clone(), resource);
        share.grow(amount)?;
        Ok(share)
    }

    /// Whether a client that gives back `before` may have `after` instead.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn check(
        &self,
        client: &Client,
        resource: Resource,
        before: usize,
        after: usize,
    ) -> Result<(), Refusal> {
        self.allowing(client, resource, [before, after], self.part(resource)).map(drop)
    }

    /// As [`Self::check`], but without the bound of all clients together.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: the client or its cohort has as much as it may.
    pub fn check_own(
        &self,
        client: &Client,
        resource: Resource,
        before: usize,
        after: usize,
    ) -> Result<(), Refusal> {
        let part = Part { all: usize::MAX, ..self.part(resource) };
        self.allowing(client, resource, [before, after], part).map(drop)
    }

    /// The accounts, if they allow a client `after` instead of `before`.
    fn allowing(
        &self,
        client: &Client,
        resource: Resource,
        [before, after]: [usize; 2],
        part: Part,
    ) -> Result<MutexGuard<'_, State>, Refusal> {
        let mut state = self.lock();
        match state.ledgers[resource as usize].check(client, before, after, &part) {
            Ok(()) => Ok(state),
            Err(refused) => Err(state.refuse(client, resource, refused)),
        }
    }

    /// Charges `amount` to `client`, which [`Self::check`] has allowed.
    pub fn add(&self, client: &Client, resource: Resource, amount: usize) {
        self.lock().ledgers[resource as usize].add(client, amount);
    }

    /// Takes `amount` off the account of `client` again.
    pub fn subtract(&self, client: &Client, resource: Resource, amount: usize) {
        self.lock().ledgers[resource as usize].subtract(client, amount);
    }

    /// Whether the client may make a call now. A `now` before the previous one adds nothing to what it may.
    ///
    /// # Errors
    /// [`Refusal::TooFast`], with how long to wait before the next call.
    pub fn admit(&self, client: &Client, now: Instant) -> Result<(), Refusal> {
        let rate = self.rate(Resource::Calls);
        let mut state = self.lock();
        let late = state.calls.take(client, rate, now);
        late.map_err(|late| state.too_fast(client, Resource::Calls, late))
    }

    /// Whether the client may write now: what its changes have written of late has been little enough. Root always may.
    ///
    /// # Errors
    /// [`Refusal::TooFast`], with how long to wait before the next change.
    pub fn check_written(&self, client: &Client, now: Instant) -> Result<(), Refusal> {
        let rate = self.rate(Resource::Written);
        let mut state = self.lock();
        let late = state.written.check(client, rate, now);
        late.map_err(|late| state.too_fast(client, Resource::Written, late))
    }

    /// Charges `bytes` that a change of `client` writes. They may be more than it has left: then its next change waits.
    pub fn charge_written(&self, client: &Client, bytes: usize, now: Instant) {
        let rate = self.rate(Resource::Written);
        self.lock().written.charge(client, rate, bytes, now);
    }

    /// Amount that all clients have, root included. 0 for resources counted per time.
    pub fn held(&self, resource: Resource) -> usize {
        self.lock().ledgers[resource as usize].total()
    }

    /// The most that all clients together may have, root not counted.
    pub fn limit(&self, resource: Resource) -> usize {
        self.part(resource).all
    }

    /// Number of refusals by this bound of a resource since the start.
    pub fn refused(&self, resource: Resource, bound: Bound) -> u64 {
        self.lock().refusals.count(resource, bound)
    }

    /// The resources that all clients together have used up in the last minutes, for people: one line for each.
    pub fn problems(&self, now: Instant) -> Vec<String> {
        let state = self.lock();
        let full = Resource::ALL.into_iter().filter(|&of| state.refusals.is_full(of, now));
        full.map(|of| state.used_up(of, self.limit(of))).collect()
    }

    /// The client or cohort that has most of a resource whose bound of all clients has refused in the last minutes.
    pub fn largest(&self, resource: Resource, now: Instant) -> Option<(String, usize)> {
        let state = self.lock();
        let (holder, has) =
            state.refusals.is_full(resource, now).then(|| state.largest(resource))??;
        Some((holder.to_string(), has))
    }

    /// The part of a resource that clients get.
    fn part(&self, resource: Resource) -> Part {
        Part::of(resource, &self.quota(), self.connections)
    }

    fn rate(&self, resource: Resource) -> Rate {
        let per = match resource {
            Resource::Written => Duration::from_secs(60),
            _ => Duration::from_secs(1),
        };
        let Part { each, all } = self.part(resource);
        Rate { each: each as u64, all: all as u64, per }
    }
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    #[cfg(test)]
    fn remembered(&self) -> usize {
        let state = self.lock();
        state.calls.len() + state.ledgers.iter().map(Ledger::len).sum::<usize>()
    }
}

impl State {
    fn refuse(&mut self, client: &Client, resource: Resource, refused: Refused) -> Refusal {
        let Refused { bound, limit } = refused;
        self.note(resource, bound, limit);
        Refusal::Quota { what: resource.words(bound), limit, caller: client.name.clone() }
    }

    fn too_fast(&mut self, client: &Client, resource: Resource, late: rates::Late) -> Refusal {
        let rates::Late { bound, limit, retry_after } = late;
        self.note(resource, bound, usize::try_from(limit).unwrap_or(usize::MAX));
        let what = resource.words(bound);
        Refusal::TooFast { what, limit, caller: client.name.clone(), retry_after }
    }

    fn note(&mut self, resource: Resource, bound: Bound, limit: usize) {
        if self.refusals.note(resource, bound, Instant::now()) {
            tracing::warn!("{}", self.used_up(resource, limit));
        }
    }

    /// A message for people: all clients together have used up a resource.
    fn used_up(&self, resource: Resource, limit: usize) -> String {
        let most =
            self.largest(resource).map(|(holder, has)| format!(", {has} of them by {holder}"));
        format!(
            "all clients together have used up their {limit} {}{}: {}; root, declared schedules and runs of schedules have room beside that",
            resource.words(Bound::Client),
            most.unwrap_or_default(),
            resource.advice(),
        )
    }

    /// The holder with the most of a resource, or with the most use of it of late.
    fn largest(&self, resource: Resource) -> Option<(Holder, usize)> {
        match resource {
            Resource::Written => self.written.largest(),
            _ => self.ledgers[resource as usize].largest(),
        }
    }
}
