//! Sets of claims, by number: the different claims of the processes that share a page.

use std::collections::BTreeSet;

/// The different claims of the processes that share a page, by their numbers in [`crate::Claims`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimSet(BTreeSet<usize>);

impl ClaimSet {
    /// This set with one more claim.
    pub fn with(&self, number: usize) -> Self {
        let mut more = self.clone();
        more.0.insert(number);
        more
    }

    /// The numbers, each once, in ascending order.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }
}

impl FromIterator<usize> for ClaimSet {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}
