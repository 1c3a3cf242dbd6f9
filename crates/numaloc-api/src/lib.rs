//! The gRPC API of numaloc: generated code ([`v1`]) for what `proto/numaloc/v1` defines, checked values ([`value`]) for
//! requests and records, and the conversions between the two (`From` and `TryFrom`, all in `convert`).
//!
//! Generated types stop here: a service converts a request into a value, works with values, and converts its answer back.
//!
//! | modules | what they hold |
//! |---|---|
//! | [`v1`] | generated messages, clients and servers |
//! | [`value`] | requests that have been checked, and the daemon's records |
//! | `convert` | all conversions; its first lines say which file has which |
//! | `violation` | what is wrong with a request, field by field |
//! | `described`, `json` | descriptions of messages, and messages as JSON: each behind a feature |
//! | `written` | messages as people write them, in JSON, YAML and TOML: behind the feature of their descriptions |
//! | `cause`, `fnv` | the innermost cause of an error, and a hash that may be stored |
//! | [`encoded`] | lists of jobs that are encoded already |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cause;
mod ceilings;
mod convert;
#[cfg(any(test, feature = "reflect"))]
mod described;
pub mod encoded;
mod fnv;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
#[cfg(any(test, feature = "json"))]
mod json;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
pub mod value;
mod violation;
#[cfg(any(test, feature = "reflect"))]
pub mod written;

pub use cause::innermost;
pub use ceilings::{Ceilings, Excess};
pub use convert::{
    AdviceView, Damaged, Known, LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX, LocalityView,
    STALL_MAX, STALL_MIN, SnapshotView, Stored, WorkingJob, event_number, moved_of, timestamp,
};
#[cfg(feature = "reflect")]
pub use described::descriptor;
pub use fnv::Fnv;
pub use violation::{DOMAIN, Problem, Violation, Violations};

/// The `source` of the workloads that numaloc-nri registers.
pub const NRI_SOURCE: &str = "nri";
/// The label of these workloads that says by which way their containers were told: `nri`, or `containerd` (its own events).
pub const TOLD_BY_LABEL: &str = "numaloc.io/told-by";

/// Generated messages, clients and servers. Their documentation is in the proto files.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("numaloc.v1");
}

/// The definitions of `numaloc.v1` and of its imports, for gRPC reflection: an encoded
/// `google.protobuf.FileDescriptorSet` with comments.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/numaloc.v1.bin"));
