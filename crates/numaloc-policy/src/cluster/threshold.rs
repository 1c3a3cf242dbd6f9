//! `resource-threshold-config`: from which CPU use of a node on best-effort work gives way, as Koordinator's CPU suppression does.

use super::{BadConfigMap, by_node::ByNode, enable, field, tree};
use numaloc_config::written::{Problem, Tree, all, whole};
use std::collections::BTreeMap;

/// The key of the ConfigMap with the thresholds.
pub const THRESHOLD_CONFIG_KEY: &str = "resource-threshold-config";

/// The threshold in percent of a strategy that is enabled and names none: Koordinator's default.
const USUAL_PERCENT: u8 = 65;

/// The thresholds of a cluster's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThresholdConfig(ByNode<Threshold>);

/// A strategy: whether it is enabled, and its `cpuSuppressThresholdPercent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Threshold {
    enable: Option<bool>,
    percent: Option<u8>,
}

impl ThresholdConfig {
    /// Reads the value of [`THRESHOLD_CONFIG_KEY`].
    ///
    /// # Errors
    /// All mistakes.
    pub fn read(text: &str) -> Result<Self, BadConfigMap> {
        let bad = |problems| BadConfigMap::value(THRESHOLD_CONFIG_KEY, problems);
        all("", &tree(THRESHOLD_CONFIG_KEY, text)?, Self::of).map_err(bad)
    }

    fn of(tree: &Tree) -> Result<Self, Problem> {
        ByNode::read(tree, Threshold::of, |own, cluster| own.over(*cluster)).map(Self)
    }

    /// The threshold for a node with these labels, in percent of its CPU time, from 1 to 100: of the first strategy that selects it, or
    /// the cluster's; `None`: it is not enabled there.
    pub fn for_node(&self, labels: &BTreeMap<String, String>) -> Option<u8> {
        let Threshold { enable, percent } = *self.0.for_node(labels);
        // A policy has no 0, which would be above any use as well.
        (enable == Some(true)).then(|| percent.unwrap_or(USUAL_PERCENT).max(1))
    }
}

impl Threshold {
    /// Parses the strategy at `path`.
    fn of(path: &str, strategy: &Tree) -> Result<Self, Problem> {
        let enable = enable(path, strategy)?;
        let (percent_path, percent) = field(path, strategy, "cpuSuppressThresholdPercent")?;
        let percent = match percent {
            Tree::Null => None,
            value => Some(whole(0..=100)(&percent_path, value)?),
        };
        Ok(Self { enable, percent })
    }

    /// This one, and what `others` has that this one does not name.
    fn over(self, others: Self) -> Self {
        Self { enable: self.enable.or(others.enable), percent: self.percent.or(others.percent) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pool: &str) -> BTreeMap<String, String> {
        [("pool".to_owned(), pool.to_owned())].into()
    }

    #[test]
    fn a_node_has_the_threshold_of_the_first_strategy_that_selects_it() {
        let text = r#"{"clusterStrategy": {"enable": true, "cpuSuppressThresholdPercent": 70, "memoryEvictThresholdPercent": 1},
            "nodeStrategies": [{"name": "x", "nodeSelector": {"matchLabels": {"pool": "db"}}, "cpuSuppressThresholdPercent": 40},
                {"nodeSelector": {"matchLabels": {"pool": "batch"}}, "enable": false}, {"cpuSuppressThresholdPercent": 1}]}"#;
        let config = ThresholdConfig::read(text).expect("it is valid");
        assert_eq!(
            ["db", "batch", "web"].map(|pool| config.for_node(&labels(pool))),
            [Some(40), None, Some(70)]
        );
    }

    #[test]
    fn it_holds_where_it_is_enabled() {
        let of = |text: &str| ThresholdConfig::read(text).expect(text).for_node(&labels("a"));
        for (strategy, expected) in [
            ("{}", None),
            (r#"{"cpuSuppressThresholdPercent": 65}"#, None),
            (r#"{"enable": false, "cpuSuppressThresholdPercent": 65}"#, None),
            (r#"{"enable": true}"#, Some(65)),
            (r#"{"Enable": true, "cpusuppressthresholdpercent": 0}"#, Some(1)),
            (r#"{"enable": true, "cpuSuppressThresholdPercent": 100}"#, Some(100)),
        ] {
            assert_eq!(
                of(&format!(r#"{{"clusterStrategy": {strategy}}}"#)),
                expected,
                "{strategy}"
            );
        }
        assert_eq!((of("null"), of("{}")), (None, None));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, expected) in [
            ("[]", "must be an object, and is a list"),
            (
                r#"{"clusterStrategy": {"enable": "yes"}}"#,
                "clusterStrategy.enable: must be true or false",
            ),
            (
                r#"{"clusterStrategy": {"cpuSuppressThresholdPercent": 101}}"#,
                "clusterStrategy.cpuSuppressThresholdPercent: must be a whole number from 0 to 100",
            ),
            (r#"{"nodeStrategies": 7}"#, "nodeStrategies: must be a list"),
            (
                r#"{"nodeStrategies": [{"nodeSelector": {"a": 1}}]}"#,
                "nodeStrategies[0].nodeSelector.a",
            ),
        ] {
            let error = ThresholdConfig::read(text).expect_err(text).to_string();
            let is_named =
                error.starts_with("key resource-threshold-config") && error.contains(expected);
            assert!(is_named, "{error}");
        }
    }
}
