//! The arguments of `numalocctl top`.

use crate::{
    columns::{Columns, Sort},
    units::{duration_from, whole},
};
use clap::Args;
use numaloc_core::amount;
use std::{path::PathBuf, time::Duration};

const EXAMPLES: &str = "\
Examples:
  numalocctl top                                       ? shows the keys
  numalocctl top --processes --filter redis --sort cpu%
  numalocctl top -b -n 1 -d 10 -o csv --columns name,home,mem,local%
  numalocctl top --file /srv/models
  numalocctl top -b -n 60 -o json                      one line each two seconds

Columns:
  PID     process id                  LOCAL%  local memory, in percent
  NAME    container, cgroup, process  AGE     time since that was read
  HOME    the nodes of its CPUs       NODE    memory by node: NODE0, ...
  MEM     resident memory             MOVED   moved by numaloc
  CACHE   page cache, not mapped      KERNEL  moved by NUMA balancing
  REMOTE  memory not on a home node   TRAFFIC bytes/s to and from memory
  NEAR    of this, near to home       RTRAF   of this, remote memory
  DEMOTED memory on a lower tier      CPU%    CPU time, percent of one CPU
  LOCAL   memory on home nodes        JOB     migration, what throttles it
Names of esxtop are accepted as well: NHN, NRMEM, NLMEM, N%L, ND, NMIG.";

#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArgs {
    /// Print tables, or with -o CSV or JSON, instead of drawing; for scripts.
    #[arg(short, long)]
    pub batch: bool,
    /// How many times to print [default: until Ctrl-C]
    #[arg(short = 'n', long, value_name = "COUNT", requires = "batch", value_parser = whole::<u64>(1, None), allow_hyphen_values = true)]
    pub count: Option<u64>,
    /// Time between two scans, from 100ms to 1h.
    #[arg(short, long, value_name = "DURATION", default_value = "2s", value_parser = parse_delay, allow_hyphen_values = true)]
    pub delay: Duration,
    /// Show these columns, in this order, such as name,home,mem,local%,node [default: what fits; all of them with -b]
    #[arg(long, value_name = "COLUMNS")]
    pub columns: Option<Columns>,
    /// Sort by this column, and rows with equal figures by size; with a minus sign before it in the reverse order.
    #[arg(long, value_name = "COLUMN", default_value = "REMOTE", allow_hyphen_values = true)]
    pub sort: Sort,
    /// Show only rows whose name, cgroup or pid contains this, in upper or lower case.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Begin with processes instead of workloads (cgroups).
    #[arg(short, long)]
    pub processes: bool,
    /// Most CPU time for scans, in percent of one CPU, after 0.1 s for the first scan; scans by the daemon use 2 %.
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = parse_budget, allow_hyphen_values = true)]
    pub cpu_budget: f64,
    /// Show where the page cache of files is instead, as `locality --file` does: files, directories or quoted patterns (repeatable).
    #[arg(long = "file", value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub files: Vec<PathBuf>,
}

/// Reads the time between two scans.
pub(super) fn parse_delay(text: &str) -> Result<Duration, String> {
    duration_from("100ms", "1h")(text)
}

/// Reads a share of CPU time for looking.
pub(super) fn parse_budget(text: &str) -> Result<f64, String> {
    match amount::percent(text).map_err(|error| error.to_string())? {
        percent if percent > 0.0 => Ok(percent),
        _ => Err("expected a share of a CPU above 0 %".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Column;

    #[test]
    fn the_help_explains_all_columns() {
        for column in Column::ALL {
            let words = format!("{:<7} {}", column.name(), column.description().meaning);
            assert!(EXAMPLES.contains(&words), "{words}");
        }
    }

    #[test]
    fn budgets_and_delays_have_bounds() {
        assert_eq!((parse_budget("0.5"), parse_budget("100%")), (Ok(0.5), Ok(100.0)));
        for text in ["0", "-1", "100.1", "NaN", "inf", "", "x"] {
            assert!(parse_budget(text).is_err(), "{text:?} was taken");
        }
        assert_eq!(parse_delay("500ms"), Ok(Duration::from_millis(500)));
        for text in ["0", "99ms", "2h", "-1", "x"] {
            assert!(parse_delay(text).is_err(), "{text:?} was taken");
        }
    }
}
