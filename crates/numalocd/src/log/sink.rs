//! Chooses between the journal and stderr.

use std::{
    env,
    ffi::OsStr,
    io::{self, IsTerminal},
    os::fd::AsFd,
};
use tracing_journald::{Priority, PriorityMappings};

/// Where log records are written to.
pub enum Sink {
    /// The journal, with a field for each value: `NUMALOC_JOB=...` and so on.
    Journal(tracing_journald::Layer),
    /// Lines on stderr, for terminals and other service managers.
    Lines {
        /// Whether levels are coloured by ANSI sequences.
        colour: bool,
    },
}

impl Sink {
    /// The journal if the service manager has connected stderr to it and it can be reached, otherwise lines.
    ///
    /// INVOCATION_ID does not show this: everything that runs in a desktop's terminal inherits it. It is also set for a
    /// service whose output was sent to a file on purpose.
    pub fn of_this_process() -> Self {
        let stream = env::var_os("JOURNAL_STREAM");
        if stream.is_some_and(|stream| is_stream(io::stderr(), &stream))
            && let Ok(journal) = tracing_journald::layer()
        {
            let journal = journal.with_field_prefix(Some("NUMALOC".to_owned()));
            let journal = journal.with_syslog_identifier("numalocd".to_owned());
            return Self::Journal(journal.with_priority_mappings(priorities()));
        }
        let no_colour = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self::Lines { colour: io::stderr().is_terminal() && !no_colour }
    }
}

/// Maps each level to the journal's priority of the same name. The library's default would log info as notice.
fn priorities() -> PriorityMappings {
    let (info, debug) = (Priority::Informational, Priority::Debug);
    PriorityMappings { info, debug, ..PriorityMappings::new() }
}

/// Whether `file` is open on the file that `stream` names as DEVICE:INODE.
pub(super) fn is_stream(file: impl AsFd, stream: &OsStr) -> bool {
    let Some((device, inode)) = stream.to_str().and_then(|stream| stream.split_once(':')) else {
        return false;
    };
    let Ok(stat) = nix::sys::stat::fstat(file) else { return false };
    device.parse() == Ok(stat.st_dev) && inode.parse() == Ok(stat.st_ino)
}
