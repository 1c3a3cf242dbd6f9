//! Documents that `-o json` prints where the API has no message: what only this program shows (docs/json.md). Bytes and
//! node ids are integers; names are snake_case with the unit at the end.

mod advise;
mod bench;
mod check;
mod drain_node;
mod dsa;
mod explain;
mod map;
mod parts;
mod relieve;
mod top;

pub use advise::{
    AdviceAppliedDoc, AdviceUndoneDoc, AppliedFinding, FindingEnd, UndoEnd, UndoneChange,
};
pub use bench::{
    BenchDoc, LeftOutDoc, PairDoc, PlacementBenchDoc, PlacementRunDoc, StorageBenchDoc,
    StorageRunDoc,
};
pub use check::{Check, DoctorDoc};
pub use drain_node::DrainNodeDoc;
pub use dsa::{DsaDeviceDoc, DsaDoc, WorkQueueDoc};
pub use explain::{ExplainDoc, ExplainedSchedule, Sought};
pub use map::MapDoc;
pub use parts::NodeBytes;
pub use relieve::RelieveDoc;
pub use top::{
    DetailDoc, MappingDoc, ThreadDoc, TopDoc, TopNodeDoc, TopRowDoc, TopSource, TrafficDoc,
};

use serde::Serialize;

/// The document of `backup`, which `-o json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct BackupDoc {
    pub file: String,
    pub bytes: u64,
}

/// The output of `schedules apply`.
#[derive(Clone, Debug, Serialize)]
pub struct AppliedDoc {
    /// The records that the file declares, and the removed ones, by name.
    pub applied: Vec<AppliedRecord>,
    /// Whether this was only checked.
    pub dry_run: bool,
}

/// A record, and the change to it.
#[derive(Clone, Debug, Serialize)]
pub struct AppliedRecord {
    pub name: String,
    pub change: Change,
}

/// A file's change to a record, in kubectl's words.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Created,
    Configured,
    Unchanged,
    Pruned,
}

/// The output of `jobs delete`, `schedules delete` and `workloads unregister`.
#[derive(Clone, Debug, Serialize)]
pub struct RemovedDoc {
    /// Names of the records that were removed.
    pub removed: Vec<String>,
}
