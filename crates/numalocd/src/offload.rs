//! Has the kernel give the copies of migrations to a DMA engine while jobs move that ask for it, and puts its settings back
//! afterwards.
//!
//! The settings are the host's ([`numaloc_host::offload`]), so jobs share them: the first one switches offload on, the last one
//! puts back what was found. As with `balancing`, the journal has what was found before anything is changed, and until it has been
//! put back: by the next start, or by `numalocd --restore-settings`. A value that somebody else writes meanwhile stays.
//! Where somebody has switched offload on already, nothing is changed at all.
//!
//! While it is on, a thread looks at the kernel's counters and at the engines. If a copy fails, a device reports an error, or
//! anything of it goes away, offload is switched off for all jobs that share it. They go on by CPU.
//!
//! `changes` says what is changed, `session` does it, `measured` keeps what was measured, `using` is a job's part.

mod changes;
mod measured;
mod session;
#[cfg(test)]
mod tests;
mod using;

pub use using::Using;

use crate::{config, refusal::Refusal};
use numaloc_core::{
    Offload, OffloadUse,
    offload::{Amounts, Expected},
};
use numaloc_executor::calibrate::{self, Timed};
use numaloc_host::{
    Roots,
    offload::{self, Interface},
    topology,
};
use session::{Session, Shared};
use std::{fmt, io, path::Path, sync::Arc, time::Duration};

/// What a job asks for, and what its owner and the configuration allow.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// What was asked for.
    pub policy: Offload,
    /// What the configuration says.
    pub rules: config::Offload,
    /// Whether the ceilings of the job's owner allow it.
    pub is_granted: bool,
}

/// Why the settings could not be changed or put back.
#[derive(Debug, thiserror::Error)]
pub enum OffloadError {
    /// A setting could not be read or changed.
    #[error("{0}")]
    Host(#[from] numaloc_host::Error),
    /// What was found could not be noted, read again or forgotten.
    #[error("cannot keep the kernel's settings of offload: {0}")]
    Journal(numaloc_host::Error),
    /// Another process has the journal.
    #[error("another numalocd has switched offload on")]
    InUse,
}

/// Why a job does not use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NotUsed {
    reason: String,
    has_failed: bool,
    expected: Option<Expected>,
}

impl NotUsed {
    fn because(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), ..Self::default() }
    }
}

impl From<OffloadError> for NotUsed {
    fn from(error: OffloadError) -> Self {
        Self { reason: format!("failed: {error}"), has_failed: true, expected: None }
    }
}

/// What a session needs of the host.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// Finds the kernel's interface.
    find: fn(&Roots) -> Option<Box<dyn Interface>>,
    /// How fast memory moves between two nodes, as offload is at the moment.
    rates: fn(&Roots) -> io::Result<Vec<Timed>>,
    /// Time between two looks at the counters and engines while offload is on.
    look: Duration,
}

/// See [`Host::look`].
const LOOK: Duration = Duration::from_millis(500);

/// Switches offload on for jobs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Offloading(Arc<Shared>);

impl Offloading {
    /// Keeps what was measured in this directory, which has to exist.
    pub fn new(roots: Roots, state_dir: &Path) -> Self {
        Self::with(roots, state_dir, Host { find: offload::find, rates, look: LOOK })
    }

