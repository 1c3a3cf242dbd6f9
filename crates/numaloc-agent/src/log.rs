//! Logging: lines on stderr, which the kubelet keeps.

use std::{env, io, io::IsTerminal};
use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

/// Starts logging. RUST_LOG says what; by default info, and of the clients of HTTP what is wrong with them.
///
/// # Errors
/// Logging has been started in this process already.
pub fn start() -> io::Result<()> {
    let default = || EnvFilter::new("info,kube=off,kube_client=off,hyper=warn,hyper_util=warn");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| default());
    let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colour = io::stderr().is_terminal() && !plain;
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(colour);
    let registry =
        tracing_subscriber::registry().with(filter).with(lines.log_internal_errors(false));
    registry.try_init().map_err(io::Error::other)
}
