//! Room that is kept in reserve beside the store, so that records can be removed on a file system that is full.
//!
//! A commit writes changed pages of the tree again before it frees the old ones, and the database chooses new pages
//! that the file system may have no room for. So removing needs room, too, and a full store could not be emptied.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

const NAME: &str = "numalocd.redb.spare";
/// A few times the need of the removal of a single record: a page for each level of the database's trees.
const BYTES: u64 = 128 << 10;

/// The file that keeps the room.
#[derive(Debug)]
pub struct Spare(PathBuf);

impl Spare {
    pub fn new(dir: &Path) -> Self {
        let spare = Self(dir.join(NAME));
        spare.keep();
        spare
    }

    /// Takes the room if it is not kept yet. If the file system has no room for it, the daemon continues without.
    pub fn keep(&self) {
        if fs::metadata(&self.0).is_ok_and(|metadata| metadata.len() >= BYTES) {
            return;
        }
        let mut options = OpenOptions::new();
        let made = options.write(true).create(true).truncate(false).mode(0o600).open(&self.0);
        let bytes = BYTES.cast_signed();
        if !made.is_ok_and(|file| nix::fcntl::posix_fallocate(&file, 0, bytes).is_ok()) {
            self.give_up();
        }
    }

    /// Gives the room back to the file system.
    pub fn give_up(&self) {
        let _ = fs::remove_file(&self.0);
    }
}
