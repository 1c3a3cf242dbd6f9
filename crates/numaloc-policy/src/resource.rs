//! Policies as objects of the cluster: `MemoryLocalityPolicy` of a namespace, and `ClusterMemoryLocalityPolicy`.
//!
//! The schedule is in `spec.schedule`, in the form of the annotation `numaloc.io/policy`; the rest selects its
//! containers.
//!
//! | module | what it holds |
//! |---|---|
//! | `bad` | objects that cannot be parsed, and what applies instead |
//! | `scope` | the policies that decide for a container |
//! | `rollout` | the nodes that a policy has reached, and when first runs may begin |
//! | `condition` | conditions of objects |
//! | `status` | the report of the agents about a policy |
//! | `node_locality` | an agent's report about its node |
//! | `definition` | the kinds of policies as CustomResourceDefinitions |
//! | `group` | the API group of the kinds |

mod bad;
mod condition;
mod definition;
mod group;
mod node_locality;
mod rollout;
mod scope;
mod status;

use crate::{Ceilings, Container, Pod, Selector, Settings, own, time};
use numaloc_api::value::QosClass;
use numaloc_config::written::{
    Object, Problem, Problems, SHOWN_MAX, Tree, all, below, flag, list, one_of, shown, text, texts,
    whole,
};
use numaloc_core::Glob;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::SystemTime,
};

pub use bad::{BadPolicy, KnownPolicy};
pub use condition::Condition;
pub use group::{GROUP, VERSION};
pub use node_locality::{NODE_KIND, NODES_PLURAL, NodeLocality, NumaNodeLocality, RemoteContainer};
pub use rollout::Rollout;
pub use scope::Policies;
pub use status::{LastError, PolicyReach, PolicyStatus, Turn};

/// The definitions of all kinds, as objects of `apiextensions.k8s.io/v1`.
pub fn definitions() -> Vec<serde_json::Value> {
    let policies = [PolicyKind::Namespaced, PolicyKind::Cluster].map(definition::definition);
    policies.into_iter().chain([node_locality::definition()]).collect()
}

/// Priorities are within these bounds on both sides of 0.
const PRIORITY_MAX: i32 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyKind {
    /// `MemoryLocalityPolicy`: for pods of its own namespace.
    Namespaced,
    /// `ClusterMemoryLocalityPolicy`: for pods of all namespaces.
    Cluster,
}

impl PolicyKind {
    pub const ALL: [Self; 2] = [Self::Namespaced, Self::Cluster];

    /// As in the path of the API.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Namespaced => "memorylocalitypolicies",
            Self::Cluster => "clustermemorylocalitypolicies",
        }
    }

    /// As in the field `kind` of an object.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaced => "MemoryLocalityPolicy",
            Self::Cluster => "ClusterMemoryLocalityPolicy",
        }
    }
}

/// A policy of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyResource {
    pub kind: PolicyKind,
    /// Its namespace; empty if it is of the cluster.
    pub namespace: String,
    pub name: String,
    /// Its uid, which a policy of the same name that is created later does not have.
    pub uid: String,
    /// When another program than the agents has changed it last; `None`: that is not known.
    pub changed: Option<SystemTime>,
    /// Of several policies that match, the one with the highest priority decides; then the one whose name is first in the order of
    /// bytes.
    pub priority: i32,
    /// The pods that it is for, by their labels.
    pub pods: Selector,
    /// The workloads whose pods it is for, by kind; empty: all.
    pub owner_kinds: BTreeSet<String>,
    /// The containers that it is for, by name; empty: all of a pod.
    pub containers: BTreeSet<String>,
    /// The effect on matching containers.
    pub verdict: PolicyVerdict,
    /// Whether no run of it starts, and those under way end.
    pub is_paused: bool,
    /// When first runs may begin.
    pub rollout: Rollout,
    /// The fields that only policies of the cluster have.
    pub cluster: ClusterScope,
}

