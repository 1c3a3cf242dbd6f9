//! Documents: what commands found, in the stable form that `-o json` prints (docs/json.md).
//!
//! They are separate from the core's types, so that those types can change without breaking readers. Rules: bytes and node
//! ids are integers; names are snake_case with the unit at the end; lists are sorted by node or have the order of the work;
//! fields are only ever added.

mod account;
mod advise;
mod change;
mod check;
mod dsa;
mod event;
mod failed;
mod job;
mod locality;
mod map;
mod member;
mod migration;
mod missing;
mod offload;
mod options;
mod partner;
mod parts;
mod plan;
mod schedule;
mod spec;
mod status;
mod top;
mod topology;
mod workload;

pub use account::AccountDoc;
pub use advise::{AdviceDoc, FindingDoc, hundredths};
pub use change::ChangeDoc;
pub use check::{Check, DoctorDoc};
pub use dsa::{DsaDeviceDoc, DsaDoc, WorkQueueDoc};
pub use event::{EventDoc, EventsDoc};
pub use failed::FailedDoc;
pub use job::{JobDoc, JobsDoc, ProgressDoc};
pub use locality::{LocalityDoc, PlacedDoc, ProcessDoc, WideThreadDoc, skip_name};
pub use map::MapDoc;
pub use member::MemberDoc;
pub use migration::{CallsDoc, End, MigrationDoc, MigrationParts, MovedDoc, rate};
pub use missing::MissingDoc;
pub use offload::OffloadDoc;
pub use options::OptionsDoc;
pub use partner::PartnerDoc;
pub use parts::{FlowDoc, LeftDoc, LocalityPair, NodeBytes, NodeDistance, RouteDoc, Why};
pub use plan::{MappingDoc, MoveDoc, MoveSumDoc, PlanDoc, RoomDoc, SkipSumDoc, SkippedDoc, after};
pub use schedule::{ScheduleDoc, SchedulesDoc};
pub use spec::{LabelConditionDoc, LimitsDoc, SpecDoc, TargetDoc, TargetProcessDoc};
pub use status::{BackupDoc, CeilingsDoc, HoldsDoc, JobCount, StatusDoc};
pub use top::{MovedFlows, Moving, TopDoc, TopNodeDoc, TopRowDoc, TopSource};
pub use topology::{NodeDoc, TopologyDoc};
pub use workload::{RemovedDoc, RenewedDoc, ReplacedDoc, WorkloadDoc, WorkloadsDoc};
