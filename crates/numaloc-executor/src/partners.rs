//! Partners of an exchange, asked one after the other.

use crate::{
    beside::{Partner, Partners},
    limits::RunLimits,
};
use numaloc_core::{NodeId, NodeSet, Options, Plan, Process, Topology, exchange};
use numaloc_host::Survey;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

/// Looks at a partner, which has this index, in order to move what the options say; `None`: nothing of it can be moved.
pub type Inspect<'a> = dyn FnMut(usize, &Options) -> Option<Survey> + Send + 'a;

/// Partners in the order of [`exchange::order`]. Each is looked at only when its turn comes.
pub struct InOrder<'a> {
    topology: &'a Topology,
    /// Options of the run that needs room.
    run: Options,
    /// The nodes of each one's CPUs.
    homes: Vec<NodeSet>,
    /// How hard their memory may be moved.
    limits: RunLimits,
    inspect: Box<Inspect<'a>>,
    /// On which node they make room, and who has not been asked there yet.
    turn: Option<(NodeId, VecDeque<usize>)>,
}

impl fmt::Debug for InOrder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { homes, limits, turn, .. } = self;
        let mut shown = f.debug_struct("InOrder");
        shown.field("homes", homes).field("limits", limits).field("turn", turn);
        shown.finish_non_exhaustive()
    }
}

/// The nodes of the CPUs of these processes together.
pub fn homes<'p>(topology: &Topology, processes: impl IntoIterator<Item = &'p Process>) -> NodeSet {
    let nodes = |process: &Process| topology.local_nodes(&process.cpus);
    processes.into_iter().fold(NodeSet::new(), |all, process| all.or(&nodes(process)))
}

impl<'a> InOrder<'a> {
    /// For a run with the options `run`. `homes` has the nodes of the CPUs of each partner, by its index.
    pub fn new(
        topology: &'a Topology,
        run: &Options,
        homes: Vec<NodeSet>,
        limits: RunLimits,
        inspect: impl FnMut(usize, &Options) -> Option<Survey> + Send + 'a,
    ) -> Self {
        let (run, inspect) = (run.clone(), Box::new(inspect));
        Self { topology, run, homes, limits, inspect, turn: None }
    }

    /// Counts in `plan` what will move by exchange. Looks at partners until they have as much memory as lacks room.
    pub fn expect(&mut self, plan: &mut Plan) {
        let mut waiting: BTreeMap<NodeId, u64> = BTreeMap::new();
        for (&(_, to), bytes) in &plan.no_room {
            *waiting.entry(to).or_default() += bytes;
        }
        let mut offered = BTreeMap::new();
        for (node, to) in exchange::sides(plan) {
            let wanted = waiting.get(&node).copied().unwrap_or(0);
            let mut bytes = 0;
            while bytes < wanted
                && let Some(partner) = self.next(node, &to)
            {
                bytes += exchange::offered_bytes(&partner.plan, node);
            }
            offered.insert(node, bytes);
        }
        self.turn = None;
        exchange::expect(plan, offered);
    }
}

impl Partners for InOrder<'_> {
    fn next(&mut self, node: NodeId, to: &NodeSet) -> Option<Partner> {
        let Self { topology, run, homes, limits, inspect, turn } = self;
        let (at, left) = turn.get_or_insert_with(|| (node, exchange::order(homes, node).into()));
        if *at != node {
            (*at, *left) = (node, exchange::order(homes, node).into());
        }
        let options = exchange::options(node, to, run);
        while let Some(index) = left.pop_front() {
            let Some(mut survey) = inspect(index, &options) else { continue };
            let mut plan = survey.take_seen().plan(topology, &options);
            exchange::leave_hugetlb(&mut plan);
            if !plan.moves.is_empty() {
                return Some(Partner { plan, survey, limits: limits.clone() });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::Pacing;
    use std::{sync::mpsc, time::Duration};

    fn nodes(list: &str) -> NodeSet {
        list.parse().expect("a list")
    }

    #[test]
    fn each_is_looked_at_once_for_a_node_and_the_pinned_last() {
        let (seen, looked) = mpsc::channel();
        let inspect = move |index: usize, options: &Options| {
            seen.send((index, options.from.clone())).expect("it is read");
            None
        };
        let (topology, homes) = (Topology::default(), ["0", "0-1", "1"].map(nodes).to_vec());
        let (options, limits) = (Options::default(), RunLimits::default());
        let mut partners = InOrder::new(&topology, &options, homes, limits, inspect);
        let mut ask = |node: u32| -> Vec<usize> {
            assert!(partners.next(NodeId(node), &nodes("2")).is_none());
            let own = Some(nodes(&node.to_string()));
            let one = |(index, from)| {
                assert_eq!(from, own);
                index
            };
            looked.try_iter().map(one).collect()
        };
        assert_eq!(ask(0), [2, 1, 0]);
        assert_eq!(ask(0), [0; 0], "nobody is given twice");
        assert_eq!(ask(1), [0, 1, 2]);
    }

    #[test]
    fn best_effort_has_half_of_the_rate_or_of_the_time() {
        let pacing = Pacing::default();
        let half = pacing.pace().duty_percent / 2;
        let bare = RunLimits { timeout: Some(Duration::from_secs(1)), ..RunLimits::default() };
        let bare = bare.best_effort(&pacing);
        assert_eq!((bare.duty_percent, bare.timeout), (Some(half), None));
        let rated = RunLimits { rate_bytes_per_second: Some(8), ..RunLimits::default() };
        let rated = rated.best_effort(&pacing);
        assert_eq!((rated.rate_bytes_per_second, rated.duty_percent), (Some(4), None));
    }
}