/// What a policy does for a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyVerdict {
    /// It has bounds alone: other sources decide.
    Abstains,
    /// Memory stays where it is.
    Off,
    /// Memory is brought home.
    Settings(Box<Settings>),
}

/// What policies of the cluster say beside those of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterScope {
    /// The only namespaces that it is for; empty: all.
    pub namespaces: BTreeSet<String>,
    /// Namespaces that it is not for.
    pub excluded_namespaces: BTreeSet<String>,
    /// The namespaces that it is for, by their labels.
    pub namespace_labels: Selector,
    /// The classes of containers that it is for; empty: all.
    pub classes: Vec<QosClass>,
    /// The nodes that it is for, by their labels.
    pub nodes: Selector,
    /// To how many of these nodes it is rolled out, in percent.
    pub rollout_percent: u8,
    /// When it ends; `None`: it does not.
    pub expires: Option<SystemTime>,
    /// Whether it decides before annotations and policies of namespaces do.
    pub is_enforced: bool,
    /// The most that annotations and policies of namespaces may ask for, in place of the agent's own ceilings.
    pub bounds: Option<Ceilings>,
}

impl Default for ClusterScope {
    fn default() -> Self {
        Self {
            namespaces: BTreeSet::new(),
            excluded_namespaces: BTreeSet::new(),
            namespace_labels: Selector::default(),
            classes: Vec::new(),
            nodes: Selector::default(),
            rollout_percent: 100,
            expires: None,
            is_enforced: false,
            bounds: None,
        }
    }
}

/// The node that decisions are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub labels: BTreeMap<String, String>,
}

impl PolicyResource {
    /// Reads an object as the API server has it. Fields of the object besides `metadata` and `spec` are ignored.
    ///
    /// # Errors
    /// All mistakes. Objects may have been stored before the rules that the API server checks now.
    pub fn read(kind: PolicyKind, object: &serde_json::Value) -> Result<Self, BadPolicy> {
        let text = |name: &str| {
            let value = object.pointer(&format!("/metadata/{name}"));
            value.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
        };
        let (namespace, name) = (text("namespace"), text("name"));
        let uid = text("uid");
        let bad = |problems: Problems| {
            let (namespace, name, uid) = (namespace.clone(), name.clone(), uid.clone());
            let instead = bad::instead(kind, &namespace, &name, &uid, object);
            BadPolicy { kind, namespace, name, uid, problem: problems.to_string(), instead }
        };
        let whole = |problem: String| bad(Problem::new("spec", problem, "").into());
        let spec = object.get("spec").ok_or_else(|| whole("is missing".to_owned()))?;
        let tree = Tree::deserialize(spec).map_err(|error| whole(error.to_string()))?;
        let read = all("spec", &tree, |tree| Self::of_spec(kind, tree, spec)).map_err(bad)?;
        Ok(Self { uid, namespace, name, changed: status::changed(object), ..read })
    }

    fn of_spec(kind: PolicyKind, tree: &Tree, spec: &serde_json::Value) -> Result<Self, Problems> {
        let mut object = Object::of("spec", tree)?;
        let priority = object.take("priority", priority)?.unwrap_or_default();
        let pods = object.take("podSelector", Selector::read)?.unwrap_or_default();
        let owner_kinds = object.take("ownerKinds", texts)?.unwrap_or_default();
        let containers = object.take("containers", texts)?.unwrap_or_default();
        let verdict = object.take("schedule", verdict)?.unwrap_or(PolicyVerdict::Abstains);
        let is_paused = object.take("paused", flag)?.unwrap_or_default();
        let rollout = object.take("rollout", Rollout::read)?.unwrap_or_default();
        let cluster = match kind {
            PolicyKind::Namespaced => ClusterScope::default(),
            PolicyKind::Cluster => cluster_scope(&mut object, spec)?,
        };
        object.end()?;
        // Bounds that cannot be parsed are reported as such.
        let has_bounds =
            kind == PolicyKind::Cluster && spec.get("bounds").is_some_and(|it| !it.is_null());
        if verdict == PolicyVerdict::Abstains && !has_bounds {
            let hint = "write for example {\"interval\": \"10m\"}, or {\"policy\": \"none\"}";
            return Err(Problem::new("spec.schedule", "is missing", hint).into());
        }
        let (namespace, name, uid, changed) = Default::default();
        Ok(Self {
            kind,
            namespace,
            name,
            uid,
            changed,
            priority,
            pods,
            owner_kinds,
            containers,
            verdict,
            is_paused,
            rollout,
            cluster,
        })
    }

