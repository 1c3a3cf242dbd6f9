//! Policies for pods: what a pod asks for, and what its operator allows, becomes one decision for each container; what became
//! of it becomes events and a status. Nothing here does IO or reads a clock. `numaloc-nri` uses it, and a node agent for
//! Kubernetes may.
#![forbid(unsafe_code)]

mod bad;
mod ceilings;
mod decide;
mod event;
mod pod;
mod result;
mod settings;
mod status;

pub use bad::{BadAnnotation, Position};
pub use ceilings::Ceilings;
pub use decide::{Decision, Defaults, Source, decide};
pub use event::{EventKind, PodEvent, PodResult, Reason};
pub use pod::{Container, Pod, Resources};
pub use result::{ContainerResult, Verdict};
pub use settings::Settings;
pub use status::{LastResult, Phase, STATUS_KEY, Status};
