//! Reading the files that container runtimes keep, within bounds: their content comes from users that start containers.

use crate::Roots;
use serde::Deserialize;
use std::{
    cell::RefCell,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// Largest file of a runtime on one container, in bytes. Labels and annotations are the largest part, and have some
/// hundred KiB at most.
pub(crate) const OF_ONE: u64 = 4 << 20;
/// Most bytes of a list of all containers.
pub(crate) const OF_ALL: u64 = 64 << 20;

/// Reads the files of runtimes, for one request.
pub(crate) struct RuntimeFiles<'a> {
    pub roots: &'a Roots,
    /// Whether the result is no longer waited for.
    stop: &'a dyn Fn() -> bool,
    too_large: RefCell<Vec<PathBuf>>,
}

impl<'a> RuntimeFiles<'a> {
    pub(crate) fn new(roots: &'a Roots, stop: &'a dyn Fn() -> bool) -> Self {
        Self { roots, stop, too_large: RefCell::default() }
    }

    /// The content of a file; `None` if it cannot be read or parsed, is larger than `most` bytes, or the result is no
    /// longer waited for.
    pub(crate) fn json<T: for<'de> Deserialize<'de>>(&self, path: &Path, most: u64) -> Option<T> {
        if (self.stop)() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(most + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() as u64 > most {
            self.too_large.borrow_mut().push(path.to_owned());
            return None;
        }
        serde_json::from_slice(&bytes).ok()
    }

    /// Whether the result is no longer waited for: what was read is incomplete then.
    pub(crate) fn is_stopped(&self) -> bool {
        (self.stop)()
    }

    /// The files that were left out, as the end of a sentence; empty if none was.
    pub(crate) fn left_out(&self) -> String {
        let too_large = self.too_large.borrow();
        match &too_large[..] {
            [] => String::new(),
            [only] => format!("; {} is too large to be read", only.display()),
            [first, others @ ..] => format!(
                "; {} and {} other files are too large to be read",
                first.display(),
                others.len()
            ),
        }
    }
}
