//! Options of `advise`.

use crate::units::parse_size;
use clap::Args;

/// Whom to look at, and how.
#[derive(Clone, Debug, Args)]
pub struct AdviseArgs {
    /// Only this process; several with commas or by repeating the option [default: everybody on the host]
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(1..), allow_hyphen_values = true)]
    pub pid: Vec<i32>,
    /// Only this cgroup and those below it: its path as in /proc/PID/cgroup (repeatable).
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,
    /// Only this systemd unit (repeatable).
    #[arg(long, value_name = "NAME")]
    pub unit: Vec<String>,
    /// How many seconds to watch who uses which CPUs.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60), allow_hyphen_values = true)]
    pub seconds: u64,
    /// Leave out who has less memory than this, and what would move less.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_min, allow_hyphen_values = true)]
    pub min_bytes: u64,
}

fn parse_min(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes < numaloc_core::PAGE => Err("at least one page, 4K".into()),
        bytes if bytes > i64::MAX.unsigned_abs() => Err("at most 8 EiB".into()),
        bytes => Ok(bytes),
    }
}
