//! Partners of an exchange, asked one after the other.

use crate::{
    limits::party::{Partners, Party},
    run::exchange::{Partner, PartnerQueue},
};
use numaloc_core::{NodeId, NodeSet, Plan, exchange};
use numaloc_host::Surveyor;
use std::collections::{BTreeMap, VecDeque};

/// Partners in the order of [`exchange::order`]. Each is surveyed only when its turn comes.
pub struct InOrder<'a, P> {
    /// With the options of the run that needs room.
    surveyor: Surveyor<'a>,
    partners: &'a mut Partners<P>,
    /// The nodes of each one's CPUs.
    homes: Vec<NodeSet>,
    /// On which node they make room, and who has not been asked there yet.
    turn: Option<(NodeId, VecDeque<usize>)>,
}

impl<'a, P: Party> InOrder<'a, P> {
    /// For a run with the options of `surveyor`.
    pub fn new(surveyor: Surveyor<'a>, partners: &'a mut Partners<P>) -> Self {
        let homes = partners.parties.iter().map(|party| {
            let nodes = |cpus| surveyor.topology.local_nodes(cpus);
            party.processes().fold(NodeSet::new(), |all, process| all.or(&nodes(&process.cpus)))
        });
        let homes = homes.collect();
        Self { surveyor, partners, homes, turn: None }
    }

    /// Counts in `plan` what will move by exchange. Looks at partners until they have as much memory as lacks room.
    pub fn expect(&mut self, plan: &mut Plan) {
        let mut waiting: BTreeMap<NodeId, u64> = BTreeMap::new();
        for ((_, to), bytes) in exchange::waiting(plan) {
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

impl<P: Party> PartnerQueue for InOrder<'_, P> {
    fn next(&mut self, node: NodeId, to: &NodeSet) -> Option<Partner> {
        let Self { surveyor, partners, homes, turn } = self;
        let Partners { parties, limits, refused } = &mut **partners;
        let (at, left) = turn.get_or_insert_with(|| (node, exchange::order(homes, node).into()));
        if *at != node {
            (*at, *left) = (node, exchange::order(homes, node).into());
        }
        let options = exchange::options(node, to, surveyor.options);
        while let Some(index) = left.pop_front() {
            let party = &mut parties[index];
            let (survey, seen) = match party.survey(Surveyor { options: &options, ..*surveyor }) {
                Ok(surveyed) => surveyed,
                Err(why) => {
                    refused(&party.name(), &why.to_string());
                    continue;
                }
            };
            let mut plan = seen.plan(surveyor.topology, &options);
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
    use crate::RunLimits;
    use numaloc_core::{
        Identity, Node, NodeMemory, Options, Pacing, Process, Topology, planner::Surveyed,
    };
    use numaloc_host::{Error, Roots, Survey};
    use std::{iter, sync::mpsc, time::Duration};

    fn nodes(list: &str) -> NodeSet {
        list.parse().expect("a list")
    }

    /// On CPUs whose list is its name, and which have the numbers of their nodes. Sends which nodes it was asked to leave, and is
    /// never surveyed.
    struct Asked {
        name: &'static str,
        process: Process,
        asked: mpsc::Sender<(&'static str, Option<NodeSet>)>,
    }

    impl Asked {
        fn new(name: &'static str, asked: mpsc::Sender<(&'static str, Option<NodeSet>)>) -> Self {
            let (identity, comm) = (Identity { pid: 1, start_time: 1 }, name.to_owned());
            let cpus = name.parse().expect("CPUs");
            let process = Process { identity, comm, cpus, ..Process::default() };
            Self { name, process, asked }
        }
    }

    impl Party for Asked {
        type Error = Error;

        fn name(&self) -> String {
            self.name.to_owned()
        }

        fn processes(&self) -> impl Iterator<Item = &Process> {
            iter::once(&self.process)
        }

        fn survey(&mut self, surveyor: Surveyor<'_>) -> Result<(Survey, Surveyed), Error> {
            let from = surveyor.options.from.clone();
            self.asked.send((self.name, from)).expect("it is read");
            Err(Error::Stopped)
        }
    }

    #[test]
    fn each_is_looked_at_once_for_a_node_and_the_pinned_last() {
        let (seen, looked) = mpsc::channel();
        let parties = ["0", "0-1", "1"].map(|cpus| Asked::new(cpus, seen.clone())).into();
        let mut partners = Partners { parties, ..Partners::default() };
        let node = |id: u32| {
            let (id, cpus) = (NodeId(id), id.to_string().parse().expect("CPUs"));
            Node { id, cpus, memory: NodeMemory { total_bytes: 1 << 30, ..Default::default() } }
        };
        let topology = Topology::new([0, 1, 2].map(node), []);
        let (roots, options) = (Roots::default(), Options::default());
        let surveyor = Surveyor::new(&roots, &topology, &options);
        let mut partners = InOrder::new(surveyor, &mut partners);
        let mut ask = |node: u32| -> Vec<&'static str> {
            assert!(partners.next(NodeId(node), &nodes("2")).is_none());
            let own = Some(nodes(&node.to_string()));
            let one = |(name, from)| {
                assert_eq!(from, own);
                name
            };
            looked.try_iter().map(one).collect()
        };
        assert_eq!(ask(0), ["1", "0-1", "0"]);
        assert_eq!(ask(0), [""; 0], "no partner is given twice");
        assert_eq!(ask(1), ["0", "0-1", "1"]);
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
