//! Sources of policies to one decision.

use crate::{
    BadAnnotation, Ceilings, Container, OWN_STATUS_KEY, Pod, Policies, PolicyResource, Rollout,
    Settings, class,
    cluster::ClassStrategy,
    config,
    keys::{MEMORY_POLICY_KEY, NUMA_BALANCING_KEY},
    koordinator::{self, Says},
    own,
};
use numaloc_api::value::QosClass;
use numaloc_config::written::{Problem, Problems, SHOWN_MAX, Tree, all, below, shown};
use numaloc_core::Offload;
use serde::Deserialize;
use std::{
    fmt,
    time::{Duration, SystemTime},
};

/// The annotation of Koordinator's contract for memory locality.
pub const KOORDINATOR_KEY: &str = "koordinator.sh/memoryLocality";
/// Our own annotation for all containers of a pod.
pub const POLICY_KEY: &str = "numaloc.io/policy";
/// Our own annotation with the policies of several containers: an object by their names.
pub const POLICIES_KEY: &str = "numaloc.io/policies";
/// Our own annotation for one container: this and the container's name. Kubernetes allows 63 characters after the
/// slash, so names of up to 46 characters fit; longer ones go into [`POLICIES_KEY`].
pub const CONTAINER_KEY: &str = "numaloc.io/policy.container.";
/// Our annotation that asks for a run now: an id, for each of which there is one run of the pod's schedules.
pub const RUN_KEY: &str = "numaloc.io/run-now";
/// Longest value of an annotation in bytes: far more than a policy for each of some hundred containers. A pod may have
/// 256 KiB.
pub const VALUE_MAX: usize = 16 << 10;

/// Keys of ours that do not hold policies.
const OTHER_KEYS: [&str; 4] = [OWN_STATUS_KEY, RUN_KEY, MEMORY_POLICY_KEY, NUMA_BALANCING_KEY];
/// Most keys that are not known and are named.
const UNKNOWN_MAX: usize = 4;

/// The settings of a node's operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Defaults {
    /// For containers of the class LSR that have no policy of their own; `None`: nothing is done for them.
    #[serde(deserialize_with = "config::settings")]
    pub lsr: Option<Settings>,
    /// The policy for containers of class LS.
    #[serde(deserialize_with = "config::settings")]
    pub ls: Option<Settings>,
    /// The policy for containers of class BE.
    #[serde(deserialize_with = "config::settings")]
    pub be: Option<Settings>,
    /// The most that pods may ask for. The defaults above are the operator's own and not bounded by it.
    pub ceilings: Ceilings,
}

impl Defaults {
    /// The default for a class.
    pub fn of(&self, class: QosClass) -> Option<&Settings> {
        match class {
            QosClass::Lsr => self.lsr.as_ref(),
            QosClass::Ls => self.ls.as_ref(),
            QosClass::Be => self.be.as_ref(),
        }
    }
}

/// The sources of decisions besides the annotations of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The settings of the node's operator.
    pub defaults: &'a Defaults,
    /// The policies of the cluster; `None`: there are none.
    pub policies: Option<Policies<'a>>,
    /// The settings of the cluster's operator for pods whose label names their class; `None`: none.
    pub strategy: Option<&'a ClassStrategy>,
    /// Whether these settings exist, and cannot be parsed: what was decided by them before stays.
    pub is_strategy_unknown: bool,
    /// Whether DMA engines copy for policies in Koordinator's form, which have no field for it; `None`: as by default.
    pub offload: Option<Offload>,
    /// CPU use of the node, in percent, above which runs for best-effort pods yield if their policy names no other; `None`: as by default.
    pub be_node_cpu_percent: Option<u8>,
}

impl<'a> From<&'a Defaults> for Sources<'a> {
    /// The operator of the node alone.
    fn from(defaults: &'a Defaults) -> Self {
        Self {
            defaults,
            policies: None,
            strategy: None,
            is_strategy_unknown: false,
            offload: None,
            be_node_cpu_percent: None,
        }
    }
}

/// The decision for a container, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its class, by a label, or derived from its cgroup and resources.
    pub class: QosClass,
    pub source: DecisionSource,
    /// The settings to apply; `None`: nothing is done.
    pub settings: Option<Settings>,
    /// Whether the source cannot be parsed, and what it has decided before stays; `settings` is `None` then.
    pub stays: bool,
    /// The policy of the cluster that has decided.
    pub policy: Option<DecidingPolicy>,
    /// Remarks, a sentence each: reductions by the ceilings, and keys that are unknown. They can be shown unescaped.
    pub notes: Vec<String>,
    /// The bounds of what its pod may ask for, which are not about one migration.
    pub bounds: PodBounds,
}

/// A policy of the cluster that has decided about a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidingPolicy {
    pub uid: String,
    /// When it was last changed; `None`: that is not known.
    pub changed: Option<SystemTime>,
    /// Whether no run of it starts, and those under way end.
    pub is_paused: bool,
    /// When first runs may begin.
    pub rollout: Rollout,
}

