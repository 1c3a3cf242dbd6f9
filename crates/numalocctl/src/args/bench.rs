//! The arguments of `numalocctl bench`.

use crate::units::{duration_from, parse_size};
use clap::{Args, ValueEnum};
use std::time::Duration;

const EXAMPLES: &str = "\
Latency is measured with dependent loads on the first CPU of a node, bandwidth with reads by all CPUs of the node. \
Other work on the host makes both worse. The result is kept, for root in /var/lib/numalocctl, for others in ~/.local/state/numaloc, and \
topology shows it.

bench placement writes memory that is interleaved, and memory in blocks, with a thread on each CPU, and shows how much of it \
kernel.numa_balancing moves and what that costs. The result is not kept.

Examples:
  numalocctl bench
  numalocctl bench --size 1G --seconds 5s -o json
  numalocctl bench --kept                              what was measured last
  numalocctl bench placement --switch-balancing        with balancing on and off, then restored";

#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// What to measure: nodes (latency and bandwidth of each pair), or placement (the cost of balancing for two placements).
    #[arg(value_name = "WHAT", value_enum, default_value_t)]
    pub what: BenchKind,
    /// Memory that is read for each pair, from 1M to 64G; default: four times the last cache of a node, at least 64M. For placement:
    /// memory of each node [default: 64M].
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub size: Option<u64>,
    /// How long each pair is measured, once for latency and once for bandwidth; from 100ms to 60s [default: 1s]. For placement: how
    /// long the memory is written in each run [default: 15s].
    #[arg(long, value_name = "DURATION", value_parser = duration_from("100ms", "60s"))]
    pub seconds: Option<Duration>,
    /// Use base pages only, so that misses of the TLB count.
    #[arg(long)]
    pub base_pages: bool,
    /// Show what was measured last, and measure nothing.
    #[arg(long, conflicts_with_all = ["size", "seconds", "base_pages"])]
    pub kept: bool,
    /// For placement: measure with kernel.numa_balancing on and off. It is put back afterwards, also if this program is killed.
    /// Without it, its present value is measured alone.
    #[arg(long, conflicts_with_all = ["kept", "base_pages"])]
    pub switch_balancing: bool,
}

/// What to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BenchKind {
    /// Each node's memory on the CPUs of each node.
    #[default]
    Nodes,
    /// Interleaved memory and memory in blocks, with balancing.
    Placement,
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
    }

    #[test]
    fn a_measurement_takes_from_100_ms_to_a_minute() {
        let command = BenchArgs::augment_args(clap::Command::new("bench"));
        let is_taken =
            |text| command.clone().try_get_matches_from(["bench", "--seconds", text]).is_ok();
        assert_eq!(["99ms", "100ms", "60s", "61s"].map(is_taken), [false, true, true, false]);
    }
}
