//! What becomes of records that are watched.

use serde::Serialize;

/// What `jobs ls -w`, `schedules ls -w` and `workloads ls -w` show, one by one.
#[derive(Clone, Debug, Serialize)]
pub struct ChangeDoc<D> {
    /// `present`, `removed`, or `caught_up`: all that there was has been told.
    pub change: String,
    /// The record's name; null with `caught_up`.
    pub name: Option<String>,
    /// The record; null unless it is there.
    pub record: Option<D>,
}
