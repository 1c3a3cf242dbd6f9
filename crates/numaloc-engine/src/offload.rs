//! DMA engines that copy for a run.

use crate::Error;
use numaloc_core::{Offload, OffloadUse};
use numaloc_dma::{Asked, OffloadError, Offloading, Using, kernel};
use numaloc_host::Roots;

/// Whether runs of this process switch the kernel's offload on.
#[derive(Clone, Debug)]
pub enum OffloadAccess {
    /// They do, while they move, and put it back.
    Switched(Offloading),
    /// They leave it as it is: nothing would put it back if this process were killed.
    Observed,
}

/// A run's use of the kernel's offload. Ended by [`Self::end`].
#[derive(Debug)]
pub enum OffloadInUse {
    Switched(Using),
    Observed { requested: Offload, is_off: bool, reason: String },
}

impl OffloadAccess {
    /// Restores the settings that runs of this process, or of one that was killed, have left changed.
    ///
    /// # Errors
    /// They cannot be restored now.
    pub fn put_back(&self) -> Result<(), OffloadError> {
        match self {
            Self::Switched(offloading) => offloading.put_back().map(drop),
            Self::Observed => Ok(()),
        }
    }

    /// Call before `bytes` of memory are moved.
    ///
    /// # Errors
    /// Offload is required and cannot be used.
    pub fn begin(&self, roots: &Roots, asked: &Asked, bytes: u64) -> Result<OffloadInUse, Error> {
        match self {
            Self::Switched(offloading) => {
                Ok(OffloadInUse::Switched(offloading.begin(asked, bytes)?))
            }
            Self::Observed => {
                let (requested, probed) = (asked.policy, kernel::probe(roots));
                let is_off = probed.interface.is_none_or(|_| kernel::is_on(roots) == Some(false));
                let reason = match probed.reason {
                    _ if requested == Offload::Off => String::new(),
                    Some(reason) => format!("unavailable: {reason}"),
                    None => "not allowed: only the daemon switches it on".to_owned(),
                };
                Ok(OffloadInUse::Observed { requested, is_off, reason })
            }
        }
    }
}

impl OffloadInUse {
    /// Call after the move of this number of folios.
    pub fn end(self, folios: u64) -> OffloadUse {
        match self {
            Self::Switched(using) => using.end(folios),
            Self::Observed { requested, is_off, reason } => {
                let cpu_folios = is_off.then_some(folios);
                OffloadUse { requested, reason, cpu_folios, ..OffloadUse::default() }
            }
        }
    }
}
