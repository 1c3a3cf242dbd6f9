//! On which of several nodes each page belongs.

use super::{
    nodes::{Nodes, parse_targets},
    pace::by_name,
};
use crate::exit::Failure;
use clap::Args;
use numaloc_core::{
    BadPlacement, ByBandwidth, MapRule, NodeSet, Placement, Tiers, Weights,
    placement::weighted::BadWeights,
};

/// The placement of a plan. What is not given leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct PlaceArgs {
    /// Where pages belong: on any node of the CPUs (home); on several nodes in turn as the kernel's policies have it: interleave,
    /// or weighted with --weights; or by amounts: block is one part of each mapping on each node, and balance moves only
    /// what a node has beyond its share, by CPUs or --weights [default: home]
    #[arg(long, value_name = "PLACEMENT", value_parser = by_name(Kind::ALL, Kind::name), conflicts_with = "to")]
    pub place: Option<Kind>,
    /// The nodes of --place interleave and block, or of --weights bandwidth, written as for --to [default: the CPUs' nodes]
    #[arg(long, value_name = "NODES", value_parser = parse_targets, allow_hyphen_values = true, requires = "place")]
    pub nodes: Option<Nodes>,
    /// For --place weighted: how many pages in a row each node gets, from 1 to 255, such as 0=3,1=1; or bandwidth: the kernel's own
    /// weights, else by the bandwidths of HMAT or of numalocctl bench. For --place balance: the shares
    #[arg(long, value_name = "WEIGHTS", value_parser = parse_weights, allow_hyphen_values = true, requires = "place")]
    pub weights: Option<WeightArg>,
    /// Place the mappings that PATTERN matches, and leave all other memory where it is (repeatable; the first that matches counts).
    /// PATTERN: a file's path or base name, memfd:NAME, sysv:KEY, anon:NAME, heap, stack, anon, or anon>SIZE such as anon>1G; * and ?
    /// stand for characters. PLACEMENT: home, home:1, interleave, interleave:0,2, weighted:0=3,1=1, weighted:bandwidth, balance,
    /// balance:0=3,1=1, block or block:0,2
    #[arg(long = "map", value_name = "PATTERN=PLACEMENT", value_parser = parse_rule, conflicts_with_all = ["place", "nodes", "weights", "to"])]
    pub maps: Vec<MapRule>,
    /// Place memory on two tiers by its use: watch it first, then bring what is used to fast nodes, and what is not to slow ones. KEYS, each
    /// with a default: fast=NODES (those of the CPUs), slow=NODES (those of the next lower tier), cold_after=TIME (2m), keep_fast=SIZE or
    /// PERCENT% that stays up (0), free_fast=SIZE that is to be free (all that is cold goes down), beside_kernel=refuse, warn or ignore
    /// where the kernel moves memory between tiers itself (refuse), watch=damon or referenced (damon)
    #[arg(long, value_name = "KEYS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = parse_tiers, conflicts_with_all = ["place", "nodes", "weights", "to", "maps"])]
    pub tiers: Option<Tiers>,
}

/// Weights as numbers, or what they follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightArg {
    Numbers(Weights),
    Bandwidth,
}

/// The placements, without what they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Placement::Home`].
    Home,
    /// [`Placement::Interleave`].
    Interleave,
    /// [`Placement::Weighted`].
    Weighted,
    /// [`Placement::Balance`].
    Balance,
    /// [`Placement::Block`].
    Block,
}

impl Kind {
    /// In the order of [`Placement::NAMES`].
    const ALL: [Self; 5] =
        [Self::Home, Self::Interleave, Self::Weighted, Self::Balance, Self::Block];

    fn name(self) -> &'static str {
        Placement::NAMES[self as usize]
    }
}

fn parse_weights(text: &str) -> Result<WeightArg, String> {
    match text {
        "bandwidth" => Ok(WeightArg::Bandwidth),
        text => text.parse().map(WeightArg::Numbers).map_err(|bad: BadWeights| bad.to_string()),
    }
}

