//! What clients have of one resource, and how much they may have. No IO.

use super::{Bound, Client, Holder, resource::Part};
use std::collections::HashMap;

/// What clients have of one resource, by client and cohort.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// What all clients but root have.
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
    /// Whether a client that gives back `before` may have `after` instead. What makes nothing larger is always allowed.
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
            let bound = match holder {
                Holder::Cohort(_) => Bound::Cohort,
                Holder::Client(_) | Holder::All => Bound::Client,
            };
            if !fits(self.of(&holder), limit) {
                return Err(Refused { bound, limit });
            }
        }
        match client.is_host() || fits(self.others, part.all) {
            true => Ok(()),
            false => Err(Refused { bound: Bound::All, limit: part.all }),
        }
    }

    pub fn add(&mut self, client: &Client, amount: usize) {
        if amount == 0 {
            return;
        }
        if !client.is_host() {
            self.others += amount;
        }
        for (holder, _) in client.holders() {
            *self.by.entry(holder).or_default() += amount;
        }
    }

    /// Subtracts what was added.
    pub fn subtract(&mut self, client: &Client, amount: usize) {
        if !client.is_host() {
            self.others -= amount;
        }
        for (holder, _) in client.holders() {
            if let Some(has) = self.by.get_mut(&holder) {
                *has -= amount;
                if *has == 0 {
                    self.by.remove(&holder);
                }
            }
        }
    }

    /// What all clients have, root included.
    pub fn total(&self) -> usize {
        let host = |(holder, has): (&Holder, &usize)| match holder {
            Holder::Client(name) if super::is_host_name(name) => *has,
            _ => 0,
        };
        self.others + self.by.iter().map(host).sum::<usize>()
    }

    /// Who has most; of a cohort and its only member, the cohort. `None`: no client but root has any.
    pub fn largest(&self) -> Option<(Holder, usize)> {
        let has = self.by.iter().filter(|(holder, _)| match holder {
            Holder::Client(name) => !super::is_host_name(name),
            Holder::Cohort(_) | Holder::All => true,
        });
        let largest = has.max_by_key(|(holder, has)| (**has, (*holder).clone()));
        largest.map(|(holder, &has)| (holder.clone(), has))
    }

    fn of(&self, holder: &Holder) -> usize {
        self.by.get(holder).copied().unwrap_or_default()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by.len()
    }
}