impl From<&PolicyResource> for DecidingPolicy {
    fn from(policy: &PolicyResource) -> Self {
        let PolicyResource { uid, changed, is_paused, rollout, .. } = policy.clone();
        Self { uid, changed, is_paused, rollout }
    }
}

/// The most that a pod may ask for in number and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodBounds {
    /// Most of its containers that have a schedule.
    pub containers: usize,
    /// The shortest time from one run that its author asks for to the next.
    pub min_interval: Duration,
}

impl Default for PodBounds {
    /// No bound.
    fn default() -> Self {
        Self { containers: usize::MAX, min_interval: Duration::ZERO }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionSource {
    /// An annotation with this key, which can be shown as it is.
    Annotation(String),
    /// A policy of the cluster, by kind and name, which can be shown as they are.
    Policy(String),
    /// The cluster's ConfigMap, by the class that the pod's label names.
    ConfigMap,
    /// The operator's default for the container's class.
    Default,
}

impl fmt::Display for DecisionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation(key) => write!(f, "annotation {key}"),
            Self::Policy(name) => f.write_str(name),
            Self::ConfigMap => f.write_str("the ConfigMap of the cluster"),
            Self::Default => f.write_str("the default of its class"),
        }
    }
}

/// Decides about a container. The first of these sources that has a policy decides alone; nothing is merged:
///
/// 1. a policy of the cluster that is enforced
/// 2. `numaloc.io/policy.container.<name>`
/// 3. `numaloc.io/policies`, the entry of the container
/// 4. `numaloc.io/policy`
/// 5. `koordinator.sh/memoryLocality`
/// 6. a policy of the pod's namespace
/// 7. a policy of the cluster
/// 8. the cluster's ConfigMap, by the class in the label `koordinator.sh/qosClass`, whether it is trusted or not
/// 9. the operator's default for the container's class
///
/// The requests of 2 to 6 are bounded by a policy of the cluster that has bounds, else by the operator's ceilings;
/// [`Decision::notes`] lists the reductions.
///
/// # Errors
/// The first annotation that exists cannot be parsed. Nothing is done for the container then: its intent is unknown,
/// and the pod did not ask for another source. A policy that is enforced decides without a look at annotations.
pub fn decide<'a>(
    pod: &Pod,
    container: &Container,
    sources: impl Into<Sources<'a>>,
) -> Result<Decision, BadAnnotation> {
    let sources = sources.into();
    let Sources { defaults, policies, strategy, offload, be_node_cpu_percent, .. } = sources;
    let class = class_of(pod, container, sources);
    let mut notes: Vec<String> = unknown_keys(pod).collect();
    let policies = policies.map(|all| all.of(pod, container, class)).unwrap_or_default();
    let ceilings = policies.bounds().unwrap_or(&defaults.ceilings);
    let bound = |settings: Option<Settings>, notes: &mut Vec<String>| {
        settings.and_then(|settings| ceilings.bound(settings, class, notes))
    };
    let with_offload = |settings: Settings| match offload {
        Some(offload) => settings.with_offload(offload),
        None => settings,
    };
    let by_label = || strategy?.get(&class::named(pod)?).cloned();
    let by = |policy: &PolicyResource| DecisionSource::Policy(policy.to_string());
    let mut stays = false;
    let mut decided = None;
    let (source, settings) = if let Some(policy) = policies.enforced() {
        decided = Some(policy);
        (by(policy), policy.settings())
    } else if let Some((key, settings)) = asked(pod, container, &mut notes)? {
        let settings = match key == KOORDINATOR_KEY {
            true => settings.map(with_offload),
            false => settings,
        };
        let source = DecisionSource::Annotation(shown(&key, 2 * SHOWN_MAX));
        (source, bound(settings, &mut notes))
    } else if let Some(policy) = policies.of_namespace() {
        decided = Some(policy);
        (by(policy), bound(policy.settings(), &mut notes))
    } else if let Some(policy) = policies.of_cluster() {
        decided = Some(policy);
        (by(policy), policy.settings())
    } else if let Some(settings) = by_label() {
        (DecisionSource::ConfigMap, settings.map(with_offload))
    } else if sources.is_strategy_unknown && class::named(pod).is_some() {
        stays = true;
        (DecisionSource::ConfigMap, None)
    } else {
        (DecisionSource::Default, defaults.of(class).cloned())
    };
    // Other programs read the label, too: of a pod that asks for nothing, it is none of our business.
    if settings.is_some() {
        notes.splice(..0, class::note(pod, class));
    }
    let threshold = be_node_cpu_percent.filter(|_| class == QosClass::Be);
    let settings = settings.map(|settings| match threshold {
        Some(percent) => settings.yielding_above(percent),
        None => settings,
    });
    let bounds = PodBounds { containers: ceilings.containers, min_interval: ceilings.min_interval };
    let policy = decided.map(DecidingPolicy::from);
    Ok(Decision { class, source, settings, stays, policy, notes, bounds })
}

