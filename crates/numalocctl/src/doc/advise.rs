//! The documents of `advise --apply` and `advise --undo`.

use numaloc_api::v1;
use serde::Serialize;

/// The output of `advise --apply`.
#[derive(Clone, Debug, Serialize)]
pub struct AdviceAppliedDoc {
    /// The findings in the order in which they are carried out.
    pub applied: Vec<AppliedFinding>,
    /// Whether this was a dry run, which carries nothing out.
    pub dry_run: bool,
}

/// A finding, and its result.
#[derive(Clone, Debug, Serialize)]
pub struct AppliedFinding {
    pub finding: v1::Finding,
    pub end: FindingEnd,
    /// The thing that got worse or failed; empty: nothing.
    pub reason: String,
    /// The percentage of its memory on the nodes that become its home, before and after; `null` if it is not known.
    pub local_percent_before: Option<f64>,
    pub local_percent_after: Option<f64>,
    /// Changes that were made for it and taken back at once, because it got worse.
    pub undone: Vec<UndoneChange>,
}

/// The extent to which a finding was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingEnd {
    /// All of its commands.
    Done,
    /// All of its commands, but some memory stayed.
    Partly,
    /// It got worse, and its changes were taken back.
    Worse,
    /// A command failed, and its changes were taken back.
    Failed,
    /// It had ended before its turn.
    Gone,
    /// It was not its turn.
    NotDone,
}

/// The output of `advise --undo`.
#[derive(Clone, Debug, Serialize)]
pub struct AdviceUndoneDoc {
    /// The changes of the last `advise --apply`, the last one first.
    pub undone: Vec<UndoneChange>,
    /// Whether this was a dry run, which takes nothing back.
    pub dry_run: bool,
}

/// A change, and the result of taking it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UndoneChange {
    pub change: String,
    pub end: UndoEnd,
    /// Its present value, or the reason why it could not be taken back; empty: it is restored.
    pub reason: String,
}

/// The result of taking a change back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoEnd {
    /// Not yet: only shown.
    Planned,
    /// It is as it was.
    Undone,
    /// Some memory is elsewhere than before.
    Partly,
    /// The changed file no longer exists.
    Gone,
    /// Another program has changed it since, so it was left.
    Changed,
    /// It could not be taken back; the next `--undo` tries again.
    Failed,
}
