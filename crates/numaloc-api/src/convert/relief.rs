//! The relief of a policy from the API and to it.

use super::{
    bounds::SPAN_MAX,
    check::{duration, number},
    names::{self, index, int},
};
use crate::{Problem, Violations, v1};
use numaloc_core::{NodeId, NodeSet, Options, Placement, Relief, ids::INDEX_MAX, relief};
use std::time::Duration;

/// Reads the relief at `field`.
pub fn read(field: &str, from: Option<v1::Relief>, bad: &mut Violations) -> Option<Relief> {
    let from = from?;
    let at = |name: &str| format!("{field}.{name}");
    let node = number(&at("node_id"), Some(from.node_id.into()), 0..=INDEX_MAX.into(), bad);
    let most = i64::MAX.unsigned_abs();
    let below = number(&at("free_below_bytes"), Some(from.free_below_bytes), 1..=most, bad)?;
    let until = number(&at("free_until_bytes"), from.free_until_bytes, below..=most, bad);
    let span = Duration::ZERO..=SPAN_MAX;
    let return_after = duration(&at("return_after"), from.return_after, span, bad);
    let returning = number(&at("returning_bytes"), from.returning_bytes, 1..=most, bad);
    Some(Relief {
        node: NodeId(u32::try_from(node?).ok()?),
        free_below_bytes: below,
        free_until_bytes: until.unwrap_or(below),
        return_after: return_after.unwrap_or(relief::RETURN_AFTER),
        returning_bytes: returning,
        spared: NodeSet::new(),
    })
}

/// Refuses what a policy with a relief must not have. `field` is the policy's.
pub fn check(field: &str, options: &Options, bad: &mut Violations) {
    let Some(relief) = options.relief.as_ref().filter(|_| bad.are_of_request()) else { return };
    let is_placed = options.placement != Placement::Home || !options.maps.is_empty();
    let has_sources = options.from.is_some() && relief.returning_bytes.is_none();
    let excluded = [
        ("a placement on several nodes or maps", is_placed),
        ("from_node_ids", has_sources),
        ("target_ratio_percent", options.target_ratio < 100),
    ];
    for (other, _) in excluded.into_iter().filter(|(_, is_set)| *is_set) {
        bad.push(format!("{field}.relief"), Problem::Excludes { other });
    }
}

impl From<&Relief> for v1::Relief {
    fn from(relief: &Relief) -> Self {
        Self {
            node_id: index(relief.node.0),
            free_below_bytes: int(relief.free_below_bytes),
            free_until_bytes: Some(int(relief.free_until_bytes)),
            return_after: Some(names::duration(relief.return_after)),
            returning_bytes: relief.returning_bytes.map(int),
        }
    }
}
