//! Changes that wait at the same moment share one commit, so that the disk is synchronized once for all of them.
//!
//! Each change is made to the book as if the changes before it were stored. It is answered when all are stored. If they
//! cannot be stored, the book is put back and none of them has happened. Questions are never answered from a book that is
//! ahead of the disk.

use super::{
    book::Book,
    command::{Command, Reply},
    dispatcher::Dispatcher,
};
use crate::{
    refusal::Refusal,
    store::{Last, Write},
};
use std::{fmt, mem};

type Answer = Box<dyn FnOnce(Option<&Refusal>) + Send>;
type Effect = Box<dyn FnOnce(&mut Dispatcher) + Send>;

/// Changes of one commit.
#[derive(Default)]
pub(super) struct Group {
    writes: Vec<Write>,
    /// Writes that put the book back, in the order of the changes; they are applied from the last to the first.
    undo: Vec<Write>,
    last: Last,
    effects: Vec<Effect>,
    answers: Vec<Answer>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("writes", &self.writes).finish_non_exhaustive()
    }
}

impl Group {
    /// Takes `writes` over into the book; they are stored later with the others.
    pub fn add(&mut self, book: &mut Book, writes: Vec<Write>) {
        for write in writes {
            self.undo.extend(book.inverse(&write));
            book.take(write.clone());
            self.writes.push(write);
        }
    }
}

impl Dispatcher {
    /// Makes changes that wait together, in one commit.
    pub(super) fn on_changes(&mut self, changes: Vec<Command>) {
        if changes.is_empty() {
            return;
        }
        self.group = Some(Group { last: self.book.last(), ..Group::default() });
        changes.into_iter().for_each(|change| self.on_change(change));
        let Group { writes, undo, last, effects, answers } =
            mem::take(&mut self.group).unwrap_or_default();
        let stored = if writes.is_empty() { Ok(()) } else { self.store(&writes) };
        match &stored {
            Ok(()) => {
                writes.iter().for_each(|write| self.book.publish(write));
                effects.into_iter().for_each(|effect| effect(self));
            }
            Err(_) => {
                undo.into_iter().rev().for_each(|write| self.book.take(write));
                self.book.set_last(last);
                let known = self.book.jobs();
                self.found.retain(|number, _| known.contains_key(number));
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
            let answer = answer.and_then(|answer| match failed {
                Some(refusal) => Err(refusal.clone()),
                None => Ok(answer),
            });
            // This fails only if the caller has gone.
            let _ = reply.send(answer);
        };
        match &mut self.group {
            Some(group) => group.answers.push(Box::new(send)),
            None => send(None),
        }
    }
}
