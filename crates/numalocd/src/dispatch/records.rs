//! The records, in memory and on the disk. A change is stored first, then taken over into the book. Changes of a draft
//! are taken over at once and stored together; if they cannot be stored, the book is put back.

use super::{
    book::{Book, Undo},
    measured::Measured,
    shown::JobNow,
};
use crate::{
    accounts::Accounts,
    refusal::Refusal,
    store::{
        Contents, Last, Store, StoreError, StoreReader, StoreSnapshot, UnderWay, Weight, Write,
    },
};
use numaloc_api::{
    encoded::Encoded,
    value::{Event, Job, JobId},
};
use std::{mem, ops::Deref, sync::Arc};
use tokio::{
    runtime::{Handle as Runtime, RuntimeFlavor},
    sync::watch,
    time::Instant,
};

/// The records. They are read as a `Book` and changed only by what is below.
#[derive(Debug)]
pub struct Records {
    store: Store,
    book: Book,
    /// The changes that share the commit now being prepared; `None`: no commit is being prepared.
    draft: Option<Draft>,
    /// The reason why the last commit failed, if it did.
    problem: Option<String>,
}

/// Changes that the book has and the store does not have yet.
#[derive(Debug)]
struct Draft {
    writes: Vec<Write>,
    /// About how much they write.
    bytes: usize,
    /// Puts the book back, in the order of the changes; it is applied from the last to the first.
    undo: Vec<Undo>,
    /// The highest numbers given before.
    last: Last,
}

impl Deref for Records {
    type Target = Book;

    fn deref(&self) -> &Book {
        &self.book
    }
}

impl Records {
    /// The records of a store, charged to `accounts`.
    pub fn new(store: Store, contents: Contents, accounts: Accounts) -> Self {
        Self { store, book: Book::new(contents, accounts), draft: None, problem: None }
    }

    /// Stores `writes`, all or none, and only then takes them over into the book. While there is a draft, they are
    /// taken over at once, and stored with it. `tell` is notified of the commit.
    ///
    /// # Errors
    /// No room is left, or the store cannot be written. Nothing has changed.
    pub fn commit(
        &mut self,
        writes: Vec<Write>,
        tell: &dyn Fn(Measured<'_>),
    ) -> Result<(), Refusal> {
        if let Some(draft) = &mut self.draft {
            for write in writes {
                draft.undo.extend(self.book.inverse(&write));
                self.book.take(write.clone());
                draft.bytes += write.weight();
                draft.writes.push(write);
            }
            return Ok(());
        }
        self.store(&writes, tell)?;
        self.book.apply(writes);
        Ok(())
    }

    pub(super) fn begin_draft(&mut self) {
        let last = self.book.last();
        self.draft = Some(Draft { writes: Vec::new(), bytes: 0, undo: Vec::new(), last });
    }

    /// About how many bytes the draft writes.
    pub fn drafted_bytes(&self) -> usize {
        self.draft.as_ref().map_or(0, |draft| draft.bytes)
    }

    /// Whether there is a draft: the book is ahead of the store.
    pub fn has_draft(&self) -> bool {
        self.draft.is_some()
    }

    /// Stores the changes of the draft, all or none. Gives back whether there were any.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn store_draft(&mut self, tell: &dyn Fn(Measured<'_>)) -> Result<bool, Refusal> {
        let Some(Draft { writes, undo, last, .. }) = mem::take(&mut self.draft) else {
            return Ok(false);
        };
        if writes.is_empty() {
            return Ok(false);
        }
        match self.store(&writes, tell) {
            Ok(()) => {
                writes.iter().for_each(|write| self.book.publish(write));
                Ok(true)
            }
            Err(refusal) => {
                undo.into_iter().rev().for_each(|undo| self.book.undo(undo));
                self.book.set_last(last);
                Err(refusal)
            }
        }
    }

    fn store(&mut self, writes: &[Write], tell: &dyn Fn(Measured<'_>)) -> Result<(), Refusal> {
        tell(Measured::Committing);
        let begin = Instant::now();
        let done = blocking(|| self.store.commit(writes));
        tell(Measured::Commit { elapsed: begin.elapsed(), done: done.is_ok() });
        tell(Measured::StoreBytes(self.store.bytes()));
        match done {
            Ok(()) => {
                self.problem = None;
                Ok(())
            }
            Err(error) => {
                if self.problem.is_none() {
                    tracing::error!(%error, "changes cannot be stored");
                }
                self.problem = Some(error.to_string());
                Err(error.into())
            }
        }
    }

    /// Gives room that the store's file no longer needs back to the file system, as [`Store::shrink`]. A watchdog waits
    /// for it as for a commit.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn shrink(&mut self, tell: &dyn Fn(Measured<'_>)) -> Result<bool, Refusal> {
        tell(Measured::Committing);
        let begin = Instant::now();
        let done = blocking(|| self.store.shrink());
        tell(Measured::Commit { elapsed: begin.elapsed(), done: done.is_ok() });
        tell(Measured::StoreBytes(self.store.bytes()));
        Ok(done?)
    }

    /// The reason why the last commit failed, if it did.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Work under way, and work that was under way when a daemon died.
    pub fn under_way(&mut self) -> &mut UnderWay {
        self.store.under_way()
    }

    /// The id of the store.
    pub fn store_id(&self) -> u64 {
        self.store.id()
    }

    /// The size of the store's file.
    pub fn store_bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// A job as the store has it, with plan and outcome.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn stored_job(&mut self, id: &JobId) -> Result<Option<Job>, Refusal> {
        Ok(blocking(|| self.store.job(id))?)
    }

    /// As [`Self::stored_job`], encoded.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn encoded_job(&mut self, id: &JobId) -> Result<Option<Encoded<Job>>, Refusal> {
        Ok(blocking(|| self.store.encoded_job(id))?)
    }

    /// Events by number, each after its number.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn stored_events(
        &mut self,
        numbers: &[u64],
    ) -> Result<Vec<(u64, Encoded<Event>)>, Refusal> {
        Ok(blocking(|| self.store.events(numbers))?)
    }

    /// All records as they are now, to be read by others.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn reader(&mut self) -> Result<StoreReader, Refusal> {
        // Beginning to read an open store takes no file, and handing this thread's tasks to another one takes longer.
        let reader = if self.store.is_open() {
            self.store.reader()
        } else {
            blocking(|| self.store.reader())
        };
        Ok(reader?)
    }

    /// All records as they are now, to be copied while others change them.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn snapshot(&mut self) -> Result<StoreSnapshot, Refusal> {
        Ok(blocking(|| self.store.snapshot())?)
    }

    pub(super) fn watch_job(&mut self, job: Arc<Job>) -> watch::Receiver<JobNow> {
        self.book.watch_job(job)
    }

    pub(super) fn progressed(&mut self, id: &JobId) {
        self.book.progressed(id);
    }
}

/// Runs blocking work. Where the runtime has other threads, other tasks of this thread continue meanwhile.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Runtime::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => work(),
        _ => tokio::task::block_in_place(work),
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::Full { .. } => Self::StoreFull { message },
            StoreError::Failed { .. } => Self::Unavailable { message },
        }
    }
}
