//! Claims: where the pages of a process belong, and where they may be put.
//!
//! A page goes to the home of the process that maps it. Claims are joined only for a page that several processes of the
//! target really share. Even a target of many processes has few different claims.

use crate::{
    ask::placement::Portions,
    machine::ids::{NodeId, NodeSet},
    memory::{
        claim_set::ClaimSet,
        cycle::Cycle,
        extent::{Extent, Mapping, Pages},
        rule::Rule,
    },
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Where the pages of a process belong and may be put.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Nodes where the pages of the process are local; all nodes, for a process of which nothing is moved.
    pub home: NodeSet,
    /// Nodes that the cpuset of the process allows.
    pub allowed: NodeSet,
    /// Where its pages go that are on nodes of other memory tiers ([`crate::home::in_tiers`]).
    pub in_tiers: BTreeMap<NodeId, NodeSet>,
    /// The order in which its pages take turns on the nodes of its home; `None` if they belong on any of them.
    pub cycle: Option<Cycle>,
    /// The share of each of these nodes, if memory is placed by amounts.
    pub portions: Option<Portions>,
    /// Where the mappings belong that a rule of the request names ([`crate::Options::maps`]), by the number of the rule. Empty in a
    /// claim on one extent.
    pub named: Vec<Belonging>,
}

/// Where memory belongs; see [`Claim`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Belonging {
    /// Nodes where it is local.
    pub home: NodeSet,
    /// The order in which its pages take turns on them; `None` if they belong on any of them.
    pub cycle: Option<Cycle>,
    /// The share of each of these nodes, if memory is placed by amounts.
    pub portions: Option<Portions>,
}

impl Claim {
    /// The claim on memory that this rule of the request names, or none.
    fn by(&self, rule: Option<Rule>) -> Self {
        let Self { home, allowed, in_tiers, cycle, portions, named } = self;
        let (home, cycle, portions) =
            match rule.and_then(Rule::request).and_then(|rule| named.get(rule)) {
                Some(Belonging { home, cycle, portions }) => (home, cycle, portions),
                None => (home, cycle, portions),
            };
        let (home, allowed, cycle) = (home.clone(), allowed.clone(), cycle.clone());
        let (in_tiers, portions) = (in_tiers.clone(), portions.clone());
        Self { home, allowed, in_tiers, cycle, portions, named: Vec::new() }
    }
}

/// The claims of a target's processes. Equal claims are stored once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    different: Vec<Claim>,
    /// The same on memory that no rule names: a survey asks for it for each extent.
    unnamed: Vec<Arc<Claim>>,
    by_process: Vec<usize>,
    cells: Vec<Option<CellHome>>,
}

/// Where the memory of a guest's cell belongs, whatever else maps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellHome {
    /// Nodes where it is local.
    pub home: NodeSet,
    /// Where its pages go that are on nodes of other memory tiers ([`crate::home::in_tiers`]).
    pub in_tiers: BTreeMap<NodeId, NodeSet>,
}

impl FromIterator<Claim> for Claims {
    /// One claim for each process, in the order of their indexes.
    fn from_iter<I: IntoIterator<Item = Claim>>(claims: I) -> Self {
        let (mut different, mut numbers) = (Vec::new(), HashMap::new());
        let number = |claim: Claim| {
            *numbers.entry(claim).or_insert_with_key(|claim| {
                different.push(claim.clone());
                different.len() - 1
            })
        };
        let by_process = claims.into_iter().map(number).collect();
        let unnamed = different.iter().map(|claim| Arc::new(claim.by(None))).collect();
        Self { different, unnamed, by_process, cells: Vec::new() }
    }
}

impl Claims {
    /// The same, with the homes of the cells of all processes ([`Rule::Cell`]). `None`: a cell's memory belongs where the other memory of its
    /// process does.
    #[must_use]
    pub fn with_cells(self, cells: impl IntoIterator<Item = Option<CellHome>>) -> Self {
        Self { cells: cells.into_iter().collect(), ..self }
    }

    /// The number of a process's claim.
    pub fn number(&self, process: usize) -> usize {
        self.by_process[process]
    }

    /// The claim of a process.
    pub fn of_process(&self, process: usize) -> &Claim {
        &self.different[self.number(process)]
    }

    /// Gives the place of a process that has ended, or the next new one, to another process, if its claim is one that a process has or
    /// had. Returns whether it did.
    pub fn admit(&mut self, process: usize, claim: &Claim) -> bool {
        let Some(number) = self.different.iter().position(|known| known == claim) else {
            return false;
        };
        match self.by_process.get_mut(process) {
            Some(place) => *place = number,
            None => self.by_process.push(number),
        }
        true
    }

    /// The claims of several processes.
    pub fn of(&self, processes: impl IntoIterator<Item = usize>) -> ClaimSet {
        processes.into_iter().map(|process| self.number(process)).collect()
    }

    /// The joined claim on the pages of an extent. Pages of a stripe are at home on its node alone.
    pub fn on_extent(&self, extent: &Extent) -> Arc<Claim> {
        let claim = self.on(&extent.mappings, &extent.pages, extent.rule);
        match &extent.stripe {
            Some(stripe) => {
                let home = [stripe.node].into_iter().collect();
                Arc::new(Claim { home, ..Arc::unwrap_or_clone(claim) })
            }
            None => claim,
        }
    }

