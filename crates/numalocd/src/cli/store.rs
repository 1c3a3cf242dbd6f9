//! `--restore`, `--compact` and `--repair`: work on the store while no daemon has it open.

use super::Args;
use crate::store::{self, OpenError, Repaired, ReplacedStore};
use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

/// Does what the command line asks for with the store while no daemon has it open; `None`: it asks for nothing of this
/// kind.
///
/// # Errors
/// `out` cannot be written to.
pub fn maintain(args: &Args, out: &mut impl Write) -> Option<io::Result<ExitCode>> {
    let dir = args.state_directory();
    let done = match (&args.restore, args.compact, args.repair) {
        (Some(from), ..) => store::restore(&dir, from).map(|replaced| restored(&dir, &replaced)),
        (None, true, _) => store::compact(&dir).map(|replaced| compacted(&dir, &replaced)),
        (None, false, true) => store::repair(&dir).map(|repaired| told(&dir, &repaired)),
        (None, false, false) => return None,
    };
    Some(say(done, out))
}

fn say(done: Result<String, OpenError>, out: &mut impl Write) -> io::Result<ExitCode> {
    match done {
        Ok(text) => {
            out.write_all(text.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            writeln!(out, "{error}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn restored(dir: &Path, replaced: &ReplacedStore) -> String {
    let mut text = format!("{}: {} records restored\n", dir.display(), replaced.records);
    if let Some(old) = &replaced.old {
        text += &format!("{}: what was there before\n", old.display());
    }
    text
}

fn compacted(dir: &Path, replaced: &ReplacedStore) -> String {
    let ReplacedStore { records, bytes: [before, after], .. } = replaced;
    format!("{}: {records} records, {before} bytes before, {after} bytes now\n", dir.display())
}

fn told(dir: &Path, repaired: &Repaired) -> String {
    let dir = dir.display();
    let Repaired::Set { old, aside, file, records } = repaired else {
        return format!("{dir}: nothing is wrong with the store\n");
    };
    let each = |name: &String| format!("set aside: {name}\n");
    let mut text: String = aside.iter().map(each).collect();
    text += &format!("{dir}: {records} records are in the store now\n");
    if !aside.is_empty() {
        text += &format!("{}: what was set aside\n", file.display());
    }
    text + &format!("{}: the damaged store\n", old.display())
}
