//! The operator's defaults and ceilings in a configuration, in TOML or JSON.

use crate::{
    Ceilings, Defaults, Settings,
    fields::{Case, Fields, Problem, bytes, flag, one_of, seconds, whole},
    own,
    tree::Tree,
};
use numaloc_core::Profile;
use serde::de::{Deserialize, Deserializer, Error};
use std::time::Duration;

impl<'de> Deserialize<'de> for Defaults {
    /// Reads a table with the keys `lsr`, `ls` and `be`, each a policy in the form of the annotation `numaloc.io/policy`, and
    /// `ceilings`, with the fields of [`Ceilings`] as keys (`min_interval` is `min_interval_seconds`). What is missing is as in
    /// [`Defaults::default`].
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let tree = Tree::deserialize(from)?;
        defaults(&tree).map_err(|Problem { path, problem, hint }| match hint.as_str() {
            "" => D::Error::custom(format!("{path} {problem}")),
            hint => D::Error::custom(format!("{path} {problem}; {hint}")),
        })
    }
}

fn defaults(tree: &Tree) -> Result<Defaults, Problem> {
    let mut fields = Fields::of("", tree, Case::Exact)?;
    let mut policy = |name| fields.take(name, own::read).map(Option::flatten);
    let [lsr, ls, be]: [Option<Settings>; 3] = [policy("lsr")?, policy("ls")?, policy("be")?];
    let ceilings = fields.take("ceilings", ceilings)?.unwrap_or_default();
    fields.finish()?;
    Ok(Defaults { lsr, ls, be, ceilings })
}

fn ceilings(path: &str, tree: &Tree) -> Result<Ceilings, Problem> {
    let mut fields = Fields::of(path, tree, Case::Exact)?;
    let default = Ceilings::default();
    let profile = one_of(Profile::ALL.map(|profile| (profile.name(), profile)));
    let flag = |fields: &mut Fields<'_>, name, default| {
        fields.take(name, flag).map(|flag| flag.unwrap_or(default))
    };
    let ceilings = Ceilings {
        profile: fields.take("profile", profile)?.unwrap_or(default.profile),
        rate_bytes_per_second: fields.take("rate_bytes_per_second", rate)?,
        min_rate_bytes_per_second: fields
            .take("min_rate_bytes_per_second", rate)?
            .unwrap_or(default.min_rate_bytes_per_second),
        timeout: fields.take("timeout_seconds", timeout)?.unwrap_or(default.timeout),
        containers: fields.take("containers", whole(0..=1000))?.unwrap_or(default.containers),
        qos_label: flag(&mut fields, "qos_label", default.qos_label)?,
        workers: fields.take("workers", whole(1..=256))?.unwrap_or(default.workers),
        min_interval: fields.take("min_interval_seconds", seconds)?.unwrap_or(default.min_interval),
        include_shared: flag(&mut fields, "include_shared", default.include_shared)?,
        include_bound: flag(&mut fields, "include_bound", default.include_bound)?,
        include_gigantic: flag(&mut fields, "include_gigantic", default.include_gigantic)?,
        named_nodes: flag(&mut fields, "named_nodes", default.named_nodes)?,
        reserve_bytes: flag(&mut fields, "reserve_bytes", default.reserve_bytes)?,
        fresh_hugetlb: flag(&mut fields, "fresh_hugetlb", default.fresh_hugetlb)?,
        move_cache: flag(&mut fields, "move_cache", default.move_cache)?,
        exchange: flag(&mut fields, "exchange", default.exchange)?,
        pause_numa_balancing: flag(
            &mut fields,
            "pause_numa_balancing",
            default.pause_numa_balancing,
        )?,
        offload: flag(&mut fields, "offload", default.offload)?,
    };
    fields.finish()?;
    Ok(ceilings)
}

/// A rate that the daemon takes: at least a page a second.
fn rate(path: &str, tree: &Tree) -> Result<u64, Problem> {
    let rate = bytes(path, tree)?;
    let problem = || Problem::new(path, format!("is {rate}, less than a page of 4096 bytes"), "");
    (rate >= numaloc_core::PAGE).then_some(rate).ok_or_else(problem)
}

/// A time for a run: some.
fn timeout(path: &str, tree: &Tree) -> Result<Duration, Problem> {
    let timeout = seconds(path, tree)?;
    (!timeout.is_zero())
        .then_some(timeout)
        .ok_or_else(|| Problem::new(path, "is 0, and a run needs some time".to_owned(), ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_configuration_has_defaults_and_ceilings() {
        let text = r#"
            [lsr]
            policy = "bestEffort"
            interval = "10m"
            [be]
            policy = "none"
            [ceilings]
            profile = "gentle"
            rate_bytes_per_second = 104857600
            min_interval_seconds = 300
            include_shared = true
        "#;
        let defaults: Defaults = toml::from_str(text).expect("a configuration");
        let lsr = Settings { interval: Duration::from_secs(600), ..Settings::default() };
        let ceilings = Ceilings {
            profile: Profile::Gentle,
            rate_bytes_per_second: Some(100 << 20),
            min_interval: Duration::from_secs(300),
            include_shared: true,
            ..Ceilings::default()
        };
        assert_eq!(defaults, Defaults { lsr: Some(lsr), ls: None, be: None, ceilings });
        assert_eq!(toml::from_str::<Defaults>("").ok(), Some(Defaults::default()));
    }

    #[test]
    fn documented_ceilings_are_those_that_are_read() {
        let error = toml::from_str::<Defaults>("[ceilings]\nsurely_not = 1").expect_err("unknown");
        let error = error.to_string();
        let (_, known) = error.split_once("known here: ").expect("it lists those that are known");
        let known = known.lines().next().expect("the rest of that line");
        let mut read: Vec<&str> = known.split(", ").collect();
        let page = include_str!("../../../docs/annotations.md");
        let (_, table) = page.split_once("| key in `[...ceilings]` |").expect("a table of them");
        let table = table.split("\n\n").next().expect("what there is up to an empty line");
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let mut documented: Vec<&str> = rows.map(|(key, _)| key).collect();
        read.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, read);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("lrs = {}", "lrs is not known; known here: lsr, ls, be, ceilings"),
            (
                "[ls.spec.policy]\nprofile = \"fats\"",
                "ls.spec.policy.profile is \"fats\", which is not known",
            ),
            ("[ceilings]\ntimeout_seconds = 0", "ceilings.timeout_seconds is 0"),
            ("[ceilings]\nworkers = 0", "ceilings.workers must be a whole number from 1 to 256"),
            ("[ceilings]\nrate_bytes_per_second = 1", "ceilings.rate_bytes_per_second is 1, less"),
        ] {
            let error = toml::from_str::<Defaults>(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in r#"(lsr|ceilings|spec|[\[\]{}.="0-9a-c\\ \n]){0,24}"#) {
            let _ = toml::from_str::<Defaults>(&text);
        }
    }
}
