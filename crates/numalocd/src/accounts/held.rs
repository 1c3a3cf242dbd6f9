//! A client's share of a resource, held for as long as something lives.

use super::{Accounts, Client, Resource};
use crate::refusal::Refusal;

/// A client's share of a resource. It counts until this is dropped.
#[derive(Debug)]
pub struct HeldShare {
    accounts: Accounts,
    client: Client,
    resource: Resource,
    amount: usize,
}

impl HeldShare {
    pub(super) fn nothing(accounts: Accounts, client: Client, resource: Resource) -> Self {
        Self { accounts, client, resource, amount: 0 }
    }

    /// Charges `more`.
    ///
    /// # Errors
    /// As [`Accounts::take`]. Then nothing has changed.
    pub fn grow(&mut self, more: usize) -> Result<(), Refusal> {
        let part = self.accounts.part(self.resource);
        let mut state = self.accounts.allowing(&self.client, self.resource, [0, more], part)?;
        state.ledgers[self.resource as usize].add(&self.client, more);
        self.amount += more;
        Ok(())
    }

    /// Gives back so much of it.
    pub fn shrink(&mut self, less: usize) {
        let less = less.min(self.amount);
        self.accounts.subtract(&self.client, self.resource, less);
        self.amount -= less;
    }

    /// Charges this amount instead.
    ///
    /// # Errors
    /// As [`Self::grow`].
    pub fn set(&mut self, amount: usize) -> Result<(), Refusal> {
        match amount.checked_sub(self.amount) {
            Some(more) => self.grow(more),
            None => {
                self.shrink(self.amount - amount);
                Ok(())
            }
        }
    }
}

impl Drop for HeldShare {
    fn drop(&mut self) {
        self.shrink(self.amount);
    }
}

/// An open watch. It counts until this is dropped: keep it with the stream.
#[derive(Debug)]
pub struct Watching {
    _watch: HeldShare,
    kept: HeldShare,
}

impl Watching {
    /// Charges the bytes that the watch keeps now.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: its client has too many bytes under way. Then nothing has changed.
    pub fn keep(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.kept.set(bytes)
    }
}

impl Accounts {
    /// Charges a watch to `client`.
    ///
    /// # Errors
    /// As [`Accounts::take`].
    pub fn watch(&self, client: &Client) -> Result<Watching, Refusal> {
        let kept = HeldShare::nothing(self.clone(), client.clone(), Resource::Kept);
        Ok(Watching { _watch: self.take(client, Resource::Watches, 1)?, kept })
    }
}
