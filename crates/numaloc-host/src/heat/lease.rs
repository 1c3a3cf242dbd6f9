//! One at a time sets up DAMON: a file in the runtime directory is locked for as long, and says whose memory is watched. So a
//! later run knows what a killed one has left behind (the kernel gives up the lock, the words stay), and after a boot nothing
//! is left of both.

use crate::{Error, Roots};
use nix::libc::O_NOFOLLOW;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The right to set up DAMON. It ends with this value.
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
            // Its directory belongs to the daemon's user, whose links are not followed by root.
            options.read(true).write(true).create(true).mode(0o600).custom_flags(O_NOFOLLOW);
            options.open(&path)
        });
        match opened.and_then(|file| file.try_lock().map(|()| file).map_err(io::Error::from)) {
            Ok(file) => Ok(Some(Self { file, path })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(source) => Err(Error::Write { path, source }),
        }
    }

    /// Writes down whose memory will be watched, before anything is changed.
    pub fn mark(&mut self, pids: &[i32]) -> Result<(), Error> {
        let words: Vec<String> = pids.iter().map(i32::to_string).collect();
        self.write(&words.join(" "))
    }

    /// Writes down that nothing is changed any more.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.write("")
    }

    fn write(&mut self, text: &str) -> Result<(), Error> {
        let written = self.file.set_len(0).and_then(|()| self.file.rewind());
        let written = written.and_then(|()| self.file.write_all(text.as_bytes()));
        written.map_err(|source| Error::Write { path: self.path.clone(), source })
    }
}

/// Whose memory a run watches, or watched when it was killed; nobody's, if there is no such run.
pub fn marked(roots: &Roots) -> Vec<i32> {
    let text = fs::read_to_string(path(roots)).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Whether a run is at work.
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
