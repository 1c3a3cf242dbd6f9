//! The arguments of `numalocctl drain-node`.

use super::{
    FileArgs, LimitArgs, MigrateArgs, OptionArgs, PaceArgs, PlanArgs, ProgressArgs, TargetArgs,
    nodes::{Nodes, parse_targets},
};
use crate::exit::Failure;
use clap::Args;
use numaloc_core::{NodeId, NodeSet};
use std::path::PathBuf;

const EXAMPLES: &str = "\
New memory may come to the node afterwards, until it is offline or cpusets exclude it.

Examples:
  numalocctl drain-node 2 --dry-run
  numalocctl drain-node 2 --to 0-1 --file /var/lib/postgresql
  numalocctl drain-node 2 && daxctl offline-memory dax0.0";

/// Empties a node.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DrainNodeArgs {
    /// The node to empty, by its number.
    #[arg(value_name = "NODE", value_parser = clap::value_parser!(u32).range(..=1023))]
    pub node: u32,
    /// Bring its memory to these nodes, written as for migrate [default: all other nodes with memory]
    #[arg(long, value_name = "NODES", value_parser = parse_targets, allow_hyphen_values = true)]
    pub to: Option<Nodes>,
    /// Also move the page cache of these files that no process has mapped: a file, a directory for all files below it, or a
    /// quoted pattern with * and ? (repeatable).
    #[arg(long = "file", value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub files: Vec<PathBuf>,
    /// Only show what is on the node and what would move.
    #[arg(long)]
    pub dry_run: bool,
    /// Also move hugetlb pages that are so large that one alone takes longer than one call may.
    #[arg(long)]
    pub include_gigantic: bool,
    #[command(flatten)]
    pub pace: PaceArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub progress: ProgressArgs,
}

impl DrainNodeArgs {
    /// The node as a set.
    pub fn drained(&self) -> NodeSet {
        [NodeId(self.node)].into_iter().collect()
    }

    /// The nodes that get its memory, on a machine with memory on `with_memory`.
    ///
    /// # Errors
    /// The node has no memory; no other node is left, or it is named itself.
    pub fn targets(&self, with_memory: &NodeSet) -> Result<NodeSet, Failure> {
        let node = self.node;
        let refuse = |why: String| Err(Failure::Usage(why));
        if !with_memory.contains(NodeId(node)) {
            return refuse(format!("node {node} has no memory; nodes with memory: {with_memory}"));
        }
        let others = with_memory.minus(&self.drained());
        if others.is_empty() {
            return refuse(format!(
                "node {node} is the only node with memory: it cannot be emptied"
            ));
        }
        let named = self.to.as_ref().map(|to| to.among(with_memory, "--to")).transpose()?;
        match named.flatten() {
            None => Ok(others),
            Some(named) if named.contains(NodeId(node)) => {
                refuse(format!("--to names node {node}, which is to become empty: leave it out"))
            }
            Some(named) => Ok(named),
        }
    }

    /// The migration of all processes from the node.
    pub fn processes(&self, targets: &NodeSet) -> MigrateArgs {
        let options = OptionArgs {
            include_shared: Some(true),
            include_bound: Some(true),
            include_network: Some(true),
            include_gigantic: self.include_gigantic.then_some(true),
            to: Some(Nodes::Only(targets.clone())),
            from: Some(Nodes::Only(self.drained())),
            pace: self.pace,
            ..OptionArgs::default()
        };
        let target = TargetArgs { cgroup: vec!["/".to_owned()], ..TargetArgs::default() };
        let (limits, progress) = (self.limits.clone(), self.progress);
        let plan = PlanArgs { target, options, limits, progress, ..PlanArgs::default() };
        MigrateArgs { plan, ..MigrateArgs::default() }
    }

    /// The migration of page cache; `None`: no files are named.
    pub fn cache(&self, targets: &NodeSet) -> Option<MigrateArgs> {
        let files = FileArgs { files: self.files.clone() };
        let options =
            OptionArgs { to: Some(Nodes::Only(targets.clone())), ..OptionArgs::default() };
        let limits = LimitArgs { workers: None, ..self.limits.clone() };
        let plan =
            PlanArgs { files, options, limits, progress: self.progress, ..PlanArgs::default() };
        (!self.files.is_empty()).then(|| MigrateArgs { plan, ..MigrateArgs::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn args(line: &str) -> DrainNodeArgs {
        let cli = Cli::try_parse_from(line.split(' ')).expect("it parses");
        let Command::DrainNode(args) = cli.command else { panic!("{line}") };
        (*args).clone()
    }

    #[test]
    fn memory_goes_to_all_other_nodes_or_to_named_ones() {
        let with_memory = &"0-2".parse().unwrap();
        let targets = |line: &str| args(line).targets(with_memory).map(|nodes| nodes.to_string());
        assert_eq!(targets("ctl drain-node 2").unwrap(), "0-1");
        assert_eq!(targets("ctl drain-node 2 --to 1").unwrap(), "1");
        assert_eq!(targets("ctl drain-node 2 --to !2").unwrap(), "0-1");
        for (line, why) in [
            ("ctl drain-node 7", "node 7 has no memory; nodes with memory: 0-2"),
            ("ctl drain-node 2 --to all", "--to names node 2"),
        ] {
            let error = targets(line).unwrap_err().to_string();
            assert!(error.starts_with(why), "{error}");
        }
        let last = args("ctl drain-node 2").targets(&"2".parse().unwrap()).unwrap_err();
        assert!(last.to_string().contains("is the only node with memory"), "{last}");
    }

    #[test]
    fn all_that_can_move_moves() {
        let args = args("ctl drain-node 2 --file /srv --profile fast --workers 2");
        let targets = &"0-1".parse().unwrap();
        let MigrateArgs { plan, .. } = args.processes(targets);
        assert_eq!(plan.target.cgroup, ["/"]);
        let OptionArgs { include_shared, include_bound, from, to, .. } = plan.options;
        assert_eq!((include_shared, include_bound), (Some(true), Some(true)));
        let only = |nodes: &str| Some(Nodes::Only(nodes.parse().unwrap()));
        assert_eq!((from, to), (only("2"), only("0-1")));
        let cache = args.cache(targets).expect("files are named");
        cache.check_files().expect("it has nothing that files do not take");
        assert_eq!(cache.plan.options.to, only("0-1"));
        assert!(self::args("ctl drain-node 2").cache(targets).is_none());
    }
}
