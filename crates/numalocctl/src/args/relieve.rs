//! The arguments of `numalocctl relieve`, and of schedules that relieve a node.

use super::{
    LimitArgs, MigrateArgs, OptionArgs, PaceArgs, PlanArgs, ProgressArgs, TargetArgs,
    nodes::{Nodes, parse_targets},
};
use crate::{
    exit::Failure,
    units::{parse_rate, parse_size, parse_span},
};
use clap::Args;
use numaloc_core::{NodeId, Relief, ReliefBound, relief};
use std::time::Duration;

const EXAMPLES: &str = "\
Bound, pinned and shared memory stays, and so does page cache that no process has mapped. Nothing is dropped or killed.

Examples:
  numalocctl relieve 1 --free 2G --dry-run
  numalocctl relieve 1 --free 2G --to 0 --cgroup /batch.slice
  numalocctl schedules create --relieve 1 --free-below 2G --free-until 3G --cgroup '/batch-*.slice' --interval 10s
  numalocctl schedules create --relieve 1 --bandwidth-above 80G/s --bandwidth-until 60G/s --cgroup '/batch-*.slice' --interval 1m";

/// Moves memory from a node until enough of it is free, or while it is used too much.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RelieveArgs {
    /// The node to relieve, by its number.
    #[arg(value_name = "NODE", value_parser = clap::value_parser!(u32).range(..=1023))]
    pub node: u32,
    #[command(flatten)]
    pub bound: BoundArgs,
    /// Bring its memory to these nodes, written as for migrate [default: the nearest nodes with room]
    #[arg(long, value_name = "NODES", value_parser = parse_targets, allow_hyphen_values = true)]
    pub to: Option<Nodes>,
    /// Only show what would move.
    #[arg(long)]
    pub dry_run: bool,
    /// The work whose memory leaves; with the daemon all registered workloads of class BE if none is named.
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub pace: PaceArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub progress: ProgressArgs,
}

/// What the node must not exceed.
#[derive(Clone, Copy, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct BoundArgs {
    /// Move memory until this much is free on the node, such as 2G. Page cache does not count as free.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub free: Option<u64>,
    /// If CPUs read and write more of the node's memory than this, such as 60G/s, move the share of the target's memory there by which they do,
    /// the most used first. It is measured for a second, where resctrl counts memory bandwidth.
    #[arg(long, value_name = "RATE", value_parser = parse_rate, allow_hyphen_values = true)]
    pub bandwidth: Option<u64>,
}

impl BoundArgs {
    fn relief(self, node: NodeId) -> Relief {
        match self.bandwidth {
            Some(rate) => {
                let bound = ReliefBound::Traffic {
                    above_bytes_per_second: rate,
                    until_bytes_per_second: rate,
                };
                Relief::within(node, bound)
            }
            None => Relief::until(node, self.free.unwrap_or_default()),
        }
    }
}

impl RelieveArgs {
    /// The migration of this target.
    pub fn migration(&self, target: TargetArgs) -> MigrateArgs {
        let options = OptionArgs {
            relief: Some(self.bound.relief(NodeId(self.node))),
            to: self.to.clone(),
            pace: self.pace,
            ..OptionArgs::default()
        };
        let (limits, progress) = (self.limits.clone(), self.progress);
        let plan = PlanArgs { target, options, limits, progress, ..PlanArgs::default() };
        MigrateArgs { plan, ..MigrateArgs::default() }
    }
}

/// What a schedule relieves.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Relief of a node")]
pub struct ReliefArgs {
    /// Relieve this node: the target's memory leaves it while less than --free-below is free there, or while more than --bandwidth-above of
    /// its memory is used, and comes back later.
    #[arg(long, value_name = "NODE", value_parser = clap::value_parser!(u32).range(..=1023), requires = "relief_bound")]
    pub relieve: Option<u32>,
    /// Memory leaves the node if less than this is free, without page cache, such as 2G.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "relieve", group = "relief_bound")]
    pub free_below: Option<u64>,
    /// Memory leaves until this much is free [default: as --free-below]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "free_below", conflicts_with = "bandwidth_above")]
    pub free_until: Option<u64>,
    /// Memory leaves the node if CPUs read and write more of its memory than this, such as 80G/s, where resctrl counts memory bandwidth.
    #[arg(long, value_name = "RATE", value_parser = parse_rate, requires = "relieve", group = "relief_bound")]
    pub bandwidth_above: Option<u64>,
    /// Memory leaves until the node is used at most this much, and comes back below it [default: as --bandwidth-above]
    #[arg(long, value_name = "RATE", value_parser = parse_rate, requires = "bandwidth_above", conflicts_with = "free_below")]
    pub bandwidth_until: Option<u64>,
    /// Shortest time before memory that has left the node comes back [default: 15m]
    #[arg(long, value_name = "DURATION", value_parser = parse_span, requires = "relieve")]
    pub return_after: Option<Duration>,
}

