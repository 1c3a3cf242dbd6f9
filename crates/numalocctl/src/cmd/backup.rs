//! Carries out `numalocctl backup`: writes a copy of the daemon's store to a file.

use super::shown;
use crate::{
    args::Cli, clean::clean, doc::BackupDoc, exit::Failure, output::CommandResult, remote::Daemon,
    units::size,
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Copies the daemon's store into a file. The file appears when the copy is complete.
pub fn run(cli: &Cli, daemon: &Daemon, file: &Path) -> Result<CommandResult, Failure> {
    let failed = |source| Failure::Write { path: file.to_owned(), source };
    if file.symlink_metadata().is_ok() {
        return Err(failed(ErrorKind::AlreadyExists.into()));
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    let part = Path::new(&name);
    let result = copy(daemon, part, &failed)
        .and_then(|bytes| fs::rename(part, file).map(|()| bytes).map_err(failed));
    if result.is_err() {
        // An incomplete copy is useless. If it cannot be removed, the next backup overwrites it.
        let _ = fs::remove_file(part);
    }
    let document = BackupDoc { file: file.display().to_string(), bytes: result? };
    shown(cli, &document, |document, _| {
        format!("{}: {}\n", clean(&document.file), size(document.bytes))
    })
}

fn copy(
    daemon: &Daemon,
    part: &Path,
    failed: &impl Fn(io::Error) -> Failure,
) -> Result<u64, Failure> {
    // Like the store, the copy names users and their memory. Only its owner may read it.
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut out: File = options.open(part).map_err(failed)?;
    let bytes = daemon.backup(&mut out, failed)?;
    out.sync_all().map_err(failed)?;
    Ok(bytes)
}
