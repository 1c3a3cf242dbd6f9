//! Reads records of one moment, in any thread, while the store continues.

use super::{
    StoreError,
    opening::{StoreFailure, corrupted},
    quiet::quietly,
    tables::{self, Older, TableFault},
};
use numaloc_api::{
    encoded::Encoded,
    value::{Event, Job, JobId},
};
use redb::ReadTransaction;
use std::{fmt, path::PathBuf, sync::Arc};

/// The records of a store at one moment. While it exists, the room of records removed meanwhile cannot be used again:
/// read at once.
///
/// A failure leaves the store as it is, also where only opening it again would help. So read what has failed by
/// [`super::Store`].
pub struct StoreReader {
    read: ReadTransaction,
    older: Arc<Older>,
    path: PathBuf,
}

impl fmt::Debug for StoreReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl StoreReader {
    pub(super) fn new(read: ReadTransaction, older: Arc<Older>, path: PathBuf) -> Self {
        Self { read, older, path }
    }

    /// As [`super::Store::encoded_job`].
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn job(&self, id: &JobId) -> Result<Option<Encoded<Job>>, StoreError> {
        let Some(number) = id.number() else { return Ok(None) };
        self.with(|read| tables::encoded_job(read, number, &self.older))
    }

    /// As [`super::Store::events`].
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn events(&self, numbers: &[u64]) -> Result<Vec<(u64, Encoded<Event>)>, StoreError> {
        self.with(|read| tables::events(read, numbers, &self.older))
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&ReadTransaction) -> Result<T, TableFault>,
    ) -> Result<T, StoreError> {
        let result = quietly(|| work(&self.read)).unwrap_or_else(|panic| Err(corrupted(panic)));
        let failed = |fault| StoreError::of(self.path.clone(), StoreFailure { fault, error: None });
        result.map_err(failed)
    }
}
