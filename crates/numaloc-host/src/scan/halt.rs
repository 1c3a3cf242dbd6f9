//! Why a look at pages goes no further: an address space that has ended is data, anything else an error.

use crate::{
    Error,
    space::{AddressSpace, is_gone},
};
use std::io;

/// Why a look went no further.
#[derive(Debug)]
pub(super) enum Halt {
    /// The address space has ended: it has no pages any more.
    Ended,
    /// Its pages cannot be seen.
    Failed(Error),
}

impl Halt {
    /// What an error of the kernel's means that came of `how`, something that was done to an address space. ESRCH is what
    /// PAGEMAP_SCAN gives once it has ended (fs/proc/task_mmu.c, `do_pagemap_scan`), and opening its pagemap again.
    pub(super) fn at(space: &AddressSpace, how: &'static str, source: io::Error) -> Self {
        if is_gone(&source) {
            return Self::Ended;
        }
        let (pid, comm) = (space.pid(), space.process.comm.clone());
        Self::Failed(Error::Pages { pid, comm, how, source })
    }

    /// The result of a look; `None` if the address space has ended.
    pub(super) fn unless_ended<T>(result: Result<T, Self>) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Self::Ended) => Ok(None),
            Err(Self::Failed(error)) => Err(error),
        }
    }
}
