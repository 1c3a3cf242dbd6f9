//! The daemon to ask, and the longest wait for it.

use crate::units::parse_duration;
use clap::Args;
use std::{path::PathBuf, time::Duration};

/// Where the daemon is. Every command takes these.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectArgs {
    /// Work without a daemon; the default where none is named and its socket does not exist.
    #[arg(long, global = true)]
    pub standalone: bool,
    /// Address of numalocd: unix:///PATH, https://HOST:PORT, or http://HOST:PORT on this machine.
    #[arg(long, global = true, value_name = "URI")]
    pub endpoint: Option<String>,
    // The short help has only what is used often.
    /// Certificates (PEM) for checking the certificate of an https daemon.
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub tls_ca: Option<PathBuf>,
    /// Certificate (PEM) to show to an https daemon.
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub tls_cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate --tls-cert.
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub tls_key: Option<PathBuf>,
    /// Longest wait for one answer of the daemon; does not apply to watching.
    #[arg(long, global = true, value_name = "DURATION", default_value = "60s", value_parser = parse_duration, hide_short_help = true)]
    pub request_timeout: Duration,
    /// How long to retry a broken watch before giving up.
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s", value_parser = parse_duration, hide_short_help = true)]
    pub reconnect_timeout: Duration,
}
