//! Annotations that cannot be parsed.

use crate::{EventKind, EventReason, MEMORY_POLICY_KEY, NUMA_BALANCING_KEY, Pod, PodEvent};
use numaloc_config::written::{Problem, Problems, SHOWN_MAX, shown};
use std::fmt;

/// Longest namespace, name and key that a message repeats, in characters: as long as Kubernetes allows.
const NAME_MAX: usize = 253;

/// An annotation that cannot be parsed. It can be shown as it is: whatever the pod's author wrote, characters that are
/// not printed are escaped, and long texts are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAnnotation {
    /// The pod that has it, as `namespace/name`.
    pub pod: String,
    /// The annotation's key, which is one of ours.
    pub key: String,
    /// Place of the error in the annotation's value.
    pub position: Position,
    /// The error, and the expected form.
    pub problem: String,
    /// The correct form, and further errors; empty if there is none to suggest.
    pub hint: String,
}

/// A place in an annotation's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// The value as a whole.
    Whole,
    /// In its text: line and column, both from 1. Columns are bytes.
    Text { line: usize, column: usize },
    /// A value in the JSON, such as `options.to_nodes[1]`.
    Path(String),
}

impl Position {
    pub(crate) fn of(path: String) -> Self {
        if path.is_empty() { Self::Whole } else { Self::Path(path) }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Text { line, column } => write!(f, ", line {line} column {column}"),
            Self::Path(path) => write!(f, ", {path}"),
        }
    }
}

/// Place and reason of an error in a text that is not valid JSON.
pub(crate) fn syntax(error: &serde_json::Error) -> (Position, String) {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let problem = text.strip_suffix(&format!(" at line {line} column {column}"));
    (Position::Text { line, column }, shown(problem.unwrap_or(&text), 4 * SHOWN_MAX))
}

impl fmt::Display for BadAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, key, position, problem, hint } = self;
        write!(f, "pod {pod}: annotation {key}{position}: {problem}")?;
        if !hint.is_empty() {
            write!(f, "; {hint}")?;
        }
        write!(f, "; {}", usage(key).1)
    }
}

/// A value of an annotation, and what does not happen without a valid one.
fn usage(key: &str) -> (&'static str, &'static str) {
    match key {
        MEMORY_POLICY_KEY => {
            (r#"{"server": "preferred"}"#, "containers get no memory policy by it")
        }
        NUMA_BALANCING_KEY => (r#"{"server": "exempt"}"#, "containers get no memory policy by it"),
        _ => (r#"{"policy": "bestEffort"}"#, "no memory is moved by it"),
    }
}

impl std::error::Error for BadAnnotation {}

impl BadAnnotation {
    fn new(pod: &Pod, key: &str, position: Position, problem: String, hint: String) -> Self {
        let name = |name: &str| shown(name, NAME_MAX);
        let pod = format!("{}/{}", name(&pod.namespace), name(&pod.name));
        Self { pod, key: name(key), position, problem, hint }
    }

    /// The value is too long to be read.
    pub(crate) fn too_long(pod: &Pod, key: &str, most: usize) -> Self {
        let problem = format!("is longer than {most} bytes");
        Self::new(pod, key, Position::Whole, problem, String::new())
    }

    /// The value is not valid JSON.
    pub(crate) fn syntax(pod: &Pod, key: &str, error: &serde_json::Error) -> Self {
        let (position, problem) = syntax(error);
        let hint = format!("write JSON such as {}", usage(key).0);
        Self::new(pod, key, position, problem, hint)
    }

    /// Something in the JSON is wrong.
    pub(crate) fn value(pod: &Pod, key: &str, problems: impl Into<Problems>) -> Self {
        let Problem { path, problem, hint } = problems.into().in_one();
        Self::new(pod, key, Position::of(path), problem, hint)
    }

    pub fn event(&self) -> PodEvent {
        PodEvent {
            kind: EventKind::Warning,
            reason: EventReason::Failed,
            message: self.to_string(),
        }
    }
}
