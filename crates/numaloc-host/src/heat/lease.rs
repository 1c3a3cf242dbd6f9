//! Only one run at a time may set up DAMON. It holds a lock on a file in the runtime directory, which lists the pids of
//! the processes that it watches. If a run is killed, the kernel releases the lock but the list stays, so a later run
//! knows what was left behind. After a reboot both are gone.

use crate::{Error, Roots};
use nix::libc::O_NOFOLLOW;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The right to set up DAMON. Dropping this value gives the right up.
#[derive(Debug)]
pub struct Lease {
    file: File,
    path: PathBuf,
}

/// The file, below the runtime directory.
fn path(roots: &Roots) -> PathBuf {
    roots.run.join("numaloc/damon")
}

impl Lease {
    /// Takes it; `None` while another run has it.
    pub fn take(roots: &Roots) -> Result<Option<Self>, Error> {
        let path = path(roots);
        let opened = path.parent().map_or(Ok(()), make).and_then(|()| {
            let mut options = OpenOptions::new();
            // The directory belongs to the daemon's user. Root must not follow a link that this user has made.
            options.read(true).write(true).create(true).mode(0o600).custom_flags(O_NOFOLLOW);
            options.open(&path)
        });
        match opened.and_then(|file| file.try_lock().map(|()| file).map_err(io::Error::from)) {
            Ok(file) => Ok(Some(Self { file, path })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(source) => Err(Error::Write { path, source }),
        }
    }

    /// Notes the pids of the processes that will be watched. To be called before anything is changed.
    pub fn mark(&mut self, pids: &[i32]) -> Result<(), Error> {
        let words: Vec<String> = pids.iter().map(i32::to_string).collect();
        self.write(&words.join(" "))
    }

    /// Notes that nothing is set up any more.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.write("")
    }

    fn write(&mut self, text: &str) -> Result<(), Error> {
        let written = self.file.set_len(0).and_then(|()| self.file.rewind());
        let written = written.and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|source| Error::Write { path: self.path.clone(), source })
    }
}

/// The pids of the processes that a run watches, or watched when it was killed; empty if there is no such run.
pub fn marked(roots: &Roots) -> Vec<i32> {
    let text = fs::read_to_string(path(roots)).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Whether a run holds the right now.
pub fn is_taken(roots: &Roots) -> bool {
    let locked = |file: File| matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    File::open(path(roots)).is_ok_and(locked)
}

fn make(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}
