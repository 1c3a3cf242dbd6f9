//! The declarations of a cluster's operator for all nodes in a ConfigMap, in Koordinator's form: `resource-qos-config`
//! with a strategy for each class, and others for some nodes; `dsa-accelerate-config`; and `resource-threshold-config`.
//!
//! The same ConfigMap configures other programs, so keys that are not known are ignored. Known keys have to be right as
//! a whole: half of a configuration is not the intended one.

mod by_node;
mod threshold;

pub use threshold::{THRESHOLD_CONFIG_KEY, ThresholdConfig};

use crate::{
    Settings,
    bad::{Position, syntax},
    koordinator::{self, Says},
};
use by_node::ByNode;
use numaloc_api::value::QosClass;
use numaloc_config::written::{Problem, Problems, Tree, all, below};
use numaloc_core::Offload;
use std::{collections::BTreeMap, fmt};

/// The key of the ConfigMap with the strategies.
pub const QOS_CONFIG_KEY: &str = "resource-qos-config";
/// The ConfigMap's key for copying by DMA engines.
pub const DSA_CONFIG_KEY: &str = "dsa-accelerate-config";

/// Longest value that is read, in bytes: as long as a ConfigMap may be.
const VALUE_MAX: usize = 1 << 20;
/// The classes, with the keys of their strategies.
const CLASSES: [(QosClass, &str); 3] =
    [(QosClass::Lsr, "lsrClass"), (QosClass::Ls, "lsClass"), (QosClass::Be, "beClass")];

/// An error in a ConfigMap's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadConfigMap {
    pub key: &'static str,
    /// Place of the error in the value.
    pub position: Position,
    /// The error; safe to show unescaped.
    pub problem: String,
    /// The correct form, and further errors; empty if there is none to suggest.
    pub hint: String,
}

impl fmt::Display for BadConfigMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, position, problem, hint } = self;
        let separator = if hint.is_empty() { "" } else { "; " };
        write!(f, "key {key}{position}: {problem}{separator}{hint}")
    }
}

impl std::error::Error for BadConfigMap {}

/// The strategies of a cluster: settings for pods by the class that their label names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QosConfig(ByNode<ClassStrategy>);

/// The settings of each class; a class that is missing is not decided.
pub type ClassStrategy = BTreeMap<QosClass, Option<Settings>>;

impl QosConfig {
    /// Reads the value of [`QOS_CONFIG_KEY`].
    ///
    /// # Errors
    /// All mistakes.
    pub fn read(text: &str) -> Result<Self, BadConfigMap> {
        let bad = |problems| BadConfigMap::value(QOS_CONFIG_KEY, problems);
        all("", &tree(QOS_CONFIG_KEY, text)?, Self::of).map_err(bad)
    }

    fn of(tree: &Tree) -> Result<Self, Problem> {
        let wanted = ByNode::read(tree, Wanted::of, Wanted::over)?;
        wanted.try_map(|wanted| wanted.read()).map(Self)
    }

    /// The strategy for a node with these labels: the first that selects it, or the cluster's.
    pub fn for_node(&self, labels: &BTreeMap<String, String>) -> &ClassStrategy {
        self.0.for_node(labels)
    }
}

/// The fields of `memoryLocality` by class, each with its path.
struct Wanted(BTreeMap<QosClass, BTreeMap<String, (String, Tree)>>);

impl Wanted {
    /// Parses the strategy at `path`.
    fn of(path: &str, strategy: &Tree) -> Result<Self, Problem> {
        let mut wanted = BTreeMap::new();
        for (class, key) in CLASSES {
            let (path, of_class) = field(path, strategy, key)?;
            let (path, locality) = field(&path, of_class, "memoryLocality")?;
            match locality {
                Tree::Null => {}
                Tree::Map(fields) => {
                    let one = |(name, value): (&String, &Tree)| {
                        (name.to_ascii_lowercase(), (below(&path, name), value.clone()))
                    };
                    wanted.insert(class, fields.iter().map(one).collect());
                }
                other => return Err(Problem::sort(&path, "an object", other)),
            }
        }
        Ok(Self(wanted))
    }

