//! The placement on two tiers by use, from the API and to it.

use super::{all_ids, node_set};
use crate::{
    Problem, Violations,
    convert::{
        check::{duration, number},
        names::{self, int, named},
    },
    v1,
    v1::tiers_placement::KeepFast as Keep,
};
use numaloc_core::{
    KeepFast, Tiers,
    tiers::{COLD_AFTER, COLD_AFTER_BOUNDS},
};

pub fn read(field: &str, from: v1::TiersPlacement, bad: &mut Violations) -> Tiers {
    let at = |name: &str| format!("{field}.{name}");
    let bytes = 0..=i64::MAX.unsigned_abs();
    let mut nodes =
        |name: &str, ids: &[i32]| (!ids.is_empty()).then(|| node_set(&at(name), ids, bad));
    let fast = nodes("fast_node_ids", &from.fast_node_ids);
    let slow = nodes("slow_node_ids", &from.slow_node_ids);
    if fast.as_ref().zip(slow.as_ref()).is_some_and(|(fast, slow)| fast.intersects(slow)) {
        let expected = "nodes that are not among fast_node_ids";
        bad.push(at("slow_node_ids"), Problem::Malformed { expected });
    }
    let (min, max) = COLD_AFTER_BOUNDS;
    let keep_fast = match from.keep_fast {
        None => None,
        Some(Keep::KeepFastBytes(kept)) => {
            let kept = number(&at("keep_fast_bytes"), Some(kept), bytes.clone(), bad);
            kept.map(KeepFast::Bytes)
        }
        Some(Keep::KeepFastPercent(percent)) => {
            let percent = Some(i64::from(percent));
            let percent = number(&at("keep_fast_percent"), percent, 0..=100, bad);
            percent.and_then(|percent| u8::try_from(percent).ok()).map(KeepFast::Percent)
        }
    };
    Tiers {
        fast,
        slow,
        cold_after: duration(&at("cold_after"), from.cold_after, min..=max, bad)
            .unwrap_or(COLD_AFTER),
        keep_fast: keep_fast.unwrap_or_default(),
        free_fast_bytes: number(&at("free_fast_bytes"), from.free_fast_bytes, bytes, bad),
        beside_kernel: named(&at("beside_kernel"), from.beside_kernel, bad).unwrap_or_default(),
        watch: named(&at("watch"), from.watch, bad).unwrap_or_default(),
        seen: None,
    }
}

pub fn written(from: &Tiers) -> v1::TiersPlacement {
    v1::TiersPlacement {
        fast_node_ids: all_ids(from.fast.as_ref()),
        slow_node_ids: all_ids(from.slow.as_ref()),
        cold_after: (from.cold_after != COLD_AFTER).then(|| names::duration(from.cold_after)),
        keep_fast: match from.keep_fast {
            KeepFast::Bytes(0) => None,
            KeepFast::Bytes(bytes) => Some(Keep::KeepFastBytes(int(bytes))),
            KeepFast::Percent(percent) => Some(Keep::KeepFastPercent(percent.into())),
        },
        free_fast_bytes: from.free_fast_bytes.map(int),
        beside_kernel: v1::BesideKernel::from(from.beside_kernel).into(),
        watch: v1::UseWatch::from(from.watch).into(),
    }
}
