//! The document of `drain-node`.

use numaloc_api::v1;
use serde::Serialize;

/// What was on a node, what has moved, and what is left.
#[derive(Clone, Debug, Serialize)]
pub struct DrainNodeDoc {
    pub before: v1::NodeContents,
    /// The plans of `--dry-run`: of processes, and of files if some are named.
    pub plans: Vec<v1::PlanMigrationResponse>,
    /// The migrations: of processes, and of files if some are named.
    pub jobs: Vec<v1::Job>,
    /// Null with `--dry-run`.
    pub after: Option<v1::NodeContents>,
}
