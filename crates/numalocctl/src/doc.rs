//! Documents: what commands found, in the stable form that `-o json` prints (docs/json.md).
//!
//! They are separate from the core's types so that those may change without breaking readers. Rules: bytes and
//! node ids are integers, names are snake_case with the unit at the end, lists are sorted by node or kept in the
//! order of the work, and fields are only ever added.

mod check;
mod locality;
mod migration;
mod parts;
mod plan;
mod topology;

pub use check::{Check, DoctorDoc};
pub use locality::{LocalityDoc, PlacedDoc, ProcessDoc};
pub use migration::{End, MigrationDoc, MigrationParts};
pub use parts::{LocalityPair, NodeDistance, RouteDoc};
pub use plan::{MappingDoc, MoveDoc, PlanDoc};
pub use topology::{NodeDoc, TopologyDoc};
