//! What follows from changes that share one commit, and their answers: both are put off until it is known whether the changes
//! are stored.

use crate::refusal::Refusal;
use std::fmt;

/// What follows from a change for `S`.
pub type Effect<S> = Box<dyn FnOnce(&mut S) + Send>;

/// Answers a change. The argument says why it could not be stored, if it could not.
pub type CommitAnswer = Box<dyn FnOnce(Option<&Refusal>) + Send>;

/// What is to be done once changes are stored.
pub struct CommitGroup<S> {
    /// What follows if they are stored, in the order of the changes.
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
