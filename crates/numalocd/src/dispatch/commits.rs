//! Changes that wait at the same moment share one commit, so that the disk is synchronized once for all of them. A
//! large one (`task` says what that is) shares it with none.
//!
//! Each change is made to the book as if the changes before it were stored. It is answered when all are stored. If they
//! cannot be stored, the book is put back and none of them has happened. Questions are never answered from a book that
//! is ahead of the disk.

use super::{
    command::{DispatchWork, Reply},
    dispatcher::Dispatcher,
    group::CommitGroup,
};
use crate::{
    accounts::Client,
    refusal::Refusal,
    store::{Weight, Write},
};
use tokio::time::Instant;

/// Approximate bound, in bytes, of the changes that share a commit. A larger change gets a commit of its own: if the
/// disk has no room for it, changes of other clients do not fail with it.
pub(super) const COMMIT_BYTES: usize = 1 << 20;

impl Dispatcher {
    /// Stores `writes`, all or none, and only then takes them over into the book. Within a group, writes are taken over
    /// at once and stored when the group ends; all other effects of a change have to go through [`Self::then`].
    ///
    /// # Errors
    /// No room is left, or the store cannot be written. Nothing has changed.
    pub(super) fn commit(&mut self, writes: Vec<Write>) -> Result<(), Refusal> {
        let is_event = |write: &&Write| matches!(write, Write::Event(_));
        self.event_bytes += writes.iter().filter(is_event).map(Weight::weight).sum::<usize>();
        self.records.commit(writes, &*self.edges.measured)?;
        // A group has changed nothing before its end.
        self.changed |= !self.records.has_draft();
        Ok(())
    }

    /// Makes changes that wait together, in one commit, or in several if they write more than [`COMMIT_BYTES`].
    pub(super) fn on_changes(&mut self, changes: Vec<DispatchWork<Self>>) {
        let mut changes = changes.into_iter();
        while let Some(first) = changes.next() {
            self.commit_together(first, &mut changes);
        }
    }

    /// Makes a change and, in the same commit, the others that fit into it.
    fn commit_together(
        &mut self,
        first: DispatchWork<Self>,
        others: &mut impl Iterator<Item = DispatchWork<Self>>,
    ) {
        self.records.begin_draft();
        self.group = Some(CommitGroup::default());
        first(self);
        while self.records.drafted_bytes() < COMMIT_BYTES
            && let Some(change) = others.next()
        {
            change(self);
        }
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

    /// Makes a change of `client`, and charges it what it writes.
    ///
    /// # Errors
    /// Those of `change`. [`Refusal::TooFast`]: the client, or all clients, have written too much of late.
    pub(super) fn charged<T>(
        &mut self,
        client: &Client,
        change: impl FnOnce(&mut Self) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.records.used().accounts().check_written(client, Instant::now().into_std())?;
        let before = self.records.drafted_bytes();
        let done = change(self);
        let bytes = self.records.drafted_bytes().saturating_sub(before);
        self.records.used().accounts().charge_written(client, bytes, Instant::now().into_std());
        done
    }

    /// Runs `effect` once the change is stored: when the group is, or now without a group.
    pub(super) fn then(&mut self, effect: impl FnOnce(&mut Self) + Send + 'static) {
        match &mut self.group {
            Some(group) => group.effects.push(Box::new(effect)),
            None => effect(self),
        }
    }

    /// Answers a change once its group is stored, or now without a group.
    pub(super) fn answer<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        answer: Result<T, Refusal>,
    ) {
        let send = move |failed: Option<&Refusal>| {
            // A refusal, too, may be due to changes of the group that have not been made: it may name a job that does
            // not exist.
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
