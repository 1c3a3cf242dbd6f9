//! The sources of decisions besides the annotations of a pod. Pure.

use crate::config::ObjectName;
use numaloc_core::Offload;
use numaloc_policy::{
    BadConfigMap, BadPolicy, ClassStrategy, DSA_CONFIG_KEY, Defaults, KnownPolicy, Node, Policies,
    PolicyResource, QOS_CONFIG_KEY, QosConfig, THRESHOLD_CONFIG_KEY, ThresholdConfig,
    read_dsa_config,
};
use std::{collections::BTreeMap, time::SystemTime};

/// The last valid declarations of the cluster for all pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterSources {
    /// Strategies by class, for all nodes.
    qos: Option<QosConfig>,
    /// Whether there are strategies that could not be parsed, and none that could be before.
    is_qos_unknown: bool,
    /// The strategy for this node.
    strategy: Option<ClassStrategy>,
    /// Whether DMA engines copy.
    offload: Option<Offload>,
    /// The CPU use of nodes above which runs for best-effort pods yield.
    thresholds: Option<ThresholdConfig>,
    /// The policies of the cluster and of its namespaces.
    policies: Vec<PolicyResource>,
    /// The node that is decided for, and when that was.
    node: Node,
    now: Option<SystemTime>,
    /// Parts of the last version that could not be parsed.
    problems: Vec<Problem>,
}

/// An object of the cluster that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub kind: &'static str,
    /// Its namespace; empty if it is of the cluster.
    pub namespace: String,
    pub name: String,
    /// Its uid, if it is known.
    pub uid: String,
    /// The error, and the setting that applies instead.
    pub message: String,
}

impl ClusterSources {
    /// Takes the ConfigMaps and the node's labels. The first ConfigMap that has a key counts for it; a value that
    /// cannot be parsed changes nothing, and a removed one is not a source any more.
    pub fn update(&mut self, names: &[ObjectName], maps: &[BTreeMap<String, String>], node: &Node) {
        self.problems.clear();
        let value = |key| {
            let mut named = names.iter().zip(maps);
            named.find_map(|(name, map)| Some((name, map.get(key)?.as_str())))
        };
        match value(QOS_CONFIG_KEY) {
            None => self.qos = None,
            Some((name, text)) => match QosConfig::read(text) {
                Ok(config) => self.qos = Some(config),
                Err(bad) => self.refuse(name, &bad),
            },
        }
        match value(DSA_CONFIG_KEY) {
            None => self.offload = None,
            Some((name, text)) => match read_dsa_config(text) {
                Ok(offload) => self.offload = offload,
                Err(bad) => self.refuse(name, &bad),
            },
        }
        match value(THRESHOLD_CONFIG_KEY) {
            None => self.thresholds = None,
            Some((name, text)) => match ThresholdConfig::read(text) {
                Ok(config) => self.thresholds = Some(config),
                Err(bad) => self.refuse(name, &bad),
            },
        }
        self.is_qos_unknown = self.qos.is_none() && value(QOS_CONFIG_KEY).is_some();
        self.strategy = self.qos.as_ref().map(|qos| qos.for_node(&node.labels).clone());
        self.node = node.clone();
    }

    fn refuse(&mut self, object: &ObjectName, bad: &BadConfigMap) {
        let message = format!("ConfigMap {object}, {bad}; the last valid contents stay in force");
        let ObjectName { namespace, name } = object.clone();
        self.problems.push(Problem {
            kind: "ConfigMap",
            namespace,
            name,
            uid: String::new(),
            message,
        });
    }

    /// Takes the present policies, after [`ClusterSources::update`].
    pub fn policies(&mut self, all: Vec<KnownPolicy>, now: SystemTime) {
        self.policies = all.iter().filter_map(KnownPolicy::in_force).cloned().collect();
        self.now = Some(now);
        for bad in all.iter().filter_map(KnownPolicy::problem) {
            let message = bad.to_string();
            let BadPolicy { kind, namespace, name, uid, .. } = bad.clone();
            let kind = kind.name();
            self.problems.push(Problem { kind, namespace, name, uid, message });
        }
    }

    /// When a policy ends next; `None`: none will.
    pub fn next_expiry(&self) -> Option<SystemTime> {
        self.of_cluster()?.next_expiry()
    }

    fn of_cluster(&self) -> Option<Policies<'_>> {
        self.now.map(|now| Policies { all: &self.policies, node: &self.node, now })
    }

    /// The problems found in the sources.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// All sources besides the annotations.
    pub fn with<'a>(&'a self, defaults: &'a Defaults) -> numaloc_policy::Sources<'a> {
        let (strategy, offload) = (self.strategy.as_ref(), self.offload);
        let thresholds = self.thresholds.as_ref();
        let be_node_cpu_percent = thresholds.and_then(|all| all.for_node(&self.node.labels));
        let policies = self.of_cluster();
        let is_strategy_unknown = self.is_qos_unknown;
        numaloc_policy::Sources {
            defaults,
            policies,
            strategy,
            is_strategy_unknown,
            offload,
            be_node_cpu_percent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_api::value::QosClass;

    fn map(text: &str) -> BTreeMap<String, String> {
        [(QOS_CONFIG_KEY.to_owned(), text.to_owned())].into()
    }

    #[test]
    fn a_threshold_holds_until_it_is_removed() {
        let names = ["a/one".parse().expect("a name")];
        let map = |text: &str| [[(THRESHOLD_CONFIG_KEY.to_owned(), text.to_owned())].into()];
        let (mut sources, defaults) = (ClusterSources::default(), Defaults::default());
        let mut seen = |maps: &[BTreeMap<String, String>]| {
            sources.update(&names, maps, &Node::default());
            (sources.with(&defaults).be_node_cpu_percent, sources.problems().len())
        };
        let set = r#"{"clusterStrategy": {"enable": true, "cpuSuppressThresholdPercent": 65}}"#;
        assert_eq!(seen(&map(set)), (Some(65), 0));
        assert_eq!(seen(&map("{")), (Some(65), 1), "the last valid one");
        assert_eq!(seen(&[BTreeMap::new()]), (None, 0));
    }

    #[test]
    fn a_broken_configmap_changes_nothing_and_one_that_is_gone_is_no_source() {
        let names = ["a/one", "b/two"].map(|name| name.parse().expect("a name"));
        let good = map(
            r#"{"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "bestEffort"}}}}"#,
        );
        let mut sources = ClusterSources::default();
        let ls = |sources: &ClusterSources| {
            let strategy = sources.strategy.as_ref()?;
            Some(strategy.get(&QosClass::Ls)?.is_some())
        };
        let (none, node) = (BTreeMap::new, Node::default());
        sources.update(&names, &[none(), good.clone()], &node);
        assert_eq!((ls(&sources), sources.problems().len()), (Some(true), 0));
        // The first that has the key counts, also if it is broken.
        sources.update(&names, &[map("{"), good], &node);
        assert_eq!(ls(&sources), Some(true));
        let [problem] = sources.problems() else { panic!("{:?}", sources.problems()) };
        let expected = "ConfigMap a/one, key resource-qos-config, line 1 column 1: EOF while parsing an object; \
            the last valid contents stay in force";
        assert_eq!(problem.message, expected);
        sources.update(&names, &[none(), none()], &node);
        assert_eq!((ls(&sources), sources.problems().len()), (None, 0));
    }
}
