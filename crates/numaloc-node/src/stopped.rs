//! The end of a client.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// Ends when the process is stopped. Registrations stay until their lease ends: the next start takes them over.
///
/// # Errors
/// The process cannot take signals.
pub async fn stopped() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot take signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot take signals")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
