//! The documents of `advise --apply` and `advise --undo`.

use numaloc_api::v1;
use serde::Serialize;

/// What `advise --apply` shows.
#[derive(Clone, Debug, Serialize)]
pub struct AdviceAppliedDoc {
    /// The findings in the order in which they are carried out.
    pub applied: Vec<AppliedFinding>,
    /// Whether nothing was carried out, because only that was asked for.
    pub dry_run: bool,
}

/// A finding, and its result.
#[derive(Clone, Debug, Serialize)]
pub struct AppliedFinding {
    pub finding: v1::Finding,
    pub end: FindingEnd,
    /// What got worse or failed; empty: nothing.
    pub reason: String,
    /// The percentage of its memory on the nodes that become its home, before and after; `null` if it is not known.
    pub local_percent_before: Option<f64>,
    pub local_percent_after: Option<f64>,
    /// What was changed for it and taken back at once, because it got worse.
    pub undone: Vec<UndoneChange>,
}

/// How far a finding was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingEnd {
    /// All of its commands.
    Done,
    /// All of its commands, but some memory stayed.
    Partly,
    /// It got worse, and what was changed for it was taken back.
    Worse,
    /// A command failed, and what was changed for it was taken back.
    Failed,
    /// It had ended before its turn.
    Gone,
    /// It was not its turn.
    NotDone,
}

/// What `advise --undo` shows.
#[derive(Clone, Debug, Serialize)]
pub struct AdviceUndoneDoc {
    /// The changes of the last `advise --apply`, the last one first.
    pub undone: Vec<UndoneChange>,
    /// Whether nothing was taken back, because only that was asked for.
    pub dry_run: bool,
}

/// A change, and what has become of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UndoneChange {
    /// What was changed.
    pub change: String,
    pub end: UndoEnd,
    /// What it is now, or why it could not be taken back; empty: it is as it was.
    pub reason: String,
}

/// What has become of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoEnd {
    /// Not yet: only shown.
    Planned,
    /// It is as it was.
    Undone,
    /// Some memory is elsewhere than before.
    Partly,
    /// What was changed no longer exists.
    Gone,
    /// Somebody else has changed it since, so it was left.
    Changed,
    /// It could not be taken back; the next `--undo` tries again.
    Failed,
}
