//! Effects and answers of changes that share one commit: both are put off until it is known whether the changes are
//! stored.

use crate::refusal::Refusal;
use std::fmt;

/// An effect of a change on `S`.
pub type Effect<S> = Box<dyn FnOnce(&mut S) + Send>;

/// Answers a change. The argument says why it could not be stored, if it could not.
pub type CommitAnswer = Box<dyn FnOnce(Option<&Refusal>) + Send>;

/// Work that is put off until changes are stored.
pub struct CommitGroup<S> {
    /// Run if the changes are stored, in their order.
    pub effects: Vec<Effect<S>>,
    /// The answers, in the order of the changes.
    pub answers: Vec<CommitAnswer>,
}

impl<S> Default for CommitGroup<S> {
    fn default() -> Self {
        Self { effects: Vec::new(), answers: Vec::new() }
    }
}

impl<S> fmt::Debug for CommitGroup<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("answers", &self.answers.len()).finish_non_exhaustive()
    }
}
