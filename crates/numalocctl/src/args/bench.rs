//! The arguments of `numalocctl bench`.

use crate::units::{parse_duration, parse_size};
use clap::Args;
use std::time::Duration;

const EXAMPLES: &str = "\
Latency is that of loads that depend on each other, on the first CPU of a node; bandwidth is what all CPUs of the node read together. \
Other work on the host makes both worse. The result is kept, for root in /var/lib/numalocctl, for others in ~/.local/state/numaloc, and \
topology shows it.

Examples:
  numalocctl bench
  numalocctl bench --size 1G --seconds 5s -o json
  numalocctl bench --kept                              what was measured last";

#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// Memory that is read for each pair, from 1M to 64G; default: four times the last cache of a node, at least 64M.
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub size: Option<u64>,
    /// How long each pair is measured, once for latency and once for bandwidth; from 100ms to 60s.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Use base pages only, so that misses of the TLB count.
    #[arg(long)]
    pub base_pages: bool,
    /// Show what was measured last, and measure nothing.
    #[arg(long, conflicts_with_all = ["size", "seconds", "base_pages"])]
    pub kept: bool,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        time if (Duration::from_millis(100)..=Duration::from_secs(60)).contains(&time) => Ok(time),
        _ => Err("expected a duration from 100ms to 60s".into()),
    }
}

fn parse_memory(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|error| error.to_string())? {
        bytes if (1 << 20..=64 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("expected a size from 1M to 64G".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_kept() {
        assert_eq!((parse_memory("1M"), parse_memory("64G")), (Ok(1 << 20), Ok(64 << 30)));
        for text in ["0", "1023K", "65G", "-1M", "much"] {
            assert!(parse_memory(text).is_err(), "{text}");
        }
        assert!(parse_seconds("99ms").is_err() && parse_seconds("61s").is_err());
    }
}
