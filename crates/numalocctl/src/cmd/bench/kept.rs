//! The file in which the last result of `bench` is kept: root's for the host, and each user's own.

use crate::{doc::BenchDoc, exit::Failure, whole_file::WholeFile};
use numaloc_host::{Roots, read};
use std::{env, fs, os::unix::fs::MetadataExt, path::PathBuf};

const NAME: &str = "bench.json";
/// Where root's is, which all users may read.
const HOST: &str = "/var/lib/numalocctl";

/// The folder of a user (XDG base directory specification).
fn own() -> Option<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    Some(state?.join("numaloc"))
}

/// Keeps a result.
///
/// # Errors
/// [`Failure::Write`].
pub fn keep(document: &BenchDoc, roots: &Roots) -> Result<(), Failure> {
    // The directory belongs to the effective user (proc_pid(5)).
    let is_root = fs::metadata(roots.proc.join("self")).is_ok_and(|own| own.uid() == 0);
    let folder = if is_root { Some(HOST.into()) } else { own() };
    // A user without a home keeps nothing.
    let Some(folder) = folder else { return Ok(()) };
    fs::create_dir_all(&folder)
        .map_err(|source| Failure::Write { path: folder.clone(), source })?;
    let text = serde_json::to_string_pretty(document)?;
    WholeFile::create(&folder.join(NAME))?.write(&text).map(drop)
}

/// What was measured last on this host, by this user or else by root.
pub fn kept(roots: &Roots) -> Option<BenchDoc> {
    let host = read::host_name(roots).ok()?;
    let files = own().into_iter().chain([HOST.into()]).map(|folder: PathBuf| folder.join(NAME));
    // What another version has written is as good as none.
    let mut read =
        files.filter_map(|file| serde_json::from_str(&fs::read_to_string(file).ok()?).ok());
    read.find(|document: &BenchDoc| document.host == host)
}
