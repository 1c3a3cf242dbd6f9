//! Data of ended jobs and of events that the book does not keep. The dispatcher says where it is, and does not wait for
//! it. A small job is read by the task that asked for it. Events, and a job with thousands of processes, may have to
//! come from the disk: these are read in threads of their own.

use crate::{refusal::Refusal, store::StoreReader};
use numaloc_api::{
    encoded::Encoded,
    value::{Event, Job, JobId},
};
use std::sync::Arc;
use tokio::{sync::Semaphore, task::spawn_blocking};

/// Number of records that are read at a time: each may have megabytes.
const AT_ONCE: usize = 2;

/// The largest job, in bytes of its record, that is read without a thread of its own: less work than to wake one.
const SMALL: usize = 16 << 10;

/// A job: all of it, or as the book has it and where the rest is.
pub type AnyJob = (Arc<Job>, Option<StoredJob>);

/// Where the whole record of an ended job is.
#[derive(Debug)]
pub struct StoredJob {
    /// Reads the store as it was when the dispatcher answered.
    pub reader: StoreReader,
    /// Its size in the store.
    pub bytes: usize,
}

/// Events: the ones in the book, and where the others are.
#[derive(Debug, Default)]
pub struct AnyEvents {
    /// In the order of the answer; an event that the book does not have by its number.
    pub events: Vec<Result<Encoded<Event>, u64>>,
    /// `None`: the book has them all.
    pub reader: Option<StoreReader>,
}

/// Takes turns in reading. Clones share the same turns.
#[derive(Clone, Debug)]
pub struct ReadTurns(Arc<Semaphore>);

impl Default for ReadTurns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl ReadTurns {
    /// Reads an ended job: at once if it is small, else in a thread of its own.
    ///
    /// # Errors
    /// The store cannot be read; internal, if reading panics.
    pub async fn job(&self, id: JobId, stored: StoredJob) -> Result<Option<Encoded<Job>>, Refusal> {
        let StoredJob { reader, bytes } = stored;
        let read = move || Ok(reader.job(&id)?);
        if bytes <= SMALL { read() } else { self.take(read).await }
    }

    /// Runs `work` in a thread of its own.
    ///
    /// # Errors
    /// Those of the work; internal, if it panics.
    pub async fn take<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let bug = |message: String| Refusal::Internal { message };
        let turn = self.0.clone().acquire_owned().await.map_err(|error| bug(error.to_string()))?;
        let work = move || {
            let _turn = turn;
            work()
        };
        spawn_blocking(work).await.unwrap_or_else(|error| Err(bug(error.to_string())))
    }
}

#[cfg(test)]
impl ReadTurns {
    pub fn free(&self) -> usize {
        self.0.available_permits()
    }
}

impl AnyEvents {
    /// The numbers of the events that the book does not have.
    pub fn numbers(&self) -> Vec<u64> {
        self.events.iter().filter_map(|event| event.as_ref().err().copied()).collect()
    }

    /// All of them, with the ones that were `read`. Events that have been forgotten meanwhile are left out.
    pub fn with(self, read: Vec<(u64, Encoded<Event>)>) -> Vec<Encoded<Event>> {
        let mut read = read.into_iter().peekable();
        let each = self.events.into_iter().filter_map(|event| match event {
            Ok(event) => Some(event),
            Err(number) => Some(read.next_if(|read| read.0 == number)?.1),
        });
        each.collect()
    }
}
