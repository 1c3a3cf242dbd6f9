//! Placements of single mappings: which mappings are meant, and where their pages belong.

pub mod pattern;

use crate::{
    ask::{map_rule::pattern::Pattern, placement::Placement},
    memory::extent::Kind,
};
use std::{fmt, str::FromStr};

/// Where the pages of the mappings belong that a pattern matches.
///
/// ```
/// use numaloc_core::{Kind, MapRule, Placement};
///
/// let rule: MapRule = "memfd:vm0=weighted:0=3,1=1".parse().unwrap();
/// assert_eq!(rule.placement, Placement::Weighted("0=3,1=1".parse().unwrap()));
/// assert!(rule.pattern.matches("/memfd:vm0 (deleted)", Kind::Shmem, 1 << 30));
/// assert!("vm0".parse::<MapRule>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapRule {
    /// The mappings that are meant.
    pub pattern: Pattern,
    /// The placement of their pages.
    pub placement: Placement,
}

/// Why a rule is not valid, as text for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadMapRule(String);

impl MapRule {
    /// Most rules of a request.
    pub const MOST: usize = 64;

    /// The number of the first rule that matches a mapping with this name, kind and length in bytes.
    pub fn first(rules: &[Self], name: &str, kind: Kind, bytes: u64) -> Option<usize> {
        rules.iter().position(|rule| rule.pattern.matches(name, kind, bytes))
    }
}

impl FromStr for MapRule {
    type Err = BadMapRule;

    /// Reads `PATTERN=PLACEMENT`. A name may contain `=`, and weights do: the last `=` that a placement follows divides both.
    fn from_str(text: &str) -> Result<Self, BadMapRule> {
        let names = |placement: &str| {
            let name = placement.split(':').next().unwrap_or_default();
            Placement::NAMES.contains(&name)
        };
        let mut parts = text.rmatch_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..]));
        let known = parts.clone().find(|(_, placement)| names(placement));
        let Some((pattern, placement)) = known.or(parts.next_back()) else {
            return Err(BadMapRule(format!(
                "'{}' has no placement: expected PATTERN=PLACEMENT, for example heap=interleave",
                text.escape_debug()
            )));
        };
        let placement: Placement = placement.parse().map_err(|bad| BadMapRule(format!("{bad}")))?;
        if placement.by_use().is_some() {
            return Err(BadMapRule(
                "tiers is a placement of all memory of a process: use it without a pattern"
                    .to_owned(),
            ));
        }
        let pattern = pattern.parse().map_err(|bad| BadMapRule(format!("{bad}")))?;
        Ok(Self { pattern, placement })
    }
}

impl fmt::Display for MapRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.pattern, self.placement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(text: &str) -> Result<MapRule, String> {
        text.parse().map_err(|bad: BadMapRule| bad.to_string())
    }

    #[test]
    fn the_last_equals_sign_before_a_placement_divides_a_rule() {
        for (text, pattern, placement) in [
            ("heap=home", "heap", "home"),
            ("memfd:cell1=home:1", "memfd:cell1", "home:1"),
            ("/data/a=b.bin=interleave", "/data/a=b.bin", "interleave"),
            ("anon>1G=interleave:0,2", "anon>1G", "interleave:0,2"),
            ("memfd:x=weighted:0=3,1=1", "memfd:x", "weighted:0=3,1=1"),
            ("x=home=interleave", "x=home", "interleave"),
        ] {
            let rule = rule(text).expect(text);
            assert_eq!(
                (&*rule.pattern.to_string(), &*rule.placement.to_string()),
                (pattern, placement)
            );
            assert_eq!(rule.to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_with_a_rule_is_named() {
        for (text, expected) in [
            ("", "expected PATTERN=PLACEMENT"),
            ("heap", "expected PATTERN=PLACEMENT"),
            ("heap=", "'' is not a placement: expected home"),
            ("heap=spread", "'spread' is not a placement: expected home"),
            ("=home", "the pattern is empty"),
            ("anon>=interleave", "'anon>' has no size"),
            ("x=interleave:", "'' is not a list of nodes"),
            ("x=interleave:1", "interleave needs two nodes or more"),
            ("x=weighted", "weighted needs weights"),
            ("x=weighted:0=1", "weights need two nodes"),
            ("x=home:", "'' is not a list of nodes"),
        ] {
            let bad = rule(text).expect_err(text);
            assert!(bad.contains(expected), "{text}: {bad}");
            assert!(!bad.contains('\n'), "{bad}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let rules: Vec<MapRule> = ["anon>1M=interleave", "anon=home", "heap=home"]
            .map(|text| text.parse().unwrap())
            .into();
        let first = |kind, bytes| MapRule::first(&rules, "", kind, bytes);
        assert_eq!(first(Kind::Anonymous, 2 << 20), Some(0));
        assert_eq!(first(Kind::Anonymous, 1 << 20), Some(1));
        assert_eq!(first(Kind::Heap, 1), Some(2));
        assert_eq!(first(Kind::Stack, 1), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_in_one_line(text in "[a-z0-9:=,>*?/. \n-]{0,40}") {
            match rule(&text) {
                Ok(rule) => prop_assert_eq!(rule.to_string().parse::<MapRule>(), Ok(rule)),
                Err(bad) => prop_assert!(!bad.is_empty() && !bad.contains('\n'), "{}", bad),
            }
        }
    }
}
