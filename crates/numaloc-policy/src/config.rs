//! The operator's defaults and ceilings in a configuration, in TOML or JSON.

use crate::{Settings, own};
use numaloc_config::written::Tree;
use serde::de::{Deserialize, Deserializer, Error};

/// A policy in the form of the annotation `numaloc.io/policy`; `None` if it says that nothing is to be done.
pub(crate) fn settings<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Settings>, D::Error> {
    let tree = Tree::deserialize(from)?;
    own::read("", &tree).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ceilings, Defaults};
    use numaloc_core::Profile;
    use proptest::prelude::*;
    use std::time::Duration;

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
            rate_bytes_per_second = "100M"
            min_interval = "5m"
            include_shared = true
        "#;
        let defaults: Defaults = toml::from_str(text).expect("a configuration");
        let mut lsr = Settings::default();
        lsr.set_interval(Duration::from_secs(600));
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
        let (_, known) =
            error.split_once("expected one of ").expect("it lists those that are known");
        let mut read: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        let page = include_str!("../../../docs/annotations.md");
        let (_, table) = page.split_once("| key in `[...ceilings]` |").expect("a table of them");
        let table = table.split("\n\n").next().expect("what there is up to an empty line");
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let mut documented: Vec<&str> = rows.map(|(key, _)| key).collect();
        read.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, read);
        let mut described = crate::ceilings::KEYS.map(|(key, _)| key);
        described.sort_unstable();
        assert_eq!(described, *read);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("lrs = {}", "unknown field `lrs`, expected one of `lsr`, `ls`, `be`, `ceilings`"),
            (
                "[ls.spec.policy]\nprofile = \"fats\"",
                "spec.policy.profile is \"fats\", which is not known",
            ),
            ("[ceilings]\ntimeout = \"0s\"", "0s is out of range: 1ms to"),
            ("[ceilings]\nworkers = 0", "0 is out of range: 1 to 256"),
            ("[ceilings]\nrate_bytes_per_second = 1", "1 is out of range: 4096 to"),
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