    /// The joined claim of the processes that share the pages of an extent, which this rule names, or none.
    pub fn on(&self, mappings: &[Mapping], pages: &Pages, rule: Option<Rule>) -> Arc<Claim> {
        let processes = || mappings.iter().map(|mapping| mapping.process);
        match (pages, mappings) {
            (Pages::Common(sharers), _) => Arc::new(self.join(sharers, rule)),
            (_, [only]) if rule.is_none() => self.unnamed[self.number(only.process)].clone(),
            _ => Arc::new(self.join(&self.of(processes()), rule)),
        }
    }

    /// Joins a set of claims on memory that this rule names, or none, to one. A page is at home where it is at home for at least one of the claims, and may go
    /// only to nodes that all claims allow. Pages that a process of which nothing is moved maps take no turns, also if other processes share them.
    /// Memory of a guest's cell is at home there alone: what else maps it serves the guest.
    pub fn join(&self, set: &ClaimSet, rule: Option<Rule>) -> Claim {
        let claims = set.numbers().map(|number| self.different[number].by(rule));
        let joined = claims.reduce(|joined, claim| Claim {
            home: joined.home.or(&claim.home),
            allowed: joined.allowed.and(&claim.allowed),
            in_tiers: join_tiers(joined.in_tiers, &claim.in_tiers),
            cycle: joined.cycle.zip(claim.cycle).map(|(one, other)| one.join(&other)),
            portions: joined.portions.zip(claim.portions).and_then(|(one, other)| one.join(&other)),
            named: Vec::new(),
        });
        let joined = joined.unwrap_or_default();
        match rule.and_then(Rule::cell).and_then(|cell| self.cells.get(cell)?.clone()) {
            Some(CellHome { home, in_tiers }) => {
                Claim { home, in_tiers, allowed: joined.allowed, ..Claim::default() }
            }
            None => joined,
        }
    }
}

/// A page leaves a node of another tier only if it is at home there for none of the processes that share it.
fn join_tiers(
    one: BTreeMap<NodeId, NodeSet>,
    other: &BTreeMap<NodeId, NodeSet>,
) -> BTreeMap<NodeId, NodeSet> {
    let both = one.into_iter().filter_map(|(from, to)| Some((from, to.or(other.get(&from)?))));
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(home: &str, allowed: &str) -> Claim {
        let [home, allowed] = [home, allowed].map(|list| list.parse().unwrap());
        Claim { home, allowed, ..Claim::default() }
    }

    #[test]
    fn equal_claims_are_one() {
        let claims: Claims =
            [claim("0", "0-1"), claim("1", "0-1"), claim("0", "0-1")].into_iter().collect();
        assert_eq!(claims.number(0), claims.number(2));
        assert_eq!(claims.of([0, 2]), claims.of([2]));
        assert_ne!(claims.of([0, 1]), claims.of([0]));
        assert_eq!(claims.of([0]).with(claims.number(1)), claims.of([1, 0]));
        let mut more = claims.clone();
        assert!(!more.admit(3, &claim("0-1", "0-1")), "no process has this one");
        assert!(more.admit(3, &claim("1", "0-1")) && more.number(3) == claims.number(1));
        assert!(more.admit(3, &claim("0", "0-1")) && more.number(3) == claims.number(0));
        assert_eq!(more.by_process.len(), 4, "it has the place of the one before it");
    }

    #[test]
    fn home_is_everyones_and_allowed_is_what_all_have() {
        let claims: Claims = [claim("0", "0-2"), claim("1", "1-3")].into_iter().collect();
        assert_eq!(claims.join(&claims.of([0, 1]), None), claim("0-1", "1-2"));
        assert_eq!(claims.join(&claims.of([1]), None), claim("1", "1-3"));
    }

    #[test]
    fn memory_that_a_rule_names_belongs_where_the_rule_says() {
        let cycle = |list: &str| {
            let nodes: NodeSet = list.parse().unwrap();
            Cycle::new(nodes.iter().map(|node| (node, 1)))
        };
        let named = |list: &str, is_wide: bool| Belonging {
            home: list.parse().unwrap(),
            cycle: is_wide.then(|| cycle(list)),
            portions: None,
        };
        let with = |rules: [Belonging; 2]| Claim { named: rules.into(), ..claim("0-3", "0-3") };
        let all: Claims = [
            with([named("0", false), named("0-1", true)]),
            with([named("1", false), named("1-2", true)]),
        ]
        .into_iter()
        .collect();
        let both = all.of([0, 1]);
        assert_eq!(all.join(&both, Some(Rule::Request(0))), claim("0-1", "0-3"));
        let wide = Claim { cycle: Some(cycle("0-2")), ..claim("0-2", "0-3") };
        assert_eq!(all.join(&both, Some(Rule::Request(1))), wide);
        assert_eq!(all.join(&both, None), claim("0-3", "0-3"), "what no rule names");
        assert_ne!(all.number(0), all.number(1));
    }
}
