//! What this program changes on the host for a time is noted in a file of the runtime directory before it is changed. Whoever
//! makes such changes holds a lock on the file meanwhile. If the process is killed, the kernel releases the lock but the note
//! stays, so a later process knows what was left behind. After a reboot both are gone, and so is what they were about.

use crate::{Error, Roots};
use nix::libc::O_NOFOLLOW;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Most bytes of a note that are read. More than is ever written: the file may belong to another user than the reader.
const LENGTH_MAX: u64 = 1 << 20;

/// The right to make changes of one kind. Dropping this value gives the right up; the note stays.
#[derive(Debug)]
pub struct Lease {
    file: File,
    path: PathBuf,
}

/// The file, below the runtime directory.
fn path(roots: &Roots, name: &str) -> PathBuf {
    roots.run.join("numaloc").join(name)
}

impl Lease {
    /// Takes the right to changes of the kind `name`; `None` while another process or thread has it.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn take(roots: &Roots, name: &str) -> Result<Option<Self>, Error> {
        let path = path(roots, name);
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

    /// Replaces the note.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn replace(&mut self, text: &str) -> Result<(), Error> {
        let written = self.file.set_len(0).and_then(|()| self.file.rewind());
        let written = written.and_then(|()| self.file.write_all(text.as_bytes()));
        self.done(written)
    }

    /// Adds to the note. What is in it already is safe whenever this process is killed.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn add(&mut self, text: &str) -> Result<(), Error> {
        let written = self.file.seek(SeekFrom::End(0));
        let written = written.and_then(|_| self.file.write_all(text.as_bytes()));
        self.done(written)
    }

    /// The note, as far as it is text.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn text(&self) -> Result<String, Error> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        let read = file.rewind().and_then(|()| file.take(LENGTH_MAX).read_to_end(&mut bytes));
        read.map_err(|source| Error::Read { path: self.path.clone(), source })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn done(&self, written: io::Result<()>) -> Result<(), Error> {
        written.map_err(|source| Error::Write { path: self.path.clone(), source })
    }
}

/// The note of this kind; empty if there is none.
pub fn noted(roots: &Roots, name: &str) -> String {
    fs::read_to_string(path(roots, name)).unwrap_or_default()
}

/// Whether somebody has the right to changes of this kind now.
pub fn is_taken(roots: &Roots, name: &str) -> bool {
    let locked = |file: File| matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    File::open(path(roots, name)).is_ok_and(locked)
}

fn make(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}
