//! Changes that wait at the same moment share one commit, so that the disk is synchronized once for all of them. A large one
//! (`task` says what that is) shares it with none.
//!
//! Each change is made to the book as if the changes before it were stored. It is answered when all are stored. If they
//! cannot be stored, the book is put back and none of them has happened. Questions are never answered from a book that is
//! ahead of the disk.

use super::{
    command::{DispatchWork, Reply},
    dispatcher::Dispatcher,
    group::CommitGroup,
};
use crate::{refusal::Refusal, store::Write};

impl Dispatcher {
    /// Stores `writes`, all or none, and only then takes them over into the book. Within a group, writes are taken over at
    /// once and stored when the group ends; all other effects of a change have to go through [`Self::then`].
    ///
    /// # Errors
    /// There is no room, or the store cannot be written. Nothing has changed.
    pub(super) fn commit(&mut self, writes: Vec<Write>) -> Result<(), Refusal> {
        self.records.commit(writes, &*self.edges.measured)?;
        // A group has changed nothing before its end.
        self.changed |= !self.records.has_draft();
        Ok(())
    }

    /// Makes changes that wait together, in one commit.
    pub(super) fn on_changes(&mut self, changes: Vec<DispatchWork<Self>>) {
        if changes.is_empty() {
            return;
        }
        self.records.begin_draft();
        self.group = Some(CommitGroup::default());
        changes.into_iter().for_each(|change| change(self));
        let CommitGroup { effects, answers } = self.group.take().unwrap_or_default();
        let stored = self.records.store_draft(&*self.edges.measured);
        match &stored {
            Ok(any) => {
                self.changed |= any;
                effects.into_iter().for_each(|effect| effect(self));
            }
            Err(_) => {
                let known = self.records.jobs();
                self.open.keep(|number| known.contains_key(&number));
            }
        }
        answers.into_iter().for_each(|answer| answer(stored.as_ref().err()));
    }

    /// Runs `effect` once the change is stored: when the group is, or now if there is no group.
    pub(super) fn then(&mut self, effect: impl FnOnce(&mut Self) + Send + 'static) {
        match &mut self.group {
            Some(group) => group.effects.push(Box::new(effect)),
            None => effect(self),
        }
    }

    /// Answers a change once its group is stored, or now if there is no group.
    pub(super) fn answer<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        answer: Result<T, Refusal>,
    ) {
        let send = move |failed: Option<&Refusal>| {
            // A refusal, too, may be due to changes of the group that have not been made: it may name a job that does not exist.
            let answer = match failed {
                Some(refusal) => Err(refusal.clone()),
                None => answer,
            };
            // This fails only if the caller has gone.
            let _ = reply.send(answer);
        };
        match &mut self.group {
            Some(group) => group.answers.push(Box::new(send)),
            None => send(None),
        }
    }
}
