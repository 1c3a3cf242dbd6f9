//! Logging: to the journal if a service manager or a runtime has started this process, else lines on stderr.

use numaloc_log::Sink;
use std::io;
use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

/// Starts logging as `program`, at the levels of RUST_LOG or else at `levels`. A program that a runtime has launched
/// has /dev/null for stderr, and logs to the journal as a service does.
///
/// # Errors
/// Logging has been started in this process already.
pub fn start_log(program: &str, levels: &str, is_launched: bool) -> io::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(levels));
    let registry = tracing_subscriber::registry().with(filter);
    let done = match Sink::of_this_process(program, is_launched) {
        Sink::Journal(journal) => registry.with(journal).try_init(),
        Sink::Lines { colour } => {
            let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(colour);
            registry.with(lines.log_internal_errors(false)).try_init()
        }
    };
    done.map_err(io::Error::other)
}
