//! The arguments of `numalocctl dsa`.

use clap::Args;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  numalocctl dsa -o wide")]
pub struct DsaArgs {
    /// Read this directory instead of /sys, such as one that was recorded elsewhere.
    #[arg(long, value_name = "DIR")]
    pub sys: Option<PathBuf>,
}
