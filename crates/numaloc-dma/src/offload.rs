//! Has the kernel give the copies of migrations to a DMA engine while jobs move that ask for it, and puts its settings back
//! afterwards.
//!
//! The settings are the host's ([`crate::kernel`]), so jobs share them: the first one switches offload on, the last one
//! puts back what was found. The journal has what was found before anything is changed, and until it has been
//! put back: by the next start, or by `numalocd --restore-settings`. A value that another program writes meanwhile
//! stays. Where offload is switched on already, nothing is changed at all.
//!
//! While it is on, a thread looks at the kernel's counters and at the engines. If a copy fails, a device reports an error, or
//! anything of it goes away, offload is switched off for all jobs that share it. They continue by CPU.
//!
//! `changes` says what is changed, `session` does it, `using` is a job's part.

mod changes;
mod session;
#[cfg(test)]
mod tests;
mod using;

pub use using::Using;

use crate::kernel::{self, Interface, Settings};
use numaloc_core::{Offload, OffloadUse};
use numaloc_host::Roots;
use session::SharedOffload;
use std::{fmt, sync::Arc, time::Duration};

/// Whether the operator lets jobs have DMA engines copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dma {
    /// The kernel's settings are not touched.
    #[default]
    Disabled,
    /// An engine copies where the kernel offers one, with these settings.
    Enabled(Settings),
}

/// The request of a job, and what its owner and the configuration allow.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The job's choice, which may be to require it.
    pub policy: Offload,
    /// Whether the operator's configuration allows it.
    pub rules: Dma,
    /// Whether the ceilings of the job's owner allow it.
    pub is_granted: bool,
}

/// Why the settings could not be changed or put back.
#[derive(Debug, thiserror::Error)]
pub enum OffloadError {
    /// A setting could not be read or changed.
    #[error("{0}")]
    Host(#[from] numaloc_host::Error),
    /// The values found could not be noted, read again or forgotten.
    #[error("cannot keep the kernel's settings of offload: {0}")]
    Journal(numaloc_host::Error),
    /// Another process has the journal.
    #[error("another numalocd has switched offload on")]
    InUse,
}

/// An engine is required and cannot be used. The text names the reason and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// Why a job does not use it.
struct NotUsed {
    reason: String,
    has_failed: bool,
}

impl NotUsed {
    fn because(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), has_failed: false }
    }
}

impl From<OffloadError> for NotUsed {
    fn from(error: OffloadError) -> Self {
        Self { reason: format!("failed: {error}"), has_failed: true }
    }
}

/// The access to the host that a session needs.
#[derive(Clone, Copy, Debug)]
struct HostAccess {
    /// Finds the kernel's interface; tests have one of their own.
    find: fn(&Roots) -> Option<Box<dyn Interface>>,
    /// Time between two looks at the counters and engines while offload is on.
    look: Duration,
}

/// The interval of looks at an interface that is on; see [`HostAccess::look`].
const LOOK: Duration = Duration::from_millis(500);

/// Switches offload on for jobs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Offloading(Arc<SharedOffload>);

impl Offloading {
    /// Offloading of this host. Changes nothing yet.
    pub fn new(roots: Roots) -> Self {
        Self::with(roots, HostAccess { find: kernel::find, look: LOOK })
    }

    fn with(roots: Roots, host: HostAccess) -> Self {
        Self(Arc::new(SharedOffload::new(roots, host)))
    }

    /// Puts back what a daemon has left changed: this daemon, or one that died. Returns the settings that were put back, as
    /// `name = value`; none: nothing had to be. Blocks.
    ///
    /// # Errors
    /// A setting cannot be changed, or the note cannot be read. The note is kept for another try.
    pub fn put_back(&self) -> Result<Vec<String>, OffloadError> {
        let _session = self.0.session();
        self.0.put_back()
    }

    /// Call before `bytes` of memory are moved: switches offload on if that is asked for, allowed and available. Blocks.
    ///
    /// # Errors
    /// It is required and cannot be used. Nothing is changed then.
    pub fn begin(&self, asked: &Asked, bytes: u64) -> Result<Using, Refused> {
        let requested = asked.policy;
        if requested == Offload::Off || bytes == 0 {
            return Ok(Using::without(OffloadUse { requested, ..OffloadUse::default() }));
        }
        match self.try_begin(asked) {
            Ok(using) => Ok(using),
            Err(NotUsed { reason, .. }) if requested == Offload::Require => {
                let message = format!(
                    "offload is required and cannot be used: {reason}; ask for auto to have CPUs copy, and see /usr/share/doc/numaloc/dsa.md"
                );
                Err(Refused(message))
            }
            Err(NotUsed { reason, has_failed: failed }) => {
                let rest = OffloadUse::default();
                Ok(Using::without(OffloadUse { requested, reason, failed, ..rest }))
            }
        }
    }

    fn try_begin(&self, asked: &Asked) -> Result<Using, NotUsed> {
        let probed = kernel::probe(&self.0.roots);
        if !probed.available {
            let reason = probed.reason.unwrap_or_default();
            return Err(NotUsed::because(format_args!("unavailable: {reason}")));
        }
        let Dma::Enabled(settings) = asked.rules else {
            return Err(NotUsed::because(
                "not allowed: offload.enable is false in the daemon's configuration",
            ));
        };
        if !asked.is_granted {
            return Err(NotUsed::because("not allowed: the ceiling offload of the owner is no"));
        }
        let mut session = self.0.session();
        if let Some(trouble) = session.trouble() {
            return Err(NotUsed::because(format_args!("failed: {trouble}")));
        }
        self.0.join(&mut session, settings)?;
        Ok(Using::begin(self.0.clone(), &mut session, asked.policy))
    }
}
