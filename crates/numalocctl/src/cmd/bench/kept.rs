//! The file in which the last result of `bench` is kept: root's for the host, and each user's own.

use crate::{doc::BenchDoc, exit::Failure, whole_file::WholeFile};
use numaloc_host::{Roots, measured, read};
use std::fs;

/// Keeps a result. That of a user without a home is not kept.
///
/// # Errors
/// [`Failure::Write`].
pub fn keep(document: &BenchDoc, roots: &Roots) -> Result<(), Failure> {
    let Some(file) = measured::own_file(roots) else { return Ok(()) };
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)
            .map_err(|source| Failure::Write { path: folder.into(), source })?;
    }
    let text = serde_json::to_string_pretty(document)?;
    WholeFile::create(&file)?.write(&text).map(drop)
}

/// The last measurement on this host, by this user or else by root.
pub fn kept(roots: &Roots) -> Option<BenchDoc> {
    let host = read::host_name(roots).ok()?;
    // A file of another version is ignored.
    let mut read = measured::files(roots)
        .into_iter()
        .filter_map(|file| serde_json::from_str(&fs::read_to_string(file).ok()?).ok());
    read.find(|document: &BenchDoc| document.host == host)
}