    /// These fields, and those of `others` that are not among them.
    fn over(mut self, others: &Self) -> Self {
        for (class, fields) in &others.0 {
            let ours = self.0.entry(*class).or_default();
            for (name, value) in fields {
                if ours.get(name).is_none_or(|(_, ours)| *ours == Tree::Null) {
                    ours.insert(name.clone(), value.clone());
                }
            }
        }
        self
    }

    fn read(&self) -> Result<ClassStrategy, Problem> {
        let mut strategy = ClassStrategy::new();
        for (class, fields) in &self.0 {
            let one =
                |(name, (_, value)): (&String, &(String, Tree))| (name.clone(), value.clone());
            let tree = Tree::Map(fields.iter().map(one).collect());
            let said = koordinator::read(&tree).map_err(|problem| {
                let path = fields.get(&problem.path.to_ascii_lowercase()).map(|(path, _)| path);
                Problem { path: path.unwrap_or(&problem.path).clone(), ..problem }
            })?;
            match said {
                Says::Nothing => {}
                Says::Off => drop(strategy.insert(*class, None)),
                Says::Do(settings) => drop(strategy.insert(*class, Some(*settings))),
            }
        }
        Ok(strategy)
    }
}

/// Whether DMA engines copy, by the value of [`DSA_CONFIG_KEY`]; `None`: not specified.
///
/// # Errors
/// The first error in the value.
pub fn read_dsa_config(text: &str) -> Result<Option<Offload>, BadConfigMap> {
    let tree = tree(DSA_CONFIG_KEY, text)?;
    let read = || -> Result<_, Problem> {
        let (path, strategy) = field("", &tree, "clusterStrategy")?;
        let offload = |is| if is { Offload::Auto } else { Offload::Off };
        Ok(enable(&path, strategy)?.map(offload))
    };
    read().map_err(|problem| BadConfigMap::value(DSA_CONFIG_KEY, problem))
}

/// Whether the strategy at `path` is enabled; `None`: it does not say.
fn enable(path: &str, strategy: &Tree) -> Result<Option<bool>, Problem> {
    let (path, enable) = field(path, strategy, "enable")?;
    match enable {
        Tree::Null => Ok(None),
        Tree::Flag(is) => Ok(Some(*is)),
        other => Err(Problem::sort(&path, "true or false", other)),
    }
}

fn tree(key: &'static str, text: &str) -> Result<Tree, BadConfigMap> {
    let bad = |(position, problem)| BadConfigMap { key, position, problem, hint: String::new() };
    if text.len() > VALUE_MAX {
        return Err(bad((Position::Whole, format!("is longer than {VALUE_MAX} bytes"))));
    }
    serde_json::from_str(text).map_err(|error| bad(syntax(&error)))
}

/// A field of the object at `path`, with its own path. The case of its name does not count, as for Go's encoding/json.
/// `null` if it is missing, or if there is no object.
fn field<'t>(path: &str, tree: &'t Tree, name: &str) -> Result<(String, &'t Tree), Problem> {
    let own = below(path, name);
    match tree {
        Tree::Null => Ok((own, &Tree::Null)),
        Tree::Map(map) => {
            let mut named = map.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            let found = named.next().map_or(&Tree::Null, |(_, value)| value);
            match named.next() {
                Some(_) => Err(Problem::new(&own, "is there twice", "")),
                None => Ok((own, found)),
            }
        }
        other => Err(Problem::sort(path, "an object", other)),
    }
}

impl BadConfigMap {
    fn value(key: &'static str, problems: impl Into<Problems>) -> Self {
        let Problem { path, problem, hint } = problems.into().in_one();
        Self { key, position: Position::of(path), problem, hint }
    }
}

#[cfg(test)]
mod tests;
