//! The arguments of `numalocctl advise`.

use super::TargetArgs;
use crate::units::{duration_from, parse_size};
use clap::Args;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub struct AdviseArgs {
    /// All processes of the host if no target is named.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Time between the two samples of CPU use, from 1s to 60s.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration_from("1s", "60s"), allow_hyphen_values = true)]
    pub seconds: Duration,
    /// Ignore processes smaller than this, and moves smaller than this.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_min, allow_hyphen_values = true)]
    pub min_bytes: u64,
    #[command(flatten)]
    pub carry: CarryArgs,
}

/// Whether the advice is carried out.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Carrying out")]
pub struct CarryArgs {
    /// Carry out the advice, one finding after the other, the smallest first. It asks first, and stops if a result gets worse.
    #[arg(long, group = "carry")]
    pub apply: bool,
    /// Undo the changes of the last --apply.
    #[arg(long, group = "carry")]
    pub undo: bool,
    /// Only show what --apply or --undo would do.
    #[arg(long, requires = "carry")]
    pub dry_run: bool,
    /// Do not ask.
    #[arg(short, long, requires = "apply")]
    pub yes: bool,
}

fn parse_min(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|error| error.to_string())? {
        bytes if bytes < numaloc_core::SMALLEST_PAGE => {
            Err("expected at least one page, 4K".into())
        }
        bytes if bytes > i64::MAX.unsigned_abs() => Err("expected at most 8 EiB".into()),
        bytes => Ok(bytes),
    }
}
