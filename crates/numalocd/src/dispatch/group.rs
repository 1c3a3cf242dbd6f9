//! Changes that wait at the same moment share a commit: the disk is asked to be done once for all of them.
//!
//! Each is made to the book as if those before it were stored, and answered when they all are. If they cannot be stored, the
//! book is put back and none of them has happened. Questions are never answered from a book that is ahead of the disk.

use super::{
    Refusal,
    book::Book,
    command::{Command, Reply},
    dispatcher::Dispatcher,
};
use crate::store::{Last, Write};
use std::{fmt, mem};

type Answer = Box<dyn FnOnce(Option<&Refusal>) + Send>;
type Effect = Box<dyn FnOnce(&mut Dispatcher) + Send>;

/// Changes of one commit.
#[derive(Default)]
pub(super) struct Group {
    writes: Vec<Write>,
    /// What puts the book back, the last change first.
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
    /// Takes `writes` over into the book, to be stored with the others.
    pub fn add(&mut self, book: &mut Book, writes: Vec<Write>) {
        for write in writes {
            self.undo.extend(book.inverse(&write));
            book.take(write.clone());
            self.writes.push(write);
        }
    }
}

impl Dispatcher {
    /// Makes changes that wait together.
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

    /// Does what follows from a change, once that is stored.
    pub(super) fn then(&mut self, effect: impl FnOnce(&mut Self) + Send + 'static) {
        match &mut self.group {
            Some(group) => group.effects.push(Box::new(effect)),
            None => effect(self),
        }
    }

    /// Answers a change, once it and those before it are stored.
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
            // A caller that has gone does not want it.
            let _ = reply.send(answer);
        };
        match &mut self.group {
            Some(group) => group.answers.push(Box::new(send)),
            None => send(None),
        }
    }
}
