//! How much of a target's memory on two tiers is used, and what of it changes tiers.

use crate::{machine::process::Identity, plan::Plan};
use std::ops::Range;

/// Memory on one tier, by its use while it was watched, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UseAmounts {
    /// Bytes that were used.
    pub hot_bytes: u64,
    /// Used seldom, or only a small part of it.
    pub warm_bytes: u64,
    /// Not used.
    pub cold_bytes: u64,
    /// Not looked at in full.
    pub unseen_bytes: u64,
}

impl UseAmounts {
    /// All of it.
    pub fn sum(&self) -> u64 {
        self.hot_bytes + self.warm_bytes + self.cold_bytes + self.unseen_bytes
    }
}

/// The use of a target's memory on two tiers, of pages that may move: those that processes outside the target map are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierUse {
    /// On the fast nodes.
    pub fast: UseAmounts,
    /// On the slow nodes.
    pub slow: UseAmounts,
    /// Cold bytes that stay on the fast nodes, because the request keeps them or has enough free there.
    pub kept_bytes: u64,
    /// Bytes that belong on the other tier and stay, because they have gone up and down a short time ago.
    pub resting_bytes: u64,
}

/// A range of a process's addresses that a plan brings to the other tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierMove {
    /// The process.
    pub identity: Identity,
    /// Its addresses.
    pub range: Range<u64>,
    /// Whether it goes to the fast nodes.
    pub is_up: bool,
}

impl Plan {
    /// What this plan brings to the other tier; nothing, unless memory is placed by use.
    pub fn tier_moves(&self) -> impl Iterator<Item = TierMove> + '_ {
        let slow = self.options.placement.by_use().and_then(|tiers| tiers.slow.clone());
        let moves = self.moves.iter().filter_map(move |planned_move| {
            let targets = &self.routes[planned_move.routes].targets;
            Some((planned_move, targets.and(slow.as_ref()?).is_empty()))
        });
        moves.flat_map(move |(planned_move, is_up)| {
            planned_move.mappings.iter().map(move |mapping| TierMove {
                identity: self.processes[mapping.process].process.identity,
                range: mapping.start..mapping.start + planned_move.bytes,
                is_up,
            })
        })
    }
}