impl ReliefArgs {
    /// The relief that is asked for; `None`: none.
    ///
    /// # Errors
    /// The bounds contradict each other.
    pub fn relief(&self) -> Result<Option<Relief>, Failure> {
        let bound = match (self.free_below, self.bandwidth_above) {
            (Some(below_bytes), _) => {
                let until_bytes = self.free_until.unwrap_or(below_bytes);
                if until_bytes < below_bytes {
                    let why = "--free-until must not be less than --free-below";
                    return Err(Failure::Usage(why.into()));
                }
                ReliefBound::Free { below_bytes, until_bytes }
            }
            (None, Some(above_bytes_per_second)) => {
                let until_bytes_per_second = self.bandwidth_until.unwrap_or(above_bytes_per_second);
                if until_bytes_per_second > above_bytes_per_second {
                    let why = "--bandwidth-until must not be more than --bandwidth-above";
                    return Err(Failure::Usage(why.into()));
                }
                ReliefBound::Traffic { above_bytes_per_second, until_bytes_per_second }
            }
            (None, None) => return Ok(None),
        };
        let of = |node| Relief {
            return_after: self.return_after.unwrap_or(relief::RETURN_AFTER),
            ..Relief::within(NodeId(node), bound)
        };
        Ok(self.relieve.map(of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command, SchedulesCommand};
    use clap::Parser;

    fn command(line: &str) -> Command {
        Cli::try_parse_from(line.split(' ')).expect("it parses").command
    }

    #[test]
    fn the_node_comes_before_its_processes() {
        let line = "ctl relieve 1 --free 2G --to !1 --profile fast 4711";
        let Command::Relieve(args) = command(line) else { panic!("{line}") };
        assert_eq!((args.node, args.bound.free, args.target.process.len()), (1, Some(2 << 30), 1));
        let PlanArgs { options, .. } = args.migration(args.target.clone()).plan;
        assert_eq!(options.relief, Some(Relief::until(NodeId(1), 2 << 30)));
        assert!(options.to.is_some() && options.from.is_none());
        assert!(Cli::try_parse_from(["ctl", "relieve", "1"]).is_err(), "without a bound");
        let both = "ctl relieve 1 --free 2G --bandwidth 60G/s 4711";
        assert!(Cli::try_parse_from(both.split(' ')).is_err());
        let Command::Relieve(args) = command("ctl relieve 1 --bandwidth 60G/s 4711") else {
            panic!("it is relieve")
        };
        let PlanArgs { options, .. } = args.migration(args.target.clone()).plan;
        let rate = 60 << 30;
        let bound =
            ReliefBound::Traffic { above_bytes_per_second: rate, until_bytes_per_second: rate };
        assert_eq!(options.relief, Some(Relief::within(NodeId(1), bound)));
    }

    #[test]
    fn a_schedule_has_two_bounds() {
        let relief = |line: &str| {
            let Command::Schedules(command) = command(line) else { panic!("{line}") };
            let SchedulesCommand::Create(args) = &*command else { panic!("{line}") };
            args.relief.relief()
        };
        let line = "ctl schedules create --cgroup /a --relieve 1 --free-below 2G";
        let only = relief(line).expect("one bound").expect("a relief");
        assert_eq!(only, Relief::until(NodeId(1), 2 << 30));
        let both = format!("{line} --free-until 3G --return-after 1m");
        let both = relief(&both).expect("two bounds").expect("a relief");
        let bound = ReliefBound::Free { below_bytes: 2 << 30, until_bytes: 3 << 30 };
        assert_eq!((both.bound, both.return_after.as_secs()), (bound, 60));
        let traffic = "ctl schedules create --cgroup /a --relieve 1 --bandwidth-above 80G/s";
        let of = |above: u64, until: u64| ReliefBound::Traffic {
            above_bytes_per_second: above << 30,
            until_bytes_per_second: until << 30,
        };
        let bound = |line: &str| relief(line).map(|relief| relief.map(|relief| relief.bound));
        assert_eq!(bound(traffic).expect("one bound"), Some(of(80, 80)));
        let until = |until: &str| format!("{traffic} --bandwidth-until {until}");
        assert_eq!(bound(&until("60G/s")).expect("two bounds"), Some(of(80, 60)));
        assert!(relief(&until("81G/s")).is_err());
        let mixed = format!("{traffic} --free-until 1G");
        assert!(Cli::try_parse_from(mixed.split(' ')).is_err());
        let mixed = format!("{line} --bandwidth-until 1G/s");
        assert!(Cli::try_parse_from(mixed.split(' ')).is_err());
        let mixed = format!("{traffic} --free-below 1G");
        assert!(Cli::try_parse_from(mixed.split(' ')).is_err());
        assert!(relief(&format!("{line} --free-until 1G")).is_err());
        let alone = ["ctl", "schedules", "create", "--free-below", "2G"];
        assert!(Cli::try_parse_from(alone).is_err());
    }
}
