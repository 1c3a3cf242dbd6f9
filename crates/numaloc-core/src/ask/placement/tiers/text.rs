//! A request for memory on two tiers as text: keys with values, `slow=2,cold_after=10s`.

use super::{BesideKernel, COLD_AFTER_BOUNDS, KeepFast, Tiers, Watch};
use crate::{amount, ask::placement::BadPlacement, machine::ids::NodeSet};
use std::{fmt, str::FromStr, time::Duration};

/// An example, for messages.
const EXAMPLE: &str =
    "tiers:fast=0,slow=2,cold_after=2m,keep_fast=1G,free_fast=4G,beside_kernel=refuse,watch=damon";

impl FromStr for Tiers {
    type Err = BadPlacement;

    /// Reads what stands behind `tiers:`, keys in any order: `slow=2,cold_after=10s`. Lists of nodes may have commas.
    fn from_str(text: &str) -> Result<Self, BadPlacement> {
        let bad = |why: String| BadPlacement(format!("{why}: expected for example {EXAMPLE}"));
        let mut pairs: Vec<(&str, String)> = Vec::new();
        for part in text.split(',') {
            match (part.split_once('='), pairs.last_mut()) {
                (Some((key, value)), _) => pairs.push((key.trim(), value.trim().to_owned())),
                (None, Some((_, value))) => *value = format!("{value},{}", part.trim()),
                (None, None) => return Err(bad(format!("'{}' has no key", part.escape_debug()))),
            }
        }
        let mut tiers = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        for (key, value) in &pairs {
            if seen.contains(key) {
                return Err(bad(format!("'{}' is there twice", key.escape_debug())));
            }
            seen.push(key);
            let invalid = |why: String| {
                bad(format!("'{}' of {} {why}", value.escape_debug(), key.escape_debug()))
            };
            let nodes = || match value.parse::<NodeSet>() {
                Ok(nodes) if !nodes.is_empty() => Ok(Some(nodes)),
                _ => Err(invalid("is not a list of nodes".into())),
            };
            let amount = |error: amount::AmountError| invalid(format!("is not valid ({error})"));
            match *key {
                "fast" => tiers.fast = nodes()?,
                "slow" => tiers.slow = nodes()?,
                "cold_after" => {
                    tiers.cold_after = amount::duration(value).map_err(amount)?;
                    let (min, max) = COLD_AFTER_BOUNDS;
                    if !(min..=max).contains(&tiers.cold_after) {
                        return Err(invalid(format!("is not from {min:?} to {max:?}")));
                    }
                }
                "keep_fast" => {
                    tiers.keep_fast = match value.strip_suffix('%') {
                        Some(percent) => match percent.trim().parse() {
                            Ok(percent) if percent <= 100 => KeepFast::Percent(percent),
                            _ => return Err(invalid("is not from 0% to 100%".into())),
                        },
                        None => KeepFast::Bytes(amount::size(value).map_err(amount)?),
                    };
                }
                "free_fast" => {
                    tiers.free_fast_bytes = Some(amount::size(value).map_err(amount)?);
                }
                "beside_kernel" => {
                    let known = BesideKernel::ALL.into_iter().find(|each| each.name() == value);
                    tiers.beside_kernel =
                        known.ok_or_else(|| invalid("is not refuse, warn or ignore".into()))?;
                }
                "watch" => {
                    let known = Watch::ALL.into_iter().find(|each| each.name() == value);
                    tiers.watch =
                        known.ok_or_else(|| invalid("is not damon or referenced".into()))?;
                }
                key => return Err(bad(format!("'{}' is not a key", key.escape_debug()))),
            }
        }
        Ok(tiers)
    }
}

impl fmt::Display for Tiers {
    /// What [`FromStr`] reads, without what is as by default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        let time = |time: Duration| match time.as_nanos() {
            ns if ns.is_multiple_of(1_000_000_000) => format!("{}s", time.as_secs()),
            ns => format!("{ns}ns"),
        };
        let keep = |keep: KeepFast| match keep {
            KeepFast::Bytes(bytes) => bytes.to_string(),
            KeepFast::Percent(percent) => format!("{percent}%"),
        };
        let parts = [
            self.fast.as_ref().map(|nodes| format!("fast={nodes}")),
            self.slow.as_ref().map(|nodes| format!("slow={nodes}")),
            (self.cold_after != default.cold_after)
                .then(|| format!("cold_after={}", time(self.cold_after))),
            (self.keep_fast != default.keep_fast)
                .then(|| format!("keep_fast={}", keep(self.keep_fast))),
            self.free_fast_bytes.map(|bytes| format!("free_fast={bytes}")),
            (self.beside_kernel != default.beside_kernel)
                .then(|| format!("beside_kernel={}", self.beside_kernel.name())),
            (self.watch != default.watch).then(|| format!("watch={}", self.watch.name())),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_says_is_read_and_written_alike() {
        for text in [
            "",
            "slow=2",
            "fast=0-1,8,slow=2,4",
            "slow=2,cold_after=10s,keep_fast=1073741824,free_fast=4096,beside_kernel=warn,watch=referenced",
            "keep_fast=25%,beside_kernel=ignore",
            "cold_after=2500000000ns",
        ] {
            let tiers = if text.is_empty() { Ok(Tiers::default()) } else { text.parse::<Tiers>() };
            assert_eq!(tiers.map(|tiers| tiers.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_invalid_is_named() {
        let bad = |text: &str| text.parse::<Tiers>().expect_err(text).to_string();
        for (text, words) in [
            ("2", "'2' has no key"),
            ("slow=", "'' of slow is not a list of nodes"),
            ("slow=2,slow=3", "'slow' is there twice"),
            ("cold_after=1s", "'1s' of cold_after is not from 2s to 3600s"),
            ("cold_after=soon", "'soon' of cold_after is not valid (expected a duration"),
            ("keep_fast=101%", "'101%' of keep_fast is not from 0% to 100%"),
            ("keep_fast=all", "expected a size"),
            ("beside_kernel=no", "is not refuse, warn or ignore"),
            ("watch=pmu", "is not damon or referenced"),
            ("hot=1", "'hot' is not a key"),
        ] {
            assert!(bad(text).contains(words), "{}", bad(text));
            assert!(bad(text).contains("expected for example tiers:fast=0"), "{}", bad(text));
        }
    }
}
