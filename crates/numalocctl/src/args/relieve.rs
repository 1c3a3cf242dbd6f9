//! The arguments of `numalocctl relieve`, and of schedules that relieve a node.

use super::{
    LimitArgs, MigrateArgs, OptionArgs, PaceArgs, PlanArgs, ProgressArgs, TargetArgs,
    nodes::{Nodes, parse_targets},
};
use crate::{
    exit::Failure,
    units::{parse_size, parse_span},
};
use clap::Args;
use numaloc_core::{NodeId, Relief, relief};
use std::time::Duration;

const EXAMPLES: &str = "\
Bound, pinned and shared memory stays, and so does page cache that no process has mapped. Nothing is dropped or killed.

Examples:
  numalocctl relieve 1 --free 2G --dry-run
  numalocctl relieve 1 --free 2G --to 0 --cgroup /batch.slice
  numalocctl schedules create --relieve 1 --free-below 2G --free-until 3G --cgroup '/batch-*.slice' --interval 10s";

/// Moves memory from a node until enough of it is free.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RelieveArgs {
    /// The node to relieve, by its number.
    #[arg(value_name = "NODE", value_parser = clap::value_parser!(u32).range(..=1023))]
    pub node: u32,
    /// Move memory until this much is free on the node, such as 2G. Page cache does not count as free.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub free: u64,
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

impl RelieveArgs {
    /// The migration of this target.
    pub fn migration(&self, target: TargetArgs) -> MigrateArgs {
        let options = OptionArgs {
            relief: Some(Relief::until(NodeId(self.node), self.free)),
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
    /// Relieve this node: the target's memory leaves it while less than --free-below is free there, and comes back later.
    #[arg(long, value_name = "NODE", value_parser = clap::value_parser!(u32).range(..=1023), requires = "free_below")]
    pub relieve: Option<u32>,
    /// Memory leaves the node if less than this is free, without page cache, such as 2G.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "relieve")]
    pub free_below: Option<u64>,
    /// Memory leaves until this much is free [default: as --free-below]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "relieve")]
    pub free_until: Option<u64>,
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
        let Some((node, below)) = self.relieve.zip(self.free_below) else { return Ok(None) };
        let until = self.free_until.unwrap_or(below);
        if until < below {
            return Err(Failure::Usage("--free-until must not be less than --free-below".into()));
        }
        Ok(Some(Relief {
            free_until_bytes: until,
            return_after: self.return_after.unwrap_or(relief::RETURN_AFTER),
            ..Relief::until(NodeId(node), below)
        }))
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
        assert_eq!((args.node, args.free, args.target.process.len()), (1, 2 << 30, 1));
        let PlanArgs { options, .. } = args.migration(args.target.clone()).plan;
        assert_eq!(options.relief, Some(Relief::until(NodeId(1), 2 << 30)));
        assert!(options.to.is_some() && options.from.is_none());
        assert!(Cli::try_parse_from(["ctl", "relieve", "1"]).is_err(), "without a bound");
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
        assert_eq!((both.free_until_bytes, both.return_after.as_secs()), (3 << 30, 60));
        assert!(relief(&format!("{line} --free-until 1G")).is_err());
        let alone = ["ctl", "schedules", "create", "--free-below", "2G"];
        assert!(Cli::try_parse_from(alone).is_err());
    }
}
