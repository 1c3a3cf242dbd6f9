//! How much of the memory on two tiers is used.

use crate::units::size;
use numaloc_api::v1;
use std::fmt::Write;

/// Memory on two tiers by its use, and what of it stays where it does not belong.
pub fn by_use(found: Option<v1::TierUse>) -> String {
    let Some(found) = found else { return String::new() };
    let tier = |name: &str, amounts: Option<v1::UseAmounts>| {
        let v1::UseAmounts { hot_bytes, warm_bytes, cold_bytes, unseen_bytes } =
            amounts.unwrap_or_default();
        let parts = [
            (hot_bytes, "used"),
            (warm_bytes, "seldom used"),
            (cold_bytes, "not used"),
            (unseen_bytes, "not watched in full"),
        ];
        let parts = parts.into_iter().filter(|&(bytes, _)| bytes > 0);
        let parts: Vec<String> =
            parts.map(|(bytes, what)| format!("{} {what}", size(bytes))).collect();
        let parts = if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") };
        format!("use: on {name} nodes: {parts}\n")
    };
    let mut text = tier("fast", found.fast) + &tier("slow", found.slow);
    if found.kept_bytes > 0 {
        let _ = writeln!(
            text,
            "use: {} of what is not used stay, as keep_fast or free_fast say",
            size(found.kept_bytes)
        );
    }
    if found.resting_bytes > 0 {
        let _ = writeln!(
            text,
            "use: {} rest, because they have gone up and down a short time ago",
            size(found.resting_bytes)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_and_what_stays_is_named() {
        const MIB: i64 = 1 << 20;
        let fast = v1::UseAmounts {
            hot_bytes: 128 * MIB,
            warm_bytes: MIB,
            cold_bytes: 384 * MIB,
            unseen_bytes: 0,
        };
        let found = v1::TierUse {
            fast: Some(fast),
            slow: None,
            kept_bytes: 64 * MIB,
            resting_bytes: 2 * MIB,
        };
        let expected = "\
use: on fast nodes: 128.0 MiB used, 1.0 MiB seldom used, 384.0 MiB not used
use: on slow nodes: nothing
use: 64.0 MiB of what is not used stay, as keep_fast or free_fast say
use: 2.0 MiB rest, because they have gone up and down a short time ago
";
        assert_eq!(by_use(Some(found)), expected);
        assert_eq!(by_use(None), "");
    }
}
