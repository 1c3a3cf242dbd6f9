//! The value that is to be put back, in a file of the state directory.

use nix::libc::{O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

const NAME: &str = "numa_balancing.saved";
/// Most bytes read: more than is ever written.
const LENGTH_MAX: u64 = 100;

/// The previous value of kernel.numa_balancing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Its value, not 0.
    pub value: u32,
    /// The id of the boot that it was read in.
    pub boot: String,
}

/// The file. It is replaced by a rename, so it is either complete or absent.
#[derive(Debug)]
pub struct SavedFile {
    dir: PathBuf,
    path: PathBuf,
}

impl SavedFile {
    /// The file in this directory.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), path: dir.join(NAME) }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; `None` if there is none. root reads it in a directory that may belong to another user. So it follows no
    /// symbolic link, does not wait for a pipe, and reads no more than [`Self::write`] can have written.
    pub fn read(&self) -> io::Result<Option<Saved>> {
        let mut options = OpenOptions::new();
        let file = match options.read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut text = String::new();
        if file.metadata()?.is_file() {
            file.take(LENGTH_MAX).read_to_string(&mut text)?;
        }
        let saved = text.strip_suffix('\n').and_then(|line| line.split_once(' '));
        let saved = saved.and_then(|(value, boot)| {
            Some(Saved {
                value: value.parse().ok().filter(|&value| value != 0)?,
                boot: boot.to_owned(),
            })
        });
        saved
            .map(Some)
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "not what was written"))
    }

    /// Writes the file durably.
    pub fn write(&self, saved: &Saved) -> io::Result<()> {
        let unfinished = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(O_NOFOLLOW);
        let mut file = options.open(&unfinished)?;
        writeln!(file, "{} {}", saved.value, saved.boot)?;
        file.sync_all()?;
        fs::rename(&unfinished, &self.path)?;
        self.sync_directory()
    }

    /// Removes the file durably.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => self.sync_directory(),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        let directory: File =
            OpenOptions::new().read(true).custom_flags(O_DIRECTORY).open(&self.dir)?;
        directory.sync_all()
    }
}
