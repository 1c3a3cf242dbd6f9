//! A value that has to survive the daemon's death, in a file of the state directory: what was measured.

use nix::libc::{O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK};
use std::{
    fmt::Display,
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    marker::PhantomData,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// Most bytes read: more than is ever written.
const LENGTH_MAX: u64 = 64 << 10;

/// A value, and what it is true of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved<T> {
    /// The value. As text it has no line break.
    pub value: T,
    /// What it is true of, without a space.
    pub of: String,
}

/// The file. It is replaced by a rename, so it is either complete or absent.
#[derive(Debug)]
pub struct SavedFile<T> {
    dir: PathBuf,
    path: PathBuf,
    value: PhantomData<fn() -> T>,
}

impl<T: Display + FromStr> SavedFile<T> {
    /// The file with this name in this directory.
    pub fn new(dir: &Path, name: &str) -> Self {
        Self { dir: dir.to_owned(), path: dir.join(name), value: PhantomData }
    }

    /// Reads the file; `None` if there is none. root reads it in a directory that may belong to another user. So it follows no
    /// symbolic link, does not wait for a pipe, and reads no more than [`Self::write`] can have written.
    pub fn read(&self) -> io::Result<Option<Saved<T>>> {
        let mut options = OpenOptions::new();
        let file = match options.read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut text = String::new();
        if file.metadata()?.is_file() {
            file.take(LENGTH_MAX).read_to_string(&mut text)?;
        }
        let saved = text.strip_suffix('\n').and_then(|line| line.rsplit_once(' '));
        let saved =
            saved.and_then(|(value, of)| Some(Saved { value: value.parse().ok()?, of: of.into() }));
        saved.map(Some).ok_or_else(not_written)
    }

    /// Writes the file durably.
    pub fn write(&self, saved: &Saved<T>) -> io::Result<()> {
        let unfinished = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(O_NOFOLLOW);
        let mut file = options.open(&unfinished)?;
        writeln!(file, "{} {}", saved.value, saved.of)?;
        file.sync_all()?;
        fs::rename(&unfinished, &self.path)?;
        let directory = OpenOptions::new().read(true).custom_flags(O_DIRECTORY).open(&self.dir)?;
        directory.sync_all()
    }
}

/// The file has something else in it than [`SavedFile::write`] writes.
fn not_written() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "not what was written")
}
