//! Pages of files, moved by a process that maps them itself.

use crate::limits::{
    bounded::{CallBounds, NotReturned},
    calls::Subject,
};
use nix::libc::{EACCES, ENODEV, EPERM};
use numaloc_core::{NodeId, NodeSet};
use numaloc_sys::{Answer, Companion, MoveFlag, Request};
use std::{io, time::Duration};

/// Calls that move page cache.
#[derive(Debug, Default)]
pub struct CacheCalls {
    /// The process that makes the calls, from the first one on.
    companion: Option<Companion>,
    /// Pages that others map, too, are left where they are: this process may not move them.
    own_only: bool,
    /// Nodes where this process may put nothing.
    pub refused: NodeSet,
}

/// Why a call has no statuses.
#[derive(Debug)]
pub enum CacheCallError {
    /// It has not returned, and the run ends.
    NotReturned,
    /// move_pages(2) failed with this error.
    Failed(io::Error),
}

impl From<NotReturned> for CacheCallError {
    fn from(NotReturned: NotReturned) -> Self {
        Self::NotReturned
    }
}

impl CacheCalls {
    /// Calls that move no pages that others map.
    pub fn own_only() -> Self {
        Self { own_only: true, ..Self::default() }
    }

    /// Moves pages of `subject` that this process maps. Returns what the kernel says of each, and how long the call took.
    ///
    /// # Errors
    /// It has not returned; those of move_pages(2). If this process may put nothing on the node, that is one of the `refused` from then on.
    pub fn call(
        &mut self,
        bounds: &CallBounds<'_>,
        subject: &Subject,
        addresses: &[u64],
        to: NodeId,
    ) -> Result<(Vec<i32>, Duration), CacheCallError> {
        let companion = &mut self.companion;
        let mut call = |flag| -> Result<(Vec<i32>, Duration), CacheCallError> {
            // The pages are reached through this process's own mapping.
            let addresses = addresses.to_vec();
            let request = Request::Move { pid: 0, addresses, node: to.0, flag };
            let answer = bounds.call(companion, "move_pages", subject, request)?;
            let whole = answer
                .and_then(|Answer { result, statuses, took }| result.map(|_| (statuses, took)));
            whole.map_err(CacheCallError::Failed)
        };
        let result = if self.own_only {
            call(MoveFlag::Own)
        } else {
            match call(MoveFlag::All) {
                // Without CAP_SYS_NICE.
                Err(CacheCallError::Failed(error)) if error.raw_os_error() == Some(EPERM) => {
                    self.own_only = true;
                    call(MoveFlag::Own)
                }
                result => result,
            }
        };
        if let Err(CacheCallError::Failed(error)) = &result {
            tracing::debug!(to = to.0, %error, "page cache");
            // It is outside of the cpuset of this process.
            if let Some(EACCES | ENODEV) = error.raw_os_error() {
                self.refused.insert(to);
            }
        }
        result
    }
}
