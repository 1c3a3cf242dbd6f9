//! Switches the kernel's NUMA balancing off while jobs that ask for it move memory, and back on afterwards.
//!
//! The previous value is on the disk before the setting is changed, and stays there until it has been put back. If the daemon
//! dies in between, [`Balancing::put_back`] repairs the setting: at the next start, and by `numalocd --restore-settings`, which
//! the unit runs each time the daemon has ended. If somebody sets another value meanwhile, that value stays.

#[cfg(test)]
mod tests;

use crate::{
    refusal::Refusal,
    saved::{Saved, SavedFile, not_written},
};
use numaloc_core::NumaBalancing;
use numaloc_host::{Error, Roots, numa_balancing};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

/// The file of the previous value.
const NAME: &str = "numa_balancing.saved";

/// Why balancing could not be paused or put back.
#[derive(Debug, thiserror::Error)]
pub enum BalancingError {
    /// The setting could not be read or changed.
    #[error("{0}")]
    Host(#[from] Error),
    /// The previous value could not be saved, read again or removed.
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

/// Pauses balancing for jobs. Cheap to clone. The lock of the store allows only one daemon per state directory.
#[derive(Clone, Debug)]
pub struct Balancing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    roots: Roots,
    saved: SavedFile<u32>,
    /// How many jobs want balancing off. The lock is held while the setting is changed, so that no job moves before it is off.
    jobs: Mutex<usize>,
}

/// Keeps balancing off. The setting is put back when the last of these is dropped.
#[derive(Debug)]
pub struct Paused(Arc<Shared>);

impl Balancing {
    /// Saves the previous value in this directory, which has to exist.
    pub fn new(roots: Roots, state_dir: &Path) -> Self {
        Self(Arc::new(Shared {
            roots,
            saved: SavedFile::new(state_dir, NAME),
            jobs: Mutex::new(0),
        }))
    }

    /// Whether this process can do what a job asks for.
    ///
    /// # Errors
    /// Balancing is to be paused, and this process may not change the setting.
    pub fn check(&self, asked: NumaBalancing) -> Result<(), BalancingError> {
        match asked {
            NumaBalancing::Pause => Ok(numa_balancing::check_writable(&self.0.roots)?),
            NumaBalancing::Ignore | NumaBalancing::Warn => Ok(()),
        }
    }

    /// The warning to show before memory is moved, if balancing is on and a warning was asked for.
    pub fn warning(&self, asked: NumaBalancing) -> Option<String> {
        let value = numa_balancing::read(&self.0.roots).ok().flatten();
        let value = value.filter(|&value| value != 0 && asked == NumaBalancing::Warn)?;
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

    /// Puts back the value that a daemon has left changed: this daemon, or one that died. Returns the value that was put back;
    /// `None`: nothing had to be put back. Blocks.
    ///
    /// # Errors
    /// The setting cannot be changed, or the saved value cannot be read. The saved value is kept for another try.
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

/// One change, of the file or of the setting. After a death between any two steps, the file and the setting tell what is left to
/// do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Saves the previous value.
    Save(Saved<u32>),
    /// Sets kernel.numa_balancing to this value.
    Set(u32),
    /// Removes the saved value, which is no longer needed.
    Forget,
}

/// The steps that switch balancing off.
fn to_pause(current: Option<u32>, boot: &str) -> Vec<Step> {
    match current {
        // A value that a dead daemon saved is left in place: it is put back after this job.
        None | Some(0) => Vec::new(),
        Some(value) => vec![Step::Save(Saved { value, of: boot.to_owned() }), Step::Set(0)],
    }
}

/// The steps that put the saved value back. It is dropped if the host was booted since, because a boot sets the value anew, or if
/// the value is not 0: then somebody else has set it, or it has been put back already.
fn to_put_back(saved: Option<&Saved<u32>>, current: Option<u32>, boot: &str) -> Vec<Step> {
    match saved {
        None => Vec::new(),
        Some(saved) if saved.of == boot && current == Some(0) => {
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
        let Some(saved) = self.kept(previous)? else { return Ok(None) };
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

    /// For callers that can report the error to nobody: it is logged.
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

    fn kept<T>(
        &self,
        work: impl FnOnce(&SavedFile<u32>) -> io::Result<T>,
    ) -> Result<T, BalancingError> {
        let failed = |source| BalancingError::Saved { path: self.saved.path().to_owned(), source };
        work(&self.saved).map_err(failed)
    }
}

/// The previous value, which was not 0.
fn previous(file: &SavedFile<u32>) -> io::Result<Option<Saved<u32>>> {
    match file.read()? {
        Some(Saved { value: 0, .. }) => Err(not_written()),
        saved => Ok(saved),
    }
}
