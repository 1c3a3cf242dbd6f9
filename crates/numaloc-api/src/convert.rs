//! All conversions. `spec` and `request` make values of requests, `client` makes requests of values. `topology`,
//! `locality`, `contents`, `live`, `advice`, `plan`, `outcome` and `record` make answers of values; `stored` and `ended` make values of answers and
//! stored records. `policy`, `placement` and `relief` go both ways. `check` and `labels` check single fields, and
//! `bounds` has what is bounded alike in several messages.

mod advice;
mod bounds;
mod check;
mod client;
mod contents;
mod ended;
mod files;
mod labels;
mod live;
mod locality;
mod member;
mod names;
mod outcome;
mod placement;
mod plan;
mod policy;
mod record;
mod relief;
mod request;
mod schedule;
mod selector;
mod spec;
mod stored;
mod topology;
mod workload;

pub use advice::AdviceView;
pub use labels::{LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX};
pub use live::{SnapshotView, WorkingJob, moved_of};
pub use locality::LocalityView;
pub use names::{Known, event_number, timestamp};
pub use policy::{STALL_MAX, STALL_MIN};
pub use stored::{Damaged, Stored};

#[cfg(test)]
mod tests;
