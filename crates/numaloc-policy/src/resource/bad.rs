//! Objects that cannot be parsed, and what applies instead of them.

use super::{
    CLASSES, ClusterScope, PRIORITY_MAX, PolicyKind, PolicyResource, PolicyVerdict, Rollout,
    expiry, names, priority, shown_name, status,
};
use crate::{Selector, own};
use numaloc_config::written::{Object, Tree, list, one_of, texts, whole as number};
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeSet, fmt};

/// A policy that cannot be understood. It can be shown as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct BadPolicy {
    pub kind: PolicyKind,
    /// Its namespace; empty if it is of the cluster.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The error and its place, for people.
    pub problem: String,
    /// What applies instead.
    pub instead: Instead,
}

/// What applies instead of a policy that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Other sources decide.
    Nothing,
    /// What was read of it last.
    Last(Box<PolicyResource>),
    /// Memory of its containers stays where it is: it was to bound something, to be enforced, or to stop something.
    Off {
        policy: Box<PolicyResource>,
        /// Whether it says in so many words that nothing is to be done.
        is_said: bool,
    },
}

impl fmt::Display for BadPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = shown_name(self.kind, &self.namespace, &self.name);
        let effect = match self.instead {
            Instead::Nothing => "it is ignored",
            Instead::Last(_) => "what was read of it last stays in force",
            Instead::Off { .. } => {
                "until it is corrected, memory of the containers that it is for stays"
            }
        };
        write!(f, "{policy}: {}; {effect}", self.problem)
    }
}

/// A policy as it was read, or as it was read last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPolicy(Result<PolicyResource, BadPolicy>);

impl KnownPolicy {
    /// Takes what was read of an object of which this was known before.
    pub fn new(read: Result<PolicyResource, BadPolicy>, before: Option<&Self>) -> Self {
        let same = |bad: &BadPolicy| before?.last().filter(|last| last.uid == bad.uid).cloned();
        Self(read.map_err(|bad| match (&bad.instead, same(&bad)) {
            (Instead::Off { is_said: true, .. }, _) | (_, None) => bad,
            (_, Some(last)) => BadPolicy { instead: Instead::Last(Box::new(last)), ..bad },
        }))
    }

    /// What was last read without a mistake.
    fn last(&self) -> Option<&PolicyResource> {
        match &self.0 {
            Ok(policy) => Some(policy),
            Err(BadPolicy { instead: Instead::Last(policy), .. }) => Some(policy),
            Err(_) => None,
        }
    }

    /// The policy that applies.
    pub fn in_force(&self) -> Option<&PolicyResource> {
        match &self.0 {
            Ok(policy) => Some(policy),
            Err(BadPolicy {
                instead: Instead::Last(it) | Instead::Off { policy: it, .. }, ..
            }) => Some(it),
            Err(BadPolicy { instead: Instead::Nothing, .. }) => None,
        }
    }

    /// Why it cannot be understood.
    pub fn problem(&self) -> Option<&BadPolicy> {
        self.0.as_ref().err()
    }
}

