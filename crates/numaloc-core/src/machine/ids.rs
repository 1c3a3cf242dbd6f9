//! Node and CPU numbers as the kernel gives them (hwloc: OS index), and sets of them.
//!
//! Sets are ordered and sparse: a machine with nodes 0, 8 and 252 costs a word and one entry, and no bit mask
//! breaks at 32, 64 or 1024.

use std::{cmp::Ordering, collections::BTreeSet, fmt, iter, marker::PhantomData, str::FromStr};

/// An index that the kernel prints in lists such as `0-3,8`.
pub trait Index: Copy + Ord + fmt::Debug {
    /// Makes an index of the number that the kernel uses (OS index in hwloc).
    fn new(os_index: u32) -> Self;
    /// The number that the kernel uses (OS index in hwloc).
    fn get(self) -> u32;
}

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);
        impl Index for $name {
            fn new(os_index: u32) -> Self {
                Self(os_index)
            }
            fn get(self) -> u32 {
                self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index!(
    /// A NUMA node by its OS index.
    NodeId
);
index!(
    /// A logical CPU by its OS index.
    CpuId
);

/// Nodes by OS index; the nodemask of mbind(2), without its bound.
pub type NodeSet = IdSet<NodeId>;
/// CPUs by OS index; the kernel's cpumask.
pub type CpuSet = IdSet<CpuId>;

/// The largest index that a list may name: far above the kernel's limits (1,024 nodes, 8,192 CPUs), low
/// enough that `0-4294967295` cannot exhaust memory.
pub const INDEX_MAX: u32 = 65_535;

/// An ordered set of kernel indexes. It is read and written as the kernel's lists are.
///
/// ```
/// use numaloc_core::{NodeId, NodeSet};
///
/// let nodes: NodeSet = "0-2,8".parse().unwrap();
/// let with_cpus = [NodeId(0), NodeId(1)].into_iter().collect();
/// assert!(nodes.contains(NodeId(8)));
/// assert_eq!(nodes.minus(&with_cpus).to_string(), "2,8");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdSet<I: Index> {
    /// A bit for each of the first [`LOW`] indexes: the planner makes several sets of nodes for each mapping, which then take no
    /// allocation on nearly all machines.
    low: u64,
    /// The members from [`LOW`] on.
    high: BTreeSet<u32>,
    index: PhantomData<I>,
}

/// Number of indexes with a bit.
const LOW: u32 = u64::BITS;

impl<I: Index> IdSet<I> {
    /// A set without members, which prints as an empty string.
    pub fn new() -> Self {
        Self::of(0, BTreeSet::new())
    }
    fn of(low: u64, high: BTreeSet<u32>) -> Self {
        Self { low, high, index: PhantomData }
    }
    /// Adds an index, which may be a member already.
    pub fn insert(&mut self, id: I) {
        match id.get() {
            low @ ..LOW => self.low |= 1 << low,
            high => drop(self.high.insert(high)),
        }
    }
    /// Whether the index is a member.
    pub fn contains(&self, id: I) -> bool {
        match id.get() {
            low @ ..LOW => self.low & 1 << low != 0,
            high => self.high.contains(&high),
        }
    }
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.low == 0 && self.high.is_empty()
    }
    /// Number of members, offline ones included.
    pub fn len(&self) -> usize {
        self.low.count_ones() as usize + self.high.len()
    }
    /// The members from the lowest index to the highest.
    pub fn iter(&self) -> impl Iterator<Item = I> + '_ {
        let mut rest = self.low;
        let low = iter::from_fn(move || {
            let lowest = (rest != 0).then(|| rest.trailing_zeros());
            rest &= rest.wrapping_sub(1);
            lowest
        });
        low.chain(self.high.iter().copied()).map(I::new)
    }
    /// The intersection: indexes that both sets have.
    pub fn and(&self, other: &Self) -> Self {
        Self::of(self.low & other.low, &self.high & &other.high)
    }
    /// The union: indexes that at least one set has.
    pub fn or(&self, other: &Self) -> Self {
        Self::of(self.low | other.low, &self.high | &other.high)
    }
    /// Members of this set that are not in the other.
    pub fn minus(&self, other: &Self) -> Self {
        Self::of(self.low & !other.low, &self.high - &other.high)
    }
    /// Whether each member is also in the other set.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.low & !other.low == 0 && self.high.is_subset(&other.high)
    }
    /// Whether the sets have a member in common.
    pub fn intersects(&self, other: &Self) -> bool {
        self.low & other.low != 0 || !self.high.is_disjoint(&other.high)
    }
}