fn parse_tiers(text: &str) -> Result<Tiers, String> {
    match text {
        "" => Ok(Tiers::default()),
        text => text.parse().map_err(|bad: BadPlacement| bad.to_string()),
    }
}

fn parse_rule(text: &str) -> Result<MapRule, String> {
    text.parse::<MapRule>().map_err(|bad| bad.to_string())
}

impl PlaceArgs {
    /// Whether a placement on several nodes is given.
    pub fn is_wide(&self) -> bool {
        self.tiers.is_some() || self.place.is_some_and(|kind| kind != Kind::Home)
    }

    /// The placements of single mappings that are given.
    ///
    /// # Errors
    /// There are too many, or two have one pattern.
    pub fn rules(&self) -> Result<&[MapRule], Failure> {
        if self.maps.len() > MapRule::MOST {
            return Err(Failure::Usage(format!("--map may be given {} times", MapRule::MOST)));
        }
        let is_again = |&(index, rule): &(usize, &MapRule)| {
            self.maps[..index].iter().any(|earlier| earlier.pattern == rule.pattern)
        };
        match self.maps.iter().enumerate().find(is_again) {
            Some((_, rule)) => Err(Failure::Usage(format!(
                "--map has '{}' twice: the first would count",
                rule.pattern
            ))),
            None => Ok(&self.maps),
        }
    }

