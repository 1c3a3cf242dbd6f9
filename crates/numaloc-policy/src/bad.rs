//! Annotations that cannot be understood.

use crate::{EventKind, PodEvent, Reason};
use std::fmt;

/// An annotation that cannot be understood. It can be shown as it is: whatever the pod's author wrote, control characters are
/// escaped, and long texts are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAnnotation {
    /// `namespace/name` of the pod.
    pub pod: String,
    /// Key of the annotation.
    pub key: String,
    /// Where in its value.
    pub position: Position,
    /// What is wrong there.
    pub problem: String,
    /// What to write instead; empty if there is nothing to say.
    pub hint: String,
}

/// A place in an annotation's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// All of it.
    Whole,
    /// In its text: line and column, both from 1.
    Text {
        /// Line.
        line: usize,
        /// Column in bytes.
        column: usize,
    },
    /// A value in the JSON, such as `options.to_nodes[1]`.
    Path(String),
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

impl fmt::Display for BadAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, key, position, problem, hint } = self;
        write!(f, "pod {pod}: annotation {key}{position}: {problem}")?;
        if !hint.is_empty() {
            write!(f, "; {hint}")?;
        }
        f.write_str("; nothing is moved until this is corrected")
    }
}

impl std::error::Error for BadAnnotation {}

impl BadAnnotation {
    /// The event for the pod.
    pub fn event(&self) -> PodEvent {
        PodEvent { kind: EventKind::Warning, reason: Reason::Failed, message: self.to_string() }
    }
}