/// What applies instead of an object of which nothing was read before.
pub(super) fn instead(
    kind: PolicyKind,
    namespace: &str,
    name: &str,
    uid: &str,
    whole: &Value,
) -> Instead {
    let Some(spec) = whole.get("spec") else { return Instead::Nothing };
    let is_set = |key: &str| {
        let value = spec.get(key).filter(|value| !value.is_null());
        kind == PolicyKind::Cluster && value.is_some_and(|value| *value != Value::Bool(false))
    };
    let is_enforced = is_set("enforce") || is_set("bounds");
    let word = spec.pointer("/schedule").and_then(|it| it.get(own::SWITCH)).and_then(Value::as_str);
    let is_said = word.is_some_and(|word| word.eq_ignore_ascii_case("none"));
    let tree = Tree::deserialize(spec).ok();
    let object = tree.as_ref().and_then(|tree| Object::of("spec", tree).ok());
    let Some(mut object) = object.filter(|_| is_enforced || is_said) else {
        return Instead::Nothing;
    };
    // Each part that can be read narrows what it is for; one that cannot be read may mean all.
    let pods = object.take("podSelector", Selector::read).ok().flatten();
    let owner_kinds = object.take("ownerKinds", texts).ok().flatten();
    let containers = object.take("containers", texts).ok().flatten();
    let priority = object.take("priority", priority).unwrap_or(Some(PRIORITY_MAX));
    let cluster = match kind {
        PolicyKind::Namespaced => ClusterScope::default(),
        PolicyKind::Cluster => {
            let default = ClusterScope::default();
            let (namespaces, excluded_namespaces): (BTreeSet<_>, BTreeSet<_>) =
                object.take("namespaces", names).ok().flatten().unwrap_or_default();
            let classes = object.take("qosClasses", |path, tree| list(path, tree, one_of(CLASSES)));
            let rollout = object.take("rolloutPercent", number(0..=100)).ok().flatten();
            ClusterScope {
                namespaces,
                excluded_namespaces,
                namespace_labels: object
                    .take("namespaceSelector", Selector::read)
                    .ok()
                    .flatten()
                    .unwrap_or_default(),
                classes: classes.ok().flatten().unwrap_or_default(),
                nodes: object
                    .take("nodeSelector", Selector::read)
                    .ok()
                    .flatten()
                    .unwrap_or_default(),
                rollout_percent: rollout.unwrap_or(default.rollout_percent),
                expires: object.take("expires", expiry).ok().flatten(),
                is_enforced,
                bounds: None,
            }
        }
    };
    let policy = PolicyResource {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        changed: status::changed(whole),
        priority: priority.unwrap_or_default(),
        pods: pods.unwrap_or_default(),
        owner_kinds: owner_kinds.unwrap_or_default(),
        containers: containers.unwrap_or_default(),
        verdict: PolicyVerdict::Off,
        is_paused: false,
        rollout: Rollout::default(),
        cluster,
    };
    Instead::Off { policy: Box::new(policy), is_said }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Owner, Pod};
    use serde_json::json;

    /// A pod of a StatefulSet, with this label.
    fn pod(namespace: &str, app: &str) -> Pod {
        let (namespace, labels) =
            (namespace.to_owned(), [("app".to_owned(), app.to_owned())].into());
        let owner = Owner { kind: "StatefulSet".to_owned(), ..Owner::default() };
        let namespace_labels = [("team".to_owned(), "db".to_owned())].into();
        Pod { namespace, labels, owner, namespace_labels, ..Pod::default() }
    }

    fn known(kind: PolicyKind, spec: Value, before: Option<&KnownPolicy>) -> KnownPolicy {
        let object =
            json!({"metadata": {"namespace": "shop", "name": "p", "uid": "1"}, "spec": spec});
        KnownPolicy::new(PolicyResource::read(kind, &object), before)
    }

    fn effect(known: &KnownPolicy) -> &str {
        match known.problem().map(|bad| &bad.instead) {
            None => "read",
            Some(Instead::Nothing) => "nothing",
            Some(Instead::Last(_)) => "last",
            Some(Instead::Off { .. }) => "off",
        }
    }

    #[test]
    fn a_policy_with_a_mistake_keeps_what_was_read_last() {
        let good = known(PolicyKind::Cluster, json!({"bounds": {"min_interval": "30m"}}), None);
        let stop =
            json!({"schedule": {"policy": "none", "interval": "30 minutes"}, "enforce": true});
        for (spec, first, later) in [
            (json!({"schedule": {"interval": "5x"}}), "nothing", "last"),
            (json!({"bounds": {"min_interval": "5x"}}), "off", "last"),
            (json!({"schedule": {"interval": "5x"}, "enforce": true}), "off", "last"),
            (json!({"schedule": {"interval": "5x"}, "enforce": "yes"}), "off", "last"),
            (stop, "off", "off"),
            (json!({"schedule": {"policy": "none", "interval": "5x"}}), "off", "off"),
        ] {
            let alone = known(PolicyKind::Cluster, spec.clone(), None);
            let edited = known(PolicyKind::Cluster, spec.clone(), Some(&good));
            let again = known(PolicyKind::Cluster, spec.clone(), Some(&edited));
            assert_eq!(
                (effect(&alone), effect(&edited), effect(&again)),
                (first, later, later),
                "{spec}"
            );
            assert_eq!(edited.in_force() == good.in_force(), later == "last", "{spec}");
            let mut other = good.clone();
            other.0.as_mut().expect("it was read").uid = "2".to_owned();
            let new = known(PolicyKind::Cluster, spec.clone(), Some(&other));
            assert_eq!(effect(&new), first, "another object of the name: {spec}");
        }
    }

    #[test]
    fn what_can_be_read_says_whom_it_stops() {
        let spec = json!({
            "enforce": true, "priority": 9, "schedule": {"policy": "none", "interval": "30 minutes"},
            "podSelector": {"matchLabels": {"app": "redis"}}, "namespaces": {"include": ["shop"]},
            "namespaceSelector": {"matchLabels": {"team": "db"}}, "ownerKinds": ["StatefulSet"],
            "nodeSelector": 7, "rolloutPercent": 101, "expires": "1970-01-02T00:00:00Z",
        });
        let known = known(PolicyKind::Cluster, spec, None);
        let off = known.in_force().expect("it stops");
        assert_eq!((off.priority, &off.verdict), (9, &PolicyVerdict::Off));
        assert!(off.cluster.is_enforced && off.cluster.bounds.is_none());
        assert!(off.selects(&pod("shop", "redis")) && !off.selects(&pod("shop", "web")));
        assert!(!off.selects(&pod("bank", "redis")));
        let others = Pod { namespace_labels: Default::default(), ..pod("shop", "redis") };
        assert!(!off.selects(&others));
        assert!(!off.selects(&Pod { owner: Owner::default(), ..pod("shop", "redis") }));
        assert_eq!((off.cluster.rollout_percent, off.cluster.expires.is_some()), (100, true));
        let problem = known.problem().expect("one").to_string();
        let end = "; until it is corrected, memory of the containers that it is for stays";
        assert!(problem.ends_with(end), "{problem}");
    }

    #[test]
    fn a_policy_of_a_namespace_stops_no_other_one_of_its_rank() {
        let spec = json!({"schedule": {"policy": "none", "interval": "5x"}, "enforce": true});
        let known = known(PolicyKind::Namespaced, spec, None);
        let off = known.in_force().expect("it stops");
        assert!(!off.cluster.is_enforced && off.selects(&pod("shop", "")));
    }
}
