//! Why a scan stops. That an address space has ended is a normal result; anything else is an error.

use crate::{Error, files::read::is_gone, survey::space::AddressSpace};
use std::io;

#[derive(Debug)]
pub(super) enum Halt {
    /// The address space has ended: it has no pages any more.
    Ended,
    /// Its pages cannot be read.
    Failed(Error),
}

impl Halt {
    /// The meaning of an error that the kernel returned for the operation `how` on an address space. ESRCH means that
    /// the address space has ended: PAGEMAP_SCAN gives it (fs/proc/task_mmu.c, `do_pagemap_scan`), and so does
    /// opening the pagemap again.
    pub(super) fn at(space: &AddressSpace, how: &'static str, source: io::Error) -> Self {
        if is_gone(&source) {
            return Self::Ended;
        }
        let (pid, comm) = (space.pid(), space.process.comm.clone());
        Self::Failed(Error::Pages { pid, comm, how, source })
    }

    /// The result of a scan; `None` if the address space has ended.
    pub(super) fn unless_ended<T>(result: Result<T, Self>) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Self::Ended) => Ok(None),
            Err(Self::Failed(error)) => Err(error),
        }
    }
}