impl<I: Index> Default for IdSet<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Index> FromIterator<I> for IdSet<I> {
    fn from_iter<T: IntoIterator<Item = I>>(iter: T) -> Self {
        let mut set = Self::new();
        iter.into_iter().for_each(|id| set.insert(id));
        set
    }
}

impl<I: Index> PartialOrd for IdSet<I> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<I: Index> Ord for IdSet<I> {
    /// Member by member, from the lowest on.
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl<I: Index> fmt::Display for IdSet<I> {
    /// The kernel's list format: `0-3,8`; nothing for the empty set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = self.iter().map(Index::get).peekable();
        let mut separator = "";
        while let Some(first) = ids.next() {
            let mut last = first;
            while let Some(next) = ids.next_if(|&id| id == last + 1) {
                last = next;
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl<I: Index> fmt::Debug for IdSet<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Why a list such as `0-3,8` could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a valid list of numbers from 0 to {INDEX_MAX}: expected for example 0-3,8"
)]
pub struct ListError {
    /// The text that was refused.
    pub text: String,
}

impl<I: Index> FromStr for IdSet<I> {
    type Err = ListError;

    /// Reads the kernel's list format (`lib/bitmap.c`, `bitmap_parselist`, without its group syntax).
    fn from_str(text: &str) -> Result<Self, ListError> {
        let refuse = || ListError { text: text.trim().chars().take(64).collect() };
        let number = |s: &str| {
            let digits = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
            s.parse::<u32>().ok().filter(|&n| digits && n <= INDEX_MAX).ok_or_else(refuse)
        };
        let mut ids = Self::new();
        if text.trim().is_empty() {
            return Ok(ids);
        }
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(refuse());
            }
            (first..=last).for_each(|id| ids.insert(I::new(id)));
        }
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::btree_set, prelude::*};

    fn set(text: &str) -> NodeSet {
        text.parse().unwrap()
    }

    #[test]
    fn lists_are_read_and_printed_as_the_kernel_does() {
        for text in ["", "0", "0-3,8", "1,3,5", "63-65,252,1023"] {
            assert_eq!(set(text).to_string(), text);
        }
        assert_eq!(set("3,2,1\n").to_string(), "1-3");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["x", "-1", "1-", "3-1", "0-4294967295", "1,,2", "+1", "0x1", " ,"] {
            assert!(text.parse::<NodeSet>().is_err(), "{text:?} was taken");
        }
    }

    proptest! {
        /// Behaves as a set of numbers, on both sides of the last bit.
        #[test]
        fn a_set_has_what_was_put_in(one in btree_set(0u32..130, 0..20), other in btree_set(0u32..130, 0..20)) {
            let of = |ids: &BTreeSet<u32>| ids.iter().map(|&id| NodeId(id)).collect::<NodeSet>();
            let ids = |set: NodeSet| set.iter().map(|id| id.0).collect::<BTreeSet<u32>>();
            let (a, b) = (of(&one), of(&other));
            prop_assert_eq!(ids(a.and(&b)), &one & &other);
            prop_assert_eq!(ids(a.or(&b)), &one | &other);
            prop_assert_eq!(ids(a.minus(&b)), &one - &other);
            prop_assert_eq!(a.cmp(&b), one.cmp(&other));
            prop_assert_eq!(a == b, one == other);
            prop_assert_eq!((a.is_subset(&b), a.intersects(&b)), (one.is_subset(&other), !one.is_disjoint(&other)));
            prop_assert_eq!((a.len(), a.is_empty()), (one.len(), one.is_empty()));
            prop_assert!((0..130).all(|id| a.contains(NodeId(id)) == one.contains(&id)));
            prop_assert_eq!(a.iter().map(|id| id.0).collect::<Vec<_>>(), Vec::from_iter(one));
        }
    }

    #[test]
    fn set_algebra() {
        assert_eq!(set("0-3").and(&set("2-9")), set("2-3"));
        assert_eq!(set("0-3").minus(&set("2-9")), set("0-1"));
        assert_eq!(set("0,64").or(&set("1")), set("0-1,64"));
        assert!(set("64").is_subset(&set("0,64")) && !set("1").intersects(&set("0,64")));
    }
}
