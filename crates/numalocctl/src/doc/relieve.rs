//! The document of `relieve`.

use numaloc_api::v1;
use serde::Serialize;

/// How much of a node was free, what has moved, and how much is free now.
#[derive(Clone, Debug, Serialize)]
pub struct RelieveDoc {
    pub node_id: u32,
    /// How much was to be free; null with `--bandwidth`.
    pub wanted_free_bytes: Option<u64>,
    /// How much of the node's memory was to be used each second at most; null with `--free`.
    pub wanted_bytes_per_second: Option<u64>,
    pub free_before_bytes: u64,
    /// Null with `--dry-run`.
    pub free_after_bytes: Option<u64>,
    /// The plan of `--dry-run`.
    pub plan: Option<v1::PlanMigrationResponse>,
    /// The migration; null with `--dry-run`.
    pub job: Option<v1::Job>,
}
