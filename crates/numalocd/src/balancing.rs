//! The kernel's NUMA balancing: switched off while jobs that ask for it move memory, and put back afterwards.
//!
//! What it was is on the disk before it is changed, and until it has been put back. Whatever a daemon that died in between
//! has left, [`Balancing::put_back`] repairs: at the next start, and by `numalocd --restore-settings`, which the unit calls
//! after each end. Who sets it to another value meanwhile is left alone.

mod saved;
#[cfg(test)]
mod tests;

use crate::dispatch::Refusal;
use numaloc_core::NumaBalancing;
use numaloc_host::{Error, Roots, numa_balancing};
use saved::{Saved, SavedFile};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

/// Why it could not be paused or put back.
#[derive(Debug, thiserror::Error)]
pub enum BalancingError {
    /// The setting could not be read or changed.
    #[error("{0}")]
    Host(#[from] Error),
    /// What it was could not be kept, or read again.
    #[error(
        "cannot keep the value of kernel.numa_balancing in {path}: {source}; if that file is damaged, remove it and set the \
         value with sysctl"
    )]
    Saved {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl From<BalancingError> for Refusal {
    fn from(error: BalancingError) -> Self {
        match error {
            BalancingError::Host(error) => match Self::from(error) {
                Self::DaemonLacksRights { message } => Self::DaemonLacksRights {
                    message: format!(
                        "{message}; for numa_balancing: pause see \"NUMA balancing\" in docs/daemon.md"
                    ),
                },
                refusal => refusal,
            },
            error @ BalancingError::Saved { .. } => {
                Self::Unavailable { message: error.to_string() }
            }
        }
    }
}

/// Pauses balancing for jobs. Cheap to clone; one state directory has one at a time, by the lock of its store.
#[derive(Clone, Debug)]
pub struct Balancing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    roots: Roots,
    saved: SavedFile,
    /// Jobs for which it is paused. Held while it is changed: nobody moves before it is off.
    jobs: Mutex<usize>,
}

/// Balancing is off until this and all others like it have been dropped.
#[derive(Debug)]
pub struct Paused(Arc<Shared>);

impl Balancing {
    /// Keeps what it was in this directory, which is there.
    pub fn new(roots: Roots, state_dir: &Path) -> Self {
        Self(Arc::new(Shared { roots, saved: SavedFile::new(state_dir), jobs: Mutex::new(0) }))
    }

    /// Whether a job that asks for this can be carried out.
    ///
    /// # Errors
    /// It is to be paused, and this process may not.
    pub fn check(&self, asked: NumaBalancing) -> Result<(), BalancingError> {
        match asked {
            NumaBalancing::Pause => Ok(numa_balancing::check_writable(&self.0.roots)?),
            NumaBalancing::Ignore | NumaBalancing::Warn => Ok(()),
        }
    }

    /// What is to be said of it before memory is moved.
    pub fn warning(&self, asked: NumaBalancing) -> Option<String> {
        let value = numa_balancing::read(&self.0.roots).ok().flatten();
        let value = value.filter(|&value| value != 0 && asked == NumaBalancing::Warn)?;
        Some(format!(
            "kernel.numa_balancing is {value}, so the kernel may move pages away again: pin the CPUs of the target, or ask \
             for a pause"
        ))
    }

    /// Memory is about to be moved: pauses balancing if that is asked for and it is on. Blocks.
    ///
    /// # Errors
    /// It cannot be switched off, or what it was cannot be kept; it is as it was then.
    pub fn begin(&self, asked: NumaBalancing) -> Result<Option<Paused>, BalancingError> {
        if asked != NumaBalancing::Pause {
            return Ok(None);
        }
        let shared = &self.0;
        let mut jobs = shared.jobs();
        if *jobs == 0
            && let Err(error) = shared.pause()
        {
            shared.put_back_or_say_so();
            return Err(error);
        }
        *jobs += 1;
        Ok(Some(Paused(shared.clone())))
    }

    /// Puts back what a daemon has left changed, this one or one that died; gives back the value, if there was any. Blocks.
    ///
    /// # Errors
    /// It cannot be changed, or what it was cannot be read; that is kept for another try.
    pub fn put_back(&self) -> Result<Option<u32>, BalancingError> {
        let _jobs = self.0.jobs();
        self.0.put_back()
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let mut jobs = self.0.jobs();
        *jobs -= 1;
        if *jobs == 0 {
            self.0.put_back_or_say_so();
        }
    }
}

/// One change, on the disk or of the setting. After a death between any two of them the rest can be found out.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Keeps what it was.
    Save(Saved),
    /// Gives the setting a value.
    Set(u32),
    /// What was kept is of no use any more.
    Forget,
}

/// How to switch it off.
fn to_pause(current: Option<u32>, boot: &str) -> Vec<Step> {
    match current {
        // What is kept, if anything is, stays to be put back.
        None | Some(0) => Vec::new(),
        Some(value) => vec![Step::Save(Saved { value, boot: boot.to_owned() }), Step::Set(0)],
    }
}

/// How to put back what was kept. A boot has set it anew, and a value other than 0 is somebody else's, or has been put back
/// already.
fn to_put_back(saved: Option<&Saved>, current: Option<u32>, boot: &str) -> Vec<Step> {
    match saved {
        None => Vec::new(),
        Some(saved) if saved.boot == boot && current == Some(0) => {
            vec![Step::Set(saved.value), Step::Forget]
        }
        Some(_) => vec![Step::Forget],
    }
}

impl Shared {
    fn jobs(&self) -> MutexGuard<'_, usize> {
        self.jobs.lock().expect("nobody panics while holding this")
    }

    fn pause(&self) -> Result<(), BalancingError> {
        let current = numa_balancing::read(&self.roots)?;
        let steps = to_pause(current, &numa_balancing::boot_id(&self.roots)?);
        self.carry_out(&steps)?;
        if !steps.is_empty() {
            tracing::info!(
                value = current,
                "kernel.numa_balancing is switched off while memory is moved"
            );
        }
        Ok(())
    }

    fn put_back(&self) -> Result<Option<u32>, BalancingError> {
        let Some(saved) = self.kept(SavedFile::read)? else { return Ok(None) };
        let current = numa_balancing::read(&self.roots)?;
        let boot = numa_balancing::boot_id(&self.roots)?;
        let steps = to_put_back(Some(&saved), current, &boot);
        self.carry_out(&steps)?;
        let is_changed = steps.contains(&Step::Set(saved.value));
        match is_changed {
            true => tracing::info!(value = saved.value, "kernel.numa_balancing is put back"),
            false => {
                tracing::info!(
                    ?current,
                    "kernel.numa_balancing has been set meanwhile and stays as it is"
                )
            }
        }
        Ok(is_changed.then_some(saved.value))
    }

    /// Where nobody can be told.
    fn put_back_or_say_so(&self) {
        if let Err(error) = self.put_back() {
            tracing::error!(%error, "kernel.numa_balancing is not put back: tried again after the next job, and at the next start");
        }
    }

    fn carry_out(&self, steps: &[Step]) -> Result<(), BalancingError> {
        for step in steps {
            match step {
                Step::Save(saved) => self.kept(|file| file.write(saved))?,
                Step::Set(value) => numa_balancing::write(&self.roots, *value)?,
                Step::Forget => self.kept(SavedFile::remove)?,
            }
        }
        Ok(())
    }

    fn kept<T>(&self, work: impl FnOnce(&SavedFile) -> io::Result<T>) -> Result<T, BalancingError> {
        let failed = |source| BalancingError::Saved { path: self.saved.path().to_owned(), source };
        work(&self.saved).map_err(failed)
    }
}