    /// `placement` changed by what is given, on a machine with memory on these nodes.
    ///
    /// # Errors
    /// An option is missing, or has no meaning with this placement; weights and nodes do not fit.
    pub fn change(
        &self,
        placement: Placement,
        with_memory: &NodeSet,
    ) -> Result<Placement, Failure> {
        let usage = |text: String| Err(Failure::Usage(text));
        if let Some(tiers) = &self.tiers {
            return Ok(Placement::Tiers(tiers.clone()));
        }
        let nodes = self.nodes.as_ref().map(|nodes| nodes.among(with_memory, "--nodes"));
        let nodes = nodes.transpose()?.flatten();
        match (self.place, &self.weights) {
            (None, _) => Ok(placement),
            (Some(kind @ (Kind::Home | Kind::Interleave | Kind::Block)), Some(_)) => {
                usage(format!("--weights needs --place weighted or balance, not {}", kind.name()))
            }
            (Some(Kind::Home), None) if self.nodes.is_some() => usage(
                "--nodes needs a placement on several nodes: use --to with --place home".into(),
            ),
            (Some(Kind::Home), None) => Ok(Placement::Home),
            (Some(kind @ (Kind::Interleave | Kind::Block)), None) => match &nodes {
                Some(only) if only.len() == 1 => {
                    let name = kind.name();
                    usage(format!("--place {name} needs two nodes or more, and --nodes is {only}"))
                }
                _ if kind == Kind::Block => Ok(Placement::Block(nodes)),
                _ => Ok(Placement::Interleave(nodes)),
            },
            (Some(Kind::Balance), None) if self.nodes.is_some() => usage(
                "--place balance needs --weights for nodes that are named, not --nodes".into(),
            ),
            (Some(Kind::Balance), None) => Ok(Placement::Balance(None)),
            (Some(Kind::Weighted), None) => {
                usage("--place weighted needs --weights, such as 0=3,1=1, or bandwidth".into())
            }
            (Some(Kind::Balance), Some(WeightArg::Bandwidth)) => {
                usage("--place balance needs shares as numbers, such as --weights 0=3,1=1".into())
            }
            (Some(Kind::Weighted), Some(WeightArg::Bandwidth)) => match &nodes {
                Some(only) if only.len() == 1 => usage(format!(
                    "--weights bandwidth needs two nodes or more, and --nodes is {only}"
                )),
                _ => Ok(Placement::Bandwidth(ByBandwidth { nodes, known: None })),
            },
            (Some(kind @ (Kind::Weighted | Kind::Balance)), Some(WeightArg::Numbers(weights))) => {
                let weighted = weights.nodes();
                let nodes = nodes.unwrap_or_else(|| weighted.clone());
                let (extra, missing) = (weighted.minus(&nodes), nodes.minus(&weighted));
                if !extra.is_empty() {
                    return usage(format!("--weights has node {extra}, which --nodes has not"));
                }
                if !missing.is_empty() {
                    return usage(format!("--weights has no weight for node {missing} of --nodes"));
                }
                Ok(match kind {
                    Kind::Balance => Placement::Balance(Some(weights.clone())),
                    _ => Placement::Weighted(weights.clone()),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::Cli, fixture};
    use clap::Parser;

    /// The placement that a command line asks for on nodes 0, 2 and 8, or what is wrong with it.
    fn placement(options: &str) -> Result<Placement, String> {
        #[derive(Debug, Parser)]
        struct Command {
            #[arg(long)]
            to: Option<String>,
            #[command(flatten)]
            place: PlaceArgs,
        }
        let words = ["x"].into_iter().chain(options.split_whitespace());
        let read = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        let with_memory = fixture::topology().with_memory();
        read.place.change(Placement::Home, &with_memory).map_err(|error| error.to_string())
    }

    #[test]
    fn placements_are_read_with_their_nodes_and_weights() {
        let interleave = |nodes: &str| Ok(Placement::Interleave(nodes.parse().ok()));
        assert_eq!(placement(""), Ok(Placement::Home));
        assert_eq!(placement("--place home"), Ok(Placement::Home));
        assert_eq!(placement("--place interleave"), Ok(Placement::Interleave(None)));
        assert_eq!(placement("--place interleave --nodes 0,8"), interleave("0,8"));
        assert_eq!(placement("--place interleave --nodes all"), interleave("0,2,8"));
        assert_eq!(placement("--place interleave --nodes !2"), interleave("0,8"));
        let weighted = Ok(Placement::Weighted("0=3,8=1".parse().expect("valid")));
        assert_eq!(placement("--place weighted --weights 0=3,8=1"), weighted);
        assert_eq!(placement("--place weighted --weights 0=3,8=1 --nodes 0,8"), weighted);
        assert_eq!(placement("--place balance"), Ok(Placement::Balance(None)));
        let balance = Ok(Placement::Balance("0=3,8=1".parse().ok()));
        assert_eq!(placement("--place block"), Ok(Placement::Block(None)));
        assert_eq!(
            placement("--place block --nodes 0,8"),
            Ok(Placement::Block("0,8".parse().ok()))
        );
        assert_eq!(placement("--place balance --weights 0=3,8=1"), balance);
        let bandwidth = |nodes: &str| {
            Ok(Placement::Bandwidth(ByBandwidth { nodes: nodes.parse().ok(), known: None }))
        };
        assert_eq!(placement("--place weighted --weights bandwidth --nodes 0,8"), bandwidth("0,8"));
        let by_cpus = Ok(Placement::Bandwidth(ByBandwidth::default()));
        assert_eq!(placement("--place weighted --weights bandwidth"), by_cpus);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let cases = [
            ("--place weighted", "needs --weights"),
            ("--place interleave --weights 0=1,2=1", "needs --place weighted"),
            ("--place block --nodes 2", "two nodes or more"),
            ("--place block --weights 0=1,2=1", "needs --place weighted or balance"),
            ("--place balance --nodes 0,2", "--weights for nodes that are named"),
            ("--place interleave --nodes 2", "two nodes or more"),
            ("--place weighted --weights bandwidth --nodes 2", "two nodes or more"),
            ("--place interleave --weights bandwidth", "needs --place weighted"),
            ("--place weighted --weights Bandwidth", "not a node and its weight"),
            ("--place home --nodes 0,2", "use --to"),
            ("--place weighted --weights 0=1,2=1 --nodes 0,2,8", "no weight for node 8"),
            ("--place weighted --weights 0=1,2=1,8=1 --nodes 0,2", "has node 8"),
            ("--place weighted --weights 0=0,2=1", "not from 1 to 255"),
            ("--place weighted --weights 0=-1,2=1", "not from 1 to 255"),
            ("--place weighted --weights 0=256,2=1", "not from 1 to 255"),
            ("--place weighted --weights 0=1", "two nodes or more"),
            ("--nodes 0,2", "--place"),
            ("--weights 0=1,2=1", "--place"),
            ("--place wide", "wide"),
            ("--place interleave --to 0", "--to"),
        ];
        for (options, expected) in cases {
            let refused = placement(options).expect_err(options);
            assert!(refused.contains(expected), "{options}: {refused}");
        }
    }

    #[test]
    fn placements_of_mappings_replace_those_of_all_memory_and_the_other_way_round() {
        let change = |options: &str, before: numaloc_core::Options| {
            let words = format!("numalocctl plan --pid 1 {options}");
            let cli = Cli::try_parse_from(words.split_whitespace()).map_err(|it| it.to_string())?;
            let crate::args::Command::Plan(plan) = cli.command else { panic!("{words}") };
            let policy = numaloc_api::value::Policy { options: before, ..Default::default() };
            let changed = plan.0.options.change(policy, &fixture::topology().with_memory());
            changed.map(|policy| policy.options).map_err(|failure| failure.to_string())
        };
        let default = numaloc_core::Options::default;
        let refused = |options: &str| change(options, default()).expect_err(options);
        let wide = change("--place interleave --nodes 0,2", default()).expect("valid");
        let maps = "--map memfd:vm*=interleave:0,2 --map anon>1G=weighted:0=3,8=1 --map heap=home";
        let mapped = change(maps, wide.clone()).expect("valid");
        assert_eq!(
            (&mapped.placement, &mapped.to, mapped.maps.len()),
            (&Placement::Home, &None, 3)
        );
        assert_eq!(change("", mapped.clone()), Ok(mapped.clone()));
        assert_eq!(change("--map heap=home", mapped.clone()).map(|it| it.maps.len()), Ok(1));
        assert_eq!(change("--place interleave --nodes 0,2", mapped.clone()), Ok(wide));
        assert_eq!(change("--place home", mapped.clone()), Ok(default()));
        assert_eq!(change("--to 8", mapped).map(|it| it.maps.len()), Ok(0));
        for (options, expected) in [
            ("--map heap=home --place interleave", "--place"),
            ("--map heap=home --to 0", "--to"),
            ("--map heap=home --nodes 0,2", "--nodes"),
            ("--map heap=home --weights 0=1,2=1", "--weights"),
            ("--map heap", "expected PATTERN=PLACEMENT"),
            ("--map heap=spread", "expected home"),
            ("--map anon>x=home", "expected a size"),
            ("--map heap=interleave:2", "two nodes or more"),
            ("--map heap=weighted:0=0,2=1", "not from 1 to 255"),
            ("--map heap=home --map heap=interleave", "twice"),
            (&" --map x=home".repeat(65), "64 times"),
        ] {
            let refused = refused(options);
            assert!(refused.contains(expected), "{options}: {refused}");
        }
    }

    #[test]
    fn nodes_for_all_memory_replace_a_placement_and_the_other_way_round() {
        let change = |options: &str, before: numaloc_core::Options| {
            let words = format!("numalocctl plan --pid 1 {options}");
            let cli = Cli::try_parse_from(words.split_whitespace()).expect("valid");
            let crate::args::Command::Plan(plan) = cli.command else { panic!("{words}") };
            let policy = numaloc_api::value::Policy { options: before, ..Default::default() };
            let with_memory = fixture::topology().with_memory();
            plan.0.options.change(policy, &with_memory).expect("they fit").options
        };
        let wide = change("--place interleave --nodes 0,2", numaloc_core::Options::default());
        assert_eq!((&wide.to, wide.placement.name()), (&None, "interleave"));
        let home = change("--to 8", wide.clone());
        assert_eq!((home.to.clone(), &home.placement), ("8".parse().ok(), &Placement::Home));
        assert_eq!(change("--place interleave --nodes 0,2", home), wide);
        assert_eq!(change("", wide.clone()), wide);
        assert_eq!(change("--place home", wide).placement, Placement::Home);
    }
}
