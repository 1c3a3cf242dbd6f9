//! Chooses between the journal and stderr.

use crate::Journal;
use std::{
    env,
    ffi::OsStr,
    io::{self, IsTerminal},
    os::fd::AsFd,
};

/// Where log records are written to.
#[derive(Debug)]
pub enum Sink {
    /// The journal.
    Journal(Journal),
    /// Lines on stderr, for terminals and other service managers.
    Lines {
        /// Whether levels are coloured by ANSI sequences.
        colour: bool,
    },
}

impl Sink {
    /// The journal if the service manager has connected stderr to it, or a runtime that has a journal has launched this program
    /// (`is_launched`), which then has no stderr; and if it can be reached. Otherwise lines. `program`: the identifier of entries.
    ///
    /// INVOCATION_ID does not show this: everything that runs in a desktop's terminal inherits it. It is also set for a
    /// service whose output was sent to a file on purpose.
    pub fn of_this_process(program: &str, is_launched: bool) -> Self {
        let stream = env::var_os("JOURNAL_STREAM");
        let is_ours = || stream.is_some_and(|stream| is_stream(io::stderr(), &stream));
        if (is_launched || is_ours())
            && let Ok(journal) = Journal::connect(program)
        {
            return Self::Journal(journal);
        }
        let no_colour = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self::Lines { colour: io::stderr().is_terminal() && !no_colour }
    }
}

/// Whether `file` is open on the file that `stream` names as DEVICE:INODE.
fn is_stream(file: impl AsFd, stream: &OsStr) -> bool {
    let Some((device, inode)) = stream.to_str().and_then(|stream| stream.split_once(':')) else {
        return false;
    };
    let Ok(stat) = nix::sys::stat::fstat(file) else { return false };
    device.parse() == Ok(stat.st_dev) && inode.parse() == Ok(stat.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        let file = tempfile::tempfile().unwrap();
        let (device, inode) = file.metadata().map(|file| (file.dev(), file.ino())).unwrap();
        let is = |stream: String| is_stream(&file, OsStr::new(&stream));
        assert!(is(format!("{device}:{inode}")));
        for other in
            [format!("{device}:{}", inode + 1), format!("{inode}"), String::new(), ":".into()]
        {
            assert!(!is(other.clone()), "{other}");
        }
    }
}
