//! The relief of a policy from the API and to it.

use super::{
    bounds::SPAN_MAX,
    check::{duration, number},
    names::{self, index, int},
};
use crate::{Problem, Violations, v1};
use numaloc_core::{NodeId, Options, Placement, Relief, ReliefBound, ids::INDEX_MAX, relief};
use std::time::Duration;

/// Reads the relief at `field`.
pub fn read(field: &str, from: Option<v1::Relief>, bad: &mut Violations) -> Option<Relief> {
    let from = from?;
    let at = |name: &str| format!("{field}.{name}");
    let node = number(&at("node_id"), Some(from.node_id.into()), 0..=INDEX_MAX.into(), bad);
    let most = i64::MAX.unsigned_abs();
    let bound = match from.bandwidth_above_bytes_per_second {
        Some(above) => {
            let above =
                number(&at("bandwidth_above_bytes_per_second"), Some(above), 1..=most, bad)?;
            let until = from.bandwidth_until_bytes_per_second;
            let until = number(&at("bandwidth_until_bytes_per_second"), until, 1..=above, bad);
            if from.free_below_bytes != 0 || from.free_until_bytes.is_some() {
                let other = "bandwidth_above_bytes_per_second";
                bad.push(at("free_below_bytes"), Problem::Excludes { other });
            }
            let until_bytes_per_second = until.unwrap_or(above);
            ReliefBound::Traffic { above_bytes_per_second: above, until_bytes_per_second }
        }
        None => {
            let below = Some(from.free_below_bytes);
            let below_bytes = number(&at("free_below_bytes"), below, 1..=most, bad)?;
            let until = from.free_until_bytes;
            let until = number(&at("free_until_bytes"), until, below_bytes..=most, bad);
            if from.bandwidth_until_bytes_per_second.is_some() {
                bad.push(at("bandwidth_until_bytes_per_second"), Problem::NotEmpty);
            }
            ReliefBound::Free { below_bytes, until_bytes: until.unwrap_or(below_bytes) }
        }
    };
    let span = Duration::ZERO..=SPAN_MAX;
    let return_after = duration(&at("return_after"), from.return_after, span, bad);
    let returning = number(&at("returning_bytes"), from.returning_bytes, 1..=most, bad);
    Some(Relief {
        return_after: return_after.unwrap_or(relief::RETURN_AFTER),
        returning_bytes: returning,
        ..Relief::within(NodeId(u32::try_from(node?).ok()?), bound)
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
        let common = Self {
            node_id: index(relief.node.0),
            return_after: Some(names::duration(relief.return_after)),
            returning_bytes: relief.returning_bytes.map(int),
            ..Self::default()
        };
        match relief.bound {
            ReliefBound::Free { below_bytes, until_bytes } => Self {
                free_below_bytes: int(below_bytes),
                free_until_bytes: Some(int(until_bytes)),
                ..common
            },
            ReliefBound::Traffic { above_bytes_per_second, until_bytes_per_second } => Self {
                bandwidth_above_bytes_per_second: Some(int(above_bytes_per_second)),
                bandwidth_until_bytes_per_second: Some(int(until_bytes_per_second)),
                ..common
            },
        }
    }
}
