//! Bounds of fields that several messages have, and the forms of names.

use std::time::Duration;

/// Longest name of a client in bytes.
pub const CREATOR_MAX: usize = 256;
/// Longest etag that a request may carry, in bytes.
pub const ETAG_MAX: usize = 64;
/// Longest `request_id` that a request may carry, in bytes.
pub const REQUEST_ID_MAX: usize = 64;
/// Most paths of a field mask.
pub const PATHS_MAX: usize = 32;
/// Longest duration in any request.
pub const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// The form of a job's name.
pub const JOB: &str = "a name of the form jobs/{id}";
/// The form of a schedule's name.
pub const SCHEDULE: &str = "a name of the form schedules/{id}";
/// The form of an event's name.
pub const EVENT: &str = "a name of the form events/{number}";
/// The form of a workload's name.
pub const WORKLOAD: &str = "a name of the form workloads/{id}";
