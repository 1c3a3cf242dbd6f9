//! The amounts of one resource that clients hold, and their bounds. No IO.

use super::{Bound, Client, Holder, resource::Part};
use std::collections::HashMap;

/// The amounts of one resource that clients hold, by client and cohort.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Amount of root and the daemon's own user.
    host: usize,
    /// Amount of all other clients.
    others: usize,
    by: HashMap<Holder, usize>,
}

/// The bound that refuses, and how much it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub bound: Bound,
    pub limit: usize,
}

impl Ledger {
    /// Whether a client that gives back `before` may have `after` instead. A change that adds nothing is always
    /// allowed.
    pub fn check(
        &self,
        client: &Client,
        before: usize,
        after: usize,
        part: &Part,
    ) -> Result<(), Refused> {
        if after <= before {
            return Ok(());
        }
        let fits = |has: usize, limit| has.saturating_add(after).saturating_sub(before) <= limit;
        for (holder, parts) in client.holders() {
            let limit = part.each.saturating_mul(parts);
            if !fits(self.of(&holder), limit) {
                return Err(Refused { bound: Bound::of(&holder), limit });
            }
        }
        if client.is_host() || fits(self.others, part.all) {
            Ok(())
        } else {
            Err(Refused { bound: Bound::All, limit: part.all })
        }
    }

    pub fn add(&mut self, client: &Client, amount: usize) {
        if amount == 0 {
            return;
        }
        *self.side(client) += amount;
        for (holder, _) in client.holders() {
            *self.by.entry(holder).or_default() += amount;
        }
    }

    pub fn subtract(&mut self, client: &Client, amount: usize) {
        *self.side(client) -= amount;
        for (holder, _) in client.holders() {
            if let Some(has) = self.by.get_mut(&holder) {
                *has -= amount;
                if *has == 0 {
                    self.by.remove(&holder);
                }
            }
        }
    }

    /// Amount of all clients, root included.
    pub fn total(&self) -> usize {
        self.host + self.others
    }

    /// The holder with the largest amount; of a cohort and its only member, the cohort. `None`: no client but root has
    /// any.
    pub fn largest(&self) -> Option<(Holder, usize)> {
        let has = self.by.iter().filter(|(holder, _)| match holder {
            Holder::Client(name) => !super::is_host_name(name),
            Holder::Cohort(_) | Holder::All => true,
        });
        let largest = has.max_by_key(|(holder, has)| (**has, (*holder).clone()));
        largest.map(|(holder, &has)| (holder.clone(), has))
    }

    fn side(&mut self, client: &Client) -> &mut usize {
        if client.is_host() { &mut self.host } else { &mut self.others }
    }

    fn of(&self, holder: &Holder) -> usize {
        self.by.get(holder).copied().unwrap_or_default()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by.len()
    }
}
