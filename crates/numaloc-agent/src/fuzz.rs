//! Entry points of the fuzz targets: objects written by any user who may create a pod, and files written by operators.
//! A panic here is a defect.

use crate::{
    cluster::objects::{ConfigMapObject, PodObject},
    config,
    facts::Facts,
    outbox::Subject,
    results::{Now, Results, Standing, Told, report},
    sources::ClusterSources,
    wanted::{Registrar, wanted},
};
use numaloc_policy::{Defaults, Node};
use std::time::Duration;

/// A pod, and after a zero byte a ConfigMap, as the API server sends them.
pub fn objects(bytes: &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (pod, map) = bytes.split_at(end);
    let mut sources = ClusterSources::default();
    let map = map.get(1..).and_then(|map| serde_json::from_slice::<ConfigMapObject>(map).ok());
    let names = ["kube-system/ack-slo-config".parse().expect("a name")];
    sources.update(&names, &[map.unwrap_or_default().data], &Node::default());
    let Ok(pod) = serde_json::from_slice::<PodObject>(pod) else { return };
    let (facts, defaults) = (Facts::new(pod), Defaults::default());
    let us = Registrar::Us { me: "uid:60700".to_owned(), lease: Duration::from_secs(300) };
    let wanted = wanted(&facts, sources.with(&defaults), &us, None, None);
    let mut told = Told::of(&facts);
    let _ = Subject::pod(&facts);
    let (none, standing) = (Results::default(), |_: &_| Standing::Scheduled);
    let first = report(&facts, &wanted, &none, standing, &mut told, Now::new());
    // A report is not repeated.
    let second = report(&facts, &wanted, &none, standing, &mut told, Now::new());
    assert!(second.is_none(), "{first:?} {second:?}");
}

/// The configuration.
///
/// # Panics
/// It is refused without a reason.
pub fn configuration(text: &str) {
    if let Err(problems) = numaloc_node::parse::<config::Config>(text) {
        assert!(!problems.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn objects_and_others() {
        let pod = include_str!("../tests/pod.json");
        let map = r#"{"data": {"resource-qos-config": "{\"clusterStrategy\": {\"lsClass\": 1}}"}}"#;
        for text in [
            pod.to_owned(),
            format!("{pod}\0{map}"),
            "{}\0{}".to_owned(),
            "\0".to_owned(),
            String::new(),
        ] {
            objects(text.as_bytes());
        }
        for text in ["", "lease = \"1m\"", "lease = 1", "[pods", "listen = \"x\"", "\0"] {
            configuration(text);
        }
    }

    proptest! {
        #[test]
        fn any_change_of_an_object_is_read_or_not(at in 0usize..3000, with in r#"[\{\}\[\]":,0a ]|null|\PC"#) {
            let mut pod = include_str!("../tests/pod.json").to_owned();
            let at = at % pod.len();
            pod.replace_range(at..at + 1, &with);
            objects(pod.as_bytes());
        }
    }
}