    /// Whether it chooses namespaces by their labels.
    pub fn needs_namespaces(&self) -> bool {
        !self.cluster.namespace_labels.is_for_all()
    }

    /// Whether it is for a pod, by its labels, its owner and its namespace.
    pub fn selects(&self, pod: &Pod) -> bool {
        let ClusterScope { namespaces, excluded_namespaces, namespace_labels, .. } = &self.cluster;
        let is_of_namespace = match self.kind {
            PolicyKind::Namespaced => self.namespace == pod.namespace,
            PolicyKind::Cluster => {
                (namespaces.is_empty() || is_among(&pod.namespace, namespaces))
                    && !is_among(&pod.namespace, excluded_namespaces)
                    && namespace_labels.matches(&pod.namespace_labels)
            }
        };
        let is_of_owner = self.owner_kinds.is_empty() || self.owner_kinds.contains(&pod.owner.kind);
        is_of_namespace && is_of_owner && self.pods.matches(&pod.labels)
    }

    /// Whether it is for this container, which is of this class and on this node, at this time.
    pub fn applies(
        &self,
        pod: &Pod,
        container: &Container,
        class: QosClass,
        node: &Node,
        now: SystemTime,
    ) -> bool {
        let ClusterScope { classes, nodes, rollout_percent, expires, .. } = &self.cluster;
        self.selects(pod)
            && expires.is_none_or(|expires| now < expires)
            && (classes.is_empty() || classes.contains(&class))
            && (self.containers.is_empty() || is_among(&container.name, &self.containers))
            && nodes.matches(&node.labels)
            && rollout::reaches(*rollout_percent, &node.name, &self.uid)
    }
}

impl PolicyVerdict {
    /// The settings to apply; `None`: none.
    pub fn settings(&self) -> Option<Settings> {
        match self {
            Self::Abstains | Self::Off => None,
            Self::Settings(settings) => Some((**settings).clone()),
        }
    }
}

impl PolicyResource {
    /// The settings to apply; `None`: none.
    pub(crate) fn settings(&self) -> Option<Settings> {
        let settings = self.verdict.settings()?;
        Some(if self.is_paused { settings.paused() } else { settings })
    }
}

impl fmt::Display for PolicyResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_name(self.kind, &self.namespace, &self.name))
    }
}

/// Whether a name is one of these, or matches one that has `*` or `?`.
fn is_among(name: &str, names: &BTreeSet<String>) -> bool {
    let mut globs = names.iter().filter(|name| Glob::is_pattern(name));
    names.contains(name) || globs.any(|glob| Glob::new(glob).matches(name))
}

fn shown_name(kind: PolicyKind, namespace: &str, name: &str) -> String {
    // The longest names that Kubernetes allows.
    let (namespace, name) = (shown(namespace, 63), shown(name, 253));
    match kind {
        PolicyKind::Namespaced => format!("{} {namespace}/{name}", kind.name()),
        PolicyKind::Cluster => format!("{} {name}", kind.name()),
    }
}

fn priority(path: &str, tree: &Tree) -> Result<i32, Problem> {
    match tree {
        Tree::Whole(number) if number.unsigned_abs() <= PRIORITY_MAX.unsigned_abs().into() => {
            Ok(i32::try_from(*number).unwrap_or_default())
        }
        Tree::Whole(_) => {
            let problem = format!("must be a whole number from -{PRIORITY_MAX} to {PRIORITY_MAX}");
            Err(Problem::new(path, problem, ""))
        }
        other => Err(Problem::sort(path, "a whole number", other)),
    }
}

