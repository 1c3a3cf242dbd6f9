//! Shares of what all callers have together. A caller gets a quarter of it, and the members of a group's grant half of it, so that
//! neither one caller nor one grant uses it up.

use super::peer::is_host_name;
use crate::refusal::Refusal;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What the members of one cohort get together, as a multiple of what one caller gets.
const COHORT: u32 = 2;
/// What all callers get together, as a multiple of what one caller gets.
const OF_ALL: u32 = 4;

/// Callers that one bound is for, besides the bound for each of them. They may be very many: who may use a range of user ids
/// (subuid(5)) is a caller with each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cohort {
    /// Members of the group with this id, which a grant names.
    Group(u32),
    /// All callers that have no role at all.
    WithoutRole,
}

/// Whom a call counts for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// The name of the caller, as in [`super::Caller::name`].
    pub name: String,
    /// `None`: the caller has a grant of its own.
    pub cohort: Option<Cohort>,
}

impl Client {
    /// Whether it is root or the daemon's own user, for which bounds of all callers together do not hold.
    pub(super) fn is_host(&self) -> bool {
        is_host_name(&self.name)
    }

    /// Whom it counts for, each with how much it gets as a multiple of what one caller gets.
    pub(super) fn holders(&self) -> impl Iterator<Item = (ShareHolder, u32)> {
        let cohort = self.cohort.map(|cohort| (ShareHolder::Cohort(cohort), COHORT));
        [(ShareHolder::Caller(self.name.clone()), 1)].into_iter().chain(cohort)
    }
}

/// A caller alone, or a cohort of callers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ShareHolder {
    Caller(String),
    Cohort(Cohort),
}

/// What there is to share, in words: what one caller has of it, the members of a cohort, and all callers.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareNames {
    pub caller: &'static str,
    pub cohort: &'static str,
    pub all: &'static str,
}

/// Counts what callers hold. Clones share the same count.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    words: ShareNames,
    held: Arc<Mutex<Totals>>,
}

#[derive(Debug, Default)]
struct Totals {
    all: usize,
    by: HashMap<ShareHolder, usize>,
}

/// What a caller holds. It counts until this is dropped.
#[derive(Debug)]
pub struct HeldShare {
    shares: Shares,
    client: Client,
    amount: usize,
}

impl Shares {
    pub fn new(words: ShareNames) -> Self {
        Self { words, held: Arc::default() }
    }

    /// Counts `amount` for `client`. `each`: the most of one caller.
    ///
    /// # Errors
    /// [`Refusal::Quota`]: the caller, its cohort, or all callers together, hold as much as they may.
    pub fn take(&self, client: &Client, amount: usize, each: usize) -> Result<HeldShare, Refusal> {
        let mut share = HeldShare { shares: self.clone(), client: client.clone(), amount: 0 };
        share.grow(amount, each)?;
        Ok(share)
    }

    /// How much all callers hold.
    pub fn all(&self) -> usize {
        lock(&self.held).all
    }
}

impl HeldShare {
    /// Counts `more`. `each`: the most of one caller.
    ///
    /// # Errors
    /// As [`Shares::take`]. Then nothing has changed.
    pub fn grow(&mut self, more: usize, each: usize) -> Result<(), Refusal> {
        let ShareNames { caller, cohort, all } = self.shares.words;
        let refused = |what, limit| {
            let caller = self.client.name.clone();
            Err(Refusal::Quota { what, limit, caller })
        };
        let mut held = lock(&self.shares.held);
        for (holder, times) in self.client.holders() {
            let most = each.saturating_mul(times as usize);
            let has = held.by.get(&holder).copied().unwrap_or_default();
            if has.saturating_add(more) > most {
                return refused(if times == 1 { caller } else { cohort }, most);
            }
        }
        let most = each.saturating_mul(OF_ALL as usize);
        if held.all.saturating_add(more) > most && !self.client.is_host() {
            return refused(all, most);
        }
        held.all += more;
        for (holder, _) in self.client.holders() {
            *held.by.entry(holder).or_default() += more;
        }
        self.amount += more;
        Ok(())
    }
}

impl Drop for HeldShare {
    fn drop(&mut self) {
        let mut held = lock(&self.shares.held);
        held.all -= self.amount;
        for (holder, _) in self.client.holders() {
            if let Some(has) = held.by.get_mut(&holder) {
                *has -= self.amount;
                if *has == 0 {
                    held.by.remove(&holder);
                }
            }
        }
    }
}

/// Nothing panics while holding the lock, so the contents of a poisoned lock are consistent.
fn lock(held: &Mutex<Totals>) -> MutexGuard<'_, Totals> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}
