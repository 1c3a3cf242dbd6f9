//! A file that appears when its content is complete.

use crate::exit::Failure;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process,
};

/// A file to be written. Until then a file beside it, which is removed if nothing is written.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    part: PathBuf,
    file: File,
}

impl WholeFile {
    /// Makes sure that the file can be written, before any work is done for it.
    ///
    /// # Errors
    /// [`Failure::Write`].
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let failed = |source| Failure::Write { path: path.to_owned(), source };
        if path.is_dir() {
            return Err(failed(ErrorKind::IsADirectory.into()));
        }
        let Some(name) = path.file_name() else {
            return Err(failed(ErrorKind::InvalidInput.into()));
        };
        let part = format!(".{}.{}.part", name.to_string_lossy(), process::id());
        let part = path.with_file_name(part);
        // A new file, because another user cannot have put a link there that leads elsewhere. Only its owner may read
        // it: it may have data of /proc/PID/maps, which others cannot read.
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = options.open(&part).map_err(failed)?;
        Ok(Self { path: path.to_owned(), part, file })
    }

    /// Writes the content.
    ///
    /// # Errors
    /// [`Failure::Write`].
    pub fn write(mut self, content: &str) -> Result<PathBuf, Failure> {
        let written = self.file.write_all(content.as_bytes());
        let renamed = written.and_then(|()| fs::rename(&self.part, &self.path));
        renamed.map_err(|source| self.failed(source))?;
        Ok(self.path.clone())
    }

    /// An error that is of this file.
    pub fn failed(&self, source: io::Error) -> Failure {
        Failure::Write { path: self.path.clone(), source }
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        // It is gone if it has been renamed.
        let _ = fs::remove_file(&self.part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn content_replaces_what_was_there_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.svg");
        fs::write(&path, "old").unwrap();
        drop(WholeFile::create(&path).unwrap());
        assert_eq!(
            (names(directory.path()), fs::read_to_string(&path).unwrap()),
            (vec!["a.svg".into()], "old".into())
        );
        WholeFile::create(&path).unwrap().write("new").unwrap();
        assert_eq!(
            (names(directory.path()), fs::read_to_string(&path).unwrap()),
            (vec!["a.svg".into()], "new".into())
        );
    }

    #[test]
    fn what_cannot_be_written_is_said_beforehand() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("folder.svg");
        fs::create_dir(&folder).unwrap();
        for path in [folder, directory.path().join("no/such/a.svg")] {
            let failure = WholeFile::create(&path).unwrap_err().to_string();
            assert!(failure.starts_with(&format!("cannot write {}", path.display())), "{failure}");
        }
    }
}
