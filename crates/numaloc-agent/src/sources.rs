//! What decides besides the annotations of a pod. Pure. Each further source of the cluster gets its place here.

use crate::config::ObjectName;
use numaloc_core::Offload;
use numaloc_policy::{
    BadConfigMap, ClassStrategy, DSA_CONFIG_KEY, Defaults, QOS_CONFIG_KEY, QosConfig,
    read_dsa_config,
};
use std::collections::BTreeMap;

/// What the cluster has declared for all pods, as it was last understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterSources {
    /// Strategies by class, for all nodes.
    qos: Option<QosConfig>,
    /// Those for this node.
    strategy: Option<ClassStrategy>,
    /// Whether DMA engines copy.
    offload: Option<Offload>,
    /// What of the last one could not be understood.
    problems: Vec<Problem>,
}

/// A ConfigMap that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which one.
    pub object: ObjectName,
    /// What is wrong, and what holds instead.
    pub message: String,
}

impl ClusterSources {
    /// Takes what the ConfigMaps and the node's labels are now. The first ConfigMap that has a key counts for it; a value that cannot be
    /// understood changes nothing, and one that is gone is no source any more.
    pub fn update(
        &mut self,
        names: &[ObjectName],
        maps: &[BTreeMap<String, String>],
        node: &BTreeMap<String, String>,
    ) {
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
        self.strategy = self.qos.as_ref().map(|qos| qos.for_node(node).clone());
    }

    fn refuse(&mut self, object: &ObjectName, bad: &BadConfigMap) {
        let message = format!("ConfigMap {object}, {bad}; what was read last holds");
        self.problems.push(Problem { object: object.clone(), message });
    }

    /// What of them cannot be understood.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// All sources besides the annotations.
    pub fn with<'a>(&'a self, defaults: &'a Defaults) -> numaloc_policy::Sources<'a> {
        let (strategy, offload) = (self.strategy.as_ref(), self.offload);
        numaloc_policy::Sources { defaults, policies: None, strategy, offload }
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
        let none = BTreeMap::new;
        sources.update(&names, &[none(), good.clone()], &none());
        assert_eq!((ls(&sources), sources.problems().len()), (Some(true), 0));
        // The first that has the key counts, also if it is broken.
        sources.update(&names, &[map("{"), good], &none());
        assert_eq!(ls(&sources), Some(true));
        let [problem] = sources.problems() else { panic!("{:?}", sources.problems()) };
        let expected = "ConfigMap a/one, key resource-qos-config, line 1 column 1: EOF while parsing an object; \
            what was read last holds";
        assert_eq!(problem.message, expected);
        sources.update(&names, &[none(), none()], &none());
        assert_eq!((ls(&sources), sources.problems().len()), (None, 0));
    }
}
