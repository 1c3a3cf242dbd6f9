//! The arguments of `numalocctl bench`.

use crate::units::{duration_from, parse_size};
use clap::{Args, ValueEnum, ValueHint};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

const EXAMPLES: &str = "\
Latency is measured with dependent loads on the first CPU of a node, bandwidth with reads and with writes by all CPUs of the node. \
Other work on the host makes both worse. The result is kept, for root in /var/lib/numalocctl, for others in ~/.local/state/numaloc, and \
topology shows it.

bench placement writes memory that is interleaved, and memory in blocks, with a thread on each CPU, and shows how much of it \
kernel.numa_balancing moves and what that costs. The result is not kept.

bench storage makes a file without a name in DIRECTORY, which has to be on a mount with DAX, maps it, and reads and writes blocks of 4 KiB of \
it on the CPUs of each node. Files that exist are never opened, and the file ends with the command, also if that is killed. The result is not kept.

Examples:
  numalocctl bench
  numalocctl bench --size 1G --seconds 5s -o json
  numalocctl bench --kept                              what was measured last
  numalocctl bench placement --switch-balancing        with balancing on and off, then restored
  numalocctl bench storage /mnt/pmem0 --size 1G        a file on persistent memory";

#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// What to measure: nodes (latency and bandwidth of each pair), placement (the cost of balancing for two placements), or storage (a
    /// file on persistent memory).
    #[arg(value_name = "WHAT", value_enum, default_value_t)]
    pub what: BenchKind,
    /// For storage: a mount with DAX, or a directory in it.
    #[arg(value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// Memory that is read and written for each pair, or the file, from 1M to 64G; default: four times the last cache of a node, at
    /// least 64M. For placement: memory of each node [default: 64M].
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub size: Option<u64>,
    /// How long each figure is measured (latency, bandwidth of reads, and of writes); from 100ms to 60s [default: 1s]. For placement: how
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

impl BenchArgs {
    /// The directory whose storage is measured; `None`: something else is.
    ///
    /// # Errors
    /// The mistake in the arguments.
    pub fn storage(&self) -> Result<Option<&Path>, &'static str> {
        match (self.what, &self.directory) {
            (BenchKind::Storage, _) if self.switch_balancing || self.kept || self.base_pages => {
                Err(
                    "bench storage keeps nothing and has the pages of its file system: leave out --switch-balancing, --kept and --base-pages",
                )
            }
            (BenchKind::Storage, None) => Err(
                "bench storage needs a directory: name a mount with DAX, for example numalocctl bench storage /mnt/pmem0",
            ),
            (BenchKind::Storage, Some(directory)) => Ok(Some(directory)),
            (_, Some(_)) => Err("a directory is for bench storage: leave it out"),
            (_, None) => Ok(None),
        }
    }
}

/// What to measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BenchKind {
    /// Each node's memory on the CPUs of each node.
    #[default]
    Nodes,
    /// Interleaved memory and memory in blocks, with balancing.
    Placement,
    /// A file on persistent memory on the CPUs of each node.
    Storage,
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
    use clap::FromArgMatches;

    #[test]
    fn bounds_are_kept() {
        assert_eq!((parse_memory("1M"), parse_memory("64G")), (Ok(1 << 20), Ok(64 << 30)));
        for text in ["0", "1023K", "65G", "-1M", "much"] {
            assert!(parse_memory(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_directory_is_for_storage_and_storage_needs_one() {
        let command = BenchArgs::augment_args(clap::Command::new("bench"));
        let storage = |words: &str| {
            let words = ["bench"].into_iter().chain(words.split_whitespace());
            let found = command.clone().try_get_matches_from(words).expect("they are taken");
            let args = BenchArgs::from_arg_matches(&found).expect("they are valid");
            args.storage().map(|directory| directory.map(Path::to_path_buf))
        };
        assert_eq!(storage(""), Ok(None));
        assert_eq!(storage("placement --switch-balancing"), Ok(None));
        assert_eq!(storage("storage /mnt/pmem0 --size 1G"), Ok(Some("/mnt/pmem0".into())));
        for (words, why) in [
            ("storage", "needs a directory"),
            ("nodes /mnt", "a directory is for bench storage"),
            ("storage /mnt --kept", "leave out"),
            ("storage /mnt --base-pages", "leave out"),
            ("storage /mnt --switch-balancing", "leave out"),
        ] {
            assert!(storage(words).is_err_and(|error| error.contains(why)), "{words}");
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
