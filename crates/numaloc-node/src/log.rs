//! Logging: to the journal if a service manager or a runtime has started this process, else lines on stderr.

use std::{env, io, io::IsTerminal};
use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

/// Starts logging as `program`, at the levels of RUST_LOG or else at `levels`. A program that a runtime has launched
/// has /dev/null for stderr, and logs to the journal as a service does.
///
/// # Errors
/// Logging has been started in this process already.
pub fn start_log(program: &str, levels: &str, is_launched: bool) -> io::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(levels));
    let registry = tracing_subscriber::registry().with(filter);
    let is_service = is_launched || env::var_os("JOURNAL_STREAM").is_some();
    let journal = is_service.then(tracing_journald::layer).and_then(Result::ok);
    let done = match journal {
        Some(journal) => {
            let journal = journal.with_field_prefix(Some("NUMALOC".to_owned()));
            registry.with(journal.with_syslog_identifier(program.to_owned())).try_init()
        }
        None => {
            let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let colour = io::stderr().is_terminal() && !plain;
            let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(colour);
            registry.with(lines.log_internal_errors(false)).try_init()
        }
    };
    done.map_err(io::Error::other)
}
