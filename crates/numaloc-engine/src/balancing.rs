//! Switches the kernel's NUMA balancing off while jobs that ask for it move memory, and back on afterwards.
//!
//! The journal has the previous value before the setting is changed, and until it has been put back. If the daemon dies
//! in between, [`Balancing::put_back`] repairs the setting: at the next start, and by `numalocd --restore-settings`,
//! which the unit runs each time the daemon has ended. If another program sets another value meanwhile, that value
//! stays.

#[cfg(test)]
mod tests;

use numaloc_core::NumaBalancing;
use numaloc_host::{Error, Roots, journal, numa_balancing};
use parking_lot::Mutex;
use std::sync::Arc;

/// The name of the journal, which has the previous value.
const NAME: &str = "numa_balancing";

type BalancingJournal = journal::Journal<u32>;

/// Bit 0 of the setting: pages follow the CPUs that use them. Bit 1 alone promotes hot pages from slower memory
/// (kernel/sched/fair.c, `should_numa_migrate_memory`).
const FOLLOWS_CPUS: u32 = 1;

/// Whether pages follow the CPUs that use them, by the value of kernel.numa_balancing.
pub fn follows_cpus(value: u32) -> bool {
    value & FOLLOWS_CPUS != 0
}

/// The reason why balancing could not be paused or restored.
#[derive(Debug, thiserror::Error)]
pub enum BalancingError {
    /// The setting could not be read or changed.
    #[error("{0}")]
    Host(Error),
    /// The previous value could not be noted, read again or forgotten.
    #[error("cannot keep the value of kernel.numa_balancing: {0}")]
    Journal(Error),
    /// Another process has the journal.
    #[error("another numalocd has paused kernel.numa_balancing")]
    InUse,
}

/// Pauses balancing for jobs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Balancing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    roots: Roots,
    /// The lock is held while the setting is changed, so that no job moves before it is off.
    session: Mutex<PauseSession>,
}

#[derive(Debug, Default)]
struct PauseSession {
    /// The number of jobs that want balancing off.
    jobs: usize,
    /// Held while there are any.
    journal: Option<BalancingJournal>,
}

/// Keeps balancing off. The setting is put back when the last of these is dropped.
#[derive(Debug)]
pub struct Paused(Arc<Shared>);

impl Balancing {
    /// Reads and writes kernel.numa_balancing through these roots.
    pub fn new(roots: Roots) -> Self {
        Self(Arc::new(Shared { roots, session: Mutex::default() }))
    }

    /// Whether this process can handle balancing as a job requests.
    ///
    /// # Errors
    /// Balancing is to be paused, and this process may not change the setting.
    pub fn check(&self, asked: NumaBalancing) -> Result<(), BalancingError> {
        match asked {
            NumaBalancing::Pause => {
                numa_balancing::check_writable(&self.0.roots).map_err(BalancingError::Host)
            }
            NumaBalancing::Ignore | NumaBalancing::Warn => Ok(()),
        }
    }

    /// The warning to show before memory is moved, if balancing is on and a warning was asked for.
    pub fn warning(&self, asked: NumaBalancing) -> Option<String> {
        let value = numa_balancing::read(&self.0.roots).ok().flatten();
        let value = value.filter(|&value| follows_cpus(value) && asked == NumaBalancing::Warn)?;
        Some(format!(
            "kernel.numa_balancing is {value}, so the kernel may move pages away again: pin the CPUs of the target, or ask \
             for a pause"
        ))
    }

    /// Call before memory is moved: pauses balancing if that is asked for and it is on. Blocks.
    ///
    /// # Errors
    /// Balancing cannot be switched off, or its previous value cannot be saved. It is left as it was.
    pub fn begin(&self, asked: NumaBalancing) -> Result<Option<Paused>, BalancingError> {
        if asked != NumaBalancing::Pause {
            return Ok(None);
        }
        let shared = &self.0;
        let mut session = shared.session.lock();
        if session.jobs == 0
            && let Err(error) = shared.pause(&mut session)
        {
            shared.end(&mut session);
            return Err(error);
        }
        session.jobs += 1;
        Ok(Some(Paused(shared.clone())))
    }

    /// Puts back the value that a daemon has left changed: this daemon, or one that died. Returns the value that was
    /// put back; `None`: nothing had to be put back. Blocks.
    ///
    /// # Errors
    /// The setting cannot be changed, or the note cannot be read. The note is kept for another try.
    pub fn put_back(&self) -> Result<Option<u32>, BalancingError> {
        let mut session = self.0.session.lock();
        if session.journal.is_some() {
            return self.0.put_back(&mut session);
        }
        if !journal::is_noted(&self.0.roots, NAME) {
            return Ok(None);
        }
        // Another process that has the journal puts back what it changes.
        session.journal =
            BalancingJournal::take(&self.0.roots, NAME).map_err(BalancingError::Journal)?;
        let done = self.0.put_back(&mut session);
        session.journal = None;
        done
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let mut session = self.0.session.lock();
        session.jobs -= 1;
        if session.jobs == 0 {
            self.0.end(&mut session);
        }
    }
}

impl Shared {
    fn pause(&self, session: &mut PauseSession) -> Result<(), BalancingError> {
        let taken = BalancingJournal::take(&self.roots, NAME).map_err(BalancingError::Journal)?;
        let journal = session.journal.insert(taken.ok_or(BalancingError::InUse)?);
        // A value that a daemon which died has noted stays noted: it is put back after this job.
        let current = numa_balancing::read(&self.roots).map_err(BalancingError::Host)?;
        let Some(value) = current.filter(|&value| value != 0) else { return Ok(()) };
        journal.note(&value).map_err(BalancingError::Journal)?;
        numa_balancing::write(&self.roots, 0).map_err(BalancingError::Host)?;
        tracing::info!(value, "kernel.numa_balancing is switched off while memory is moved");
        Ok(())
    }

    /// Puts the noted value back. It is forgotten if the setting is not 0: then another program has set it, or it has
    /// been put back already.
    fn put_back(&self, session: &mut PauseSession) -> Result<Option<u32>, BalancingError> {
        let Some(journal) = &mut session.journal else { return Ok(None) };
        let Some(value) = journal.noted().map_err(BalancingError::Journal)? else {
            return Ok(None);
        };
        let current = numa_balancing::read(&self.roots).map_err(BalancingError::Host)?;
        let is_ours = current == Some(0);
        if is_ours {
            numa_balancing::write(&self.roots, value).map_err(BalancingError::Host)?;
            tracing::info!(value, "kernel.numa_balancing is put back");
        } else {
            tracing::info!(
                ?current,
                "kernel.numa_balancing has been set meanwhile and stays as it is"
            );
        }
        journal.forget().map_err(BalancingError::Journal)?;
        Ok(is_ours.then_some(value))
    }

    /// Ends the session of the last job. No caller is left to return an error to, so it is logged.
    fn end(&self, session: &mut PauseSession) {
        if let Err(error) = self.put_back(session) {
            tracing::error!(%error, "kernel.numa_balancing is not put back: tried again after the next job, and at the next start");
        }
        session.journal = None;
    }
}