    fn with(roots: Roots, state_dir: &Path, host: Host) -> Self {
        Self(Arc::new(Shared::new(roots, state_dir, host)))
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

    /// Measures what offload pays on this host, if it may be used and that has not been measured yet with this kernel and these
    /// engines. Blocks for a moment.
    pub fn calibrate(&self, rules: config::Offload) {
        if !rules.enable || !offload::probe(&self.0.roots).available {
            return;
        }
        let mut session = self.0.session();
        if let Err(NotUsed { reason, .. }) = self.0.calibration(&mut session, rules) {
            tracing::warn!(reason, "offload is not used by auto");
        }
    }

    /// Call before memory is moved: switches offload on if that is asked for, allowed and of use. Blocks.
    ///
    /// # Errors
    /// It is required and cannot be used. Nothing is changed then.
    pub fn begin(&self, asked: &Asked, amounts: &Amounts) -> Result<Using, Refusal> {
        let requested = asked.policy;
        if requested == Offload::Off || amounts.is_nothing() {
            return Ok(Using::without(OffloadUse { requested, ..OffloadUse::default() }));
        }
        match self.try_begin(asked, amounts) {
            Ok(using) => Ok(using),
            Err(NotUsed { reason, .. }) if requested == Offload::Require => {
                let message = format!(
                    "offload is required and cannot be used: {reason}; ask for auto to have CPUs copy, and see docs/dsa.md"
                );
                Err(Refusal::HostCannot { message })
            }
            Err(NotUsed { reason, has_failed: failed, expected }) => {
                let rest = OffloadUse::default();
                Ok(Using::without(OffloadUse { requested, reason, failed, expected, ..rest }))
            }
        }
    }

    fn try_begin(&self, asked: &Asked, amounts: &Amounts) -> Result<Using, NotUsed> {
        let probed = offload::probe(&self.0.roots);
        if !probed.available {
            let reason = probed.reason.unwrap_or_default();
            return Err(NotUsed::because(format_args!("unavailable: {reason}")));
        }
        if !asked.rules.enable {
            return Err(NotUsed::because(
                "not allowed: offload.enable is false in the daemon's configuration",
            ));
        }
        if !asked.is_granted {
            return Err(NotUsed::because("not allowed: the ceiling offload of the owner is no"));
        }
        let mut session = self.0.session();
        if let Some(trouble) = session.trouble() {
            return Err(NotUsed::because(format_args!("failed: {trouble}")));
        }
        let expected = self.expected(&mut session, asked, amounts)?;
        self.0.join(&mut session, asked.rules)?;
        Ok(Using::begin(self.0.clone(), &mut session, asked.policy, expected))
    }

    /// What a job may expect of it. With AUTO it is an error if it does not pay, or if that is not known.
    fn expected(
        &self,
        session: &mut Session,
        asked: &Asked,
        amounts: &Amounts,
    ) -> Result<Option<Expected>, NotUsed> {
        let is_auto = asked.policy == Offload::Auto;
        let calibration = match self.0.calibration(session, asked.rules) {
            Ok(calibration) => calibration,
            Err(not_used) if is_auto => return Err(not_used),
            Err(_) => return Ok(None),
        };
        // Somebody else has decided: it is on whatever we do.
        let Some(calibration) = calibration else { return Ok(None) };
        match calibration.expect(amounts) {
            None if is_auto => Err(NotUsed::because(
                "not measured: pages of the sizes that are to move could not be had on two nodes",
            )),
            Some(expected) if is_auto && !expected.pays() => {
                let mb = |rate: u64| rate / 1_000_000;
                let (cpu, engine) =
                    (expected.cpu_bytes_per_second, expected.engine_bytes_per_second);
                let (cpu, engine) = (mb(cpu), mb(engine));
                let reason = format!(
                    "does not pay: {engine} MB/s against {cpu} MB/s by CPU for the sizes of these pages, as measured here"
                );
                Err(NotUsed { reason, has_failed: false, expected: Some(expected) })
            }
            expected => Ok(expected),
        }
    }
}

/// Measures between two nodes that this process may use.
fn rates(roots: &Roots) -> io::Result<Vec<Timed>> {
    let topology = topology::topology(roots).map_err(io::Error::other)?;
    let nodes = topology.with_memory().minus(&topology.other_tiers());
    let mut nodes = nodes.iter();
    let two = nodes.next().zip(nodes.next());
    let (one, other) =
        two.ok_or_else(|| io::Error::other("there are not two nodes with memory"))?;
    calibrate::rates([one, other])
}