fn verdict(path: &str, tree: &Tree) -> Result<PolicyVerdict, Problems> {
    // A word alone is for annotations: fields of the API server have one type.
    let Tree::Map(_) = tree else { return Err(Problem::sort(path, "an object", tree).into()) };
    Ok(match own::read_one(path, tree)? {
        None => PolicyVerdict::Off,
        Some(settings) => PolicyVerdict::Settings(Box::new(settings)),
    })
}

fn cluster_scope(object: &mut Object, spec: &serde_json::Value) -> Result<ClusterScope, Problems> {
    let default = ClusterScope::default();
    let (namespaces, excluded_namespaces) = object.take("namespaces", names)?.unwrap_or_default();
    let namespace_labels = object.take("namespaceSelector", Selector::read)?.unwrap_or_default();
    let classes = object.take("qosClasses", |path, tree| list(path, tree, one_of(CLASSES)))?;
    let nodes = object.take("nodeSelector", Selector::read)?.unwrap_or_default();
    let rollout_percent = object.take("rolloutPercent", whole(0..=100))?;
    let expires = object.take("expires", expiry)?;
    let is_enforced = object.take("enforce", flag)?.unwrap_or_default();
    let bounds = object.take("bounds", |path, tree| bounds(path, tree, spec))?;
    Ok(ClusterScope {
        namespaces,
        excluded_namespaces,
        namespace_labels,
        classes: classes.unwrap_or_default(),
        nodes,
        rollout_percent: rollout_percent.unwrap_or(default.rollout_percent),
        expires,
        is_enforced,
        bounds,
    })
}

/// Ceilings, of which each key is read alone first: its mistake has its path then.
fn bounds(path: &str, tree: &Tree, spec: &serde_json::Value) -> Result<Ceilings, Problems> {
    let (Tree::Map(left), Some(given)) = (tree, spec["bounds"].as_object()) else {
        return Err(Problem::sort(path, "an object", tree).into());
    };
    let left = given.iter().filter(|(key, _)| left.contains_key(*key));
    let read = |entries: serde_json::Map<_, _>| Ceilings::deserialize(entries);
    let bad = |path: &str, error: serde_json::Error| {
        Problem::new(path, shown(&error.to_string(), 4 * SHOWN_MAX), "")
    };
    let each = left.clone().filter_map(|(key, value)| {
        let alone = read([(key.clone(), value.clone())].into_iter().collect());
        alone.err().map(|error| bad(&below(path, key), error))
    });
    match each.collect::<Problems>() {
        problems if problems.iter().next().is_some() => Err(problems),
        _ => read(left.map(|(key, value)| (key.clone(), value.clone())).collect())
            .map_err(|error| bad(path, error).into()),
    }
}

const CLASSES: [(&str, QosClass); 3] =
    [("LSR", QosClass::Lsr), ("LS", QosClass::Ls), ("BE", QosClass::Be)];

/// The names in `include` and in `exclude`; refuses a name in both.
fn names(path: &str, tree: &Tree) -> Result<(BTreeSet<String>, BTreeSet<String>), Problem> {
    let mut object = Object::of(path, tree)?;
    let include = object.take("include", texts)?.unwrap_or_default();
    let exclude = object.take("exclude", texts)?.unwrap_or_default();
    object.end()?;
    match include.intersection(&exclude).next() {
        None => Ok((include, exclude)),
        Some(both) => {
            let both = shown(both, SHOWN_MAX);
            let problem = format!("has {both}, which is in include as well");
            Err(Problem::new(&below(path, "exclude"), problem, ""))
        }
    }
}

fn expiry(path: &str, tree: &Tree) -> Result<SystemTime, Problem> {
    let given = text(path, tree)?;
    time::read(given).ok_or_else(|| {
        let problem = format!("is \"{}\"", shown(given, SHOWN_MAX));
        Problem::new(path, problem, "expected a time such as 2026-12-31T22:00:00Z")
    })
}

#[cfg(test)]
mod tests;