/// The class of a container. Bounds of a policy that is for the class that it has without its label may trust the label.
pub fn class_of(pod: &Pod, container: &Container, sources: Sources<'_>) -> QosClass {
    let Sources { defaults, policies, .. } = sources;
    let class = class::qos_class(pod, container, &defaults.ceilings);
    let policies = policies.map(|all| all.of(pod, container, class)).unwrap_or_default();
    policies.bounds().map_or(class, |bounds| class::qos_class(pod, container, bounds))
}

/// The policy in the annotations, with the key of its annotation: `None` there means that nothing is to be done. `None`
/// altogether if there is no policy.
fn asked(
    pod: &Pod,
    container: &Container,
    notes: &mut Vec<String>,
) -> Result<Option<(String, Option<Settings>)>, BadAnnotation> {
    let key = format!("{CONTAINER_KEY}{}", container.name);
    if let Some(tree) = value(pod, &key, word)? {
        let settings = own::read("", &tree).map_err(|bad| BadAnnotation::value(pod, &key, bad))?;
        return Ok(Some((key, settings)));
    }
    let bad = |problems: Problems| BadAnnotation::value(pod, POLICIES_KEY, problems);
    if let Some(tree) = value(pod, POLICIES_KEY, |_| None)? {
        let Tree::Map(policies) = &tree else {
            let problem = Problem::sort("", "an object with a policy for each container", &tree);
            return Err(bad(problem.into()));
        };
        match policies.get(&container.name) {
            None | Some(Tree::Null) => {}
            Some(policy) => {
                let path = below("", &container.name);
                let settings = own::read(&path, policy).map_err(bad)?;
                return Ok(Some((POLICIES_KEY.to_owned(), settings)));
            }
        }
    }
    let bad = |problem| BadAnnotation::value(pod, POLICY_KEY, problem);
    if let Some(tree) = value(pod, POLICY_KEY, word)? {
        return Ok(Some((POLICY_KEY.to_owned(), own::read("", &tree).map_err(bad)?)));
    }
    let bad = |problem| BadAnnotation::value(pod, KOORDINATOR_KEY, problem);
    let Some(tree) = value(pod, KOORDINATOR_KEY, |_| None)? else { return Ok(None) };
    let settings = match all("", &tree, koordinator::read).map_err(bad)? {
        Says::Do(settings) => Some(*settings),
        Says::Off => None,
        Says::Nothing => {
            notes.push(format!(
                "annotation {KOORDINATOR_KEY} has no key policy, so it has no effect"
            ));
            return Ok(None);
        }
    };
    Ok(Some((KOORDINATOR_KEY.to_owned(), settings)))
}

/// The value of an annotation; `None` if the pod does not have it. `word` may take it before it is read as JSON.
pub(crate) fn value(
    pod: &Pod,
    key: &str,
    word: impl FnOnce(&str) -> Option<Tree>,
) -> Result<Option<Tree>, BadAnnotation> {
    let Some(text) = pod.annotations.get(key) else { return Ok(None) };
    if text.len() > VALUE_MAX {
        return Err(BadAnnotation::too_long(pod, key, VALUE_MAX));
    }
    if let Some(tree) = word(text) {
        return Ok(Some(tree));
    }
    serde_json::from_str(text).map(Some).map_err(|error| BadAnnotation::syntax(pod, key, &error))
}

/// `none` or `bestEffort` without quotes.
fn word(text: &str) -> Option<Tree> {
    let text = text.trim();
    let is_known = own::WANTED.iter().any(|(name, _)| name.eq_ignore_ascii_case(text));
    is_known.then(|| Tree::Text(text.to_owned()))
}

/// Text that is not meant as JSON, without its quotes.
pub(crate) fn text_or_json(text: &str) -> Option<Tree> {
    let text = text.trim();
    let is_json = text.starts_with(['{', '[', '"']);
    (!is_json).then(|| Tree::Text(text.to_owned()))
}

/// Remarks about unknown keys in our own domain: the first few.
fn unknown_keys(pod: &Pod) -> impl Iterator<Item = String> {
    let is_known = |key: &str| {
        [POLICY_KEY, POLICIES_KEY].contains(&key)
            || OTHER_KEYS.contains(&key)
            || key.strip_prefix(CONTAINER_KEY).is_some_and(|name| !name.is_empty())
    };
    let unknown =
        pod.annotations.keys().filter(move |key| key.starts_with("numaloc.io/") && !is_known(key));
    unknown.take(UNKNOWN_MAX).map(|key| {
        let key = shown(key, 2 * SHOWN_MAX);
        format!("annotation {key} is unknown; known are {POLICY_KEY}, {POLICIES_KEY} and {CONTAINER_KEY}<name>")
    })
}

#[cfg(test)]
mod tests;
