//! Extents that are placed by amounts ([`Portions`]): cut into ranges, each of which is an extent like any other from then on.

use super::{Planner, belonging::is_movable};
use crate::{
    ask::placement::{Portions, balance::Shares},
    home::claim::Claim,
    machine::ids::{NodeId, NodeSet},
    memory::{
        chunks::Chunks,
        extent::{Extent, Mapping, Pages},
        locality::{Locality, Share},
        mempolicy::Mempolicy,
        rule::Rule,
    },
    plan::{
        CommonStay, Move, Skipped,
        blocks::{self, Block},
        route::RouteEnds,
        surplus::{self, ALONE_BYTES, Cut},
    },
    result::account::Reason,
};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// Pages in a range of an extent that go to other nodes, by the nodes that they are on.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) extent: usize,
    pub(super) to: NodeSet,
    pub(super) range: Range<u64>,
    pub(super) remote: BTreeMap<NodeId, u64>,
}

impl Planner<'_> {
    /// Places an extent by amounts, or keeps it until the others that are balanced with it are known.
    pub(super) fn portioned(&mut self, extent: Extent, claim: Arc<Claim>) {
        let Some(portions) = &claim.portions else { return };
        // Pages that forked processes share until one of them writes have no place of their own: they stay, and are local.
        if let Pages::Common(_) = extent.pages {
            let (mappings, bytes) = (extent.mappings.clone(), extent.bytes);
            self.plan.common_stays.push(CommonStay { mappings, bytes });
            return self.count_portioned(&extent, &BTreeMap::new(), false);
        }
        match portions {
            Portions::Blocks(nodes) => {
                let blocks = blocks::blocks(&extent, nodes).into_iter();
                let parts = blocks.map(|block| self.part_of(block)).collect();
                self.settle(&claim, &[extent], parts);
            }
            Portions::Tiers { .. } => self.tiered(extent, claim),
            Portions::Shares(shares) => {
                let movable: u64 = surplus::movable(&[&extent]).values().sum();
                if movable >= ALONE_BYTES {
                    return self.balance(&claim, shares, &[extent]);
                }
                match self.small.iter_mut().find(|(known, _)| *known == claim) {
                    Some((_, extents)) => extents.push(extent),
                    None => self.small.push((claim, vec![extent])),
                }
            }
        }
    }

    /// Balances the small extents, those with the same claims together.
    pub(super) fn balance_small(&mut self) {
        for (claim, extents) in std::mem::take(&mut self.small) {
            if let Some(Portions::Shares(shares)) = &claim.portions {
                self.balance(&claim, shares, &extents);
            }
        }
    }

    fn part_of(&self, Block { node, range, mut bytes }: Block) -> Part {
        bytes.retain(|&on, _| on != node && self.sources.contains(on));
        Part { extent: 0, to: [node].into_iter().collect(), range, remote: bytes }
    }

    fn balance(&mut self, claim: &Claim, shares: &Shares, extents: &[Extent]) {
        // Memory that may not go to all of the nodes is balanced by itself, so that the rest need not move.
        let is_free = |&index: &usize| {
            let targets = self.targets(&extents[index], &claim.home, &claim.allowed);
            targets.is_ok_and(|targets| claim.home.is_subset(&targets))
        };
        let (free, bound): (Vec<usize>, Vec<usize>) = (0..extents.len()).partition(is_free);
        let parts = [free, bound].into_iter().flat_map(|indexes| {
            let some: Vec<&Extent> = indexes.iter().map(|&index| &extents[index]).collect();
            let cuts = surplus::cuts(&some, shares, &self.sources).into_iter();
            let part = |Cut { extent, from, to, range, bytes }: Cut| {
                let (extent, remote) = (indexes[extent], [(from, bytes)].into());
                Part { extent, to: [to].into_iter().collect(), range, remote }
            };
            cuts.map(part).collect::<Vec<_>>()
        });
        let parts: Vec<Part> = parts.collect();
        self.settle(claim, extents, parts);
    }

    /// Counts extents, and moves those of their parts that may move.
    fn settle(&mut self, claim: &Claim, extents: &[Extent], parts: Vec<Part>) {
        for (index, extent) in extents.iter().enumerate() {
            self.count_parts(extent, claim, parts.iter().filter(|part| part.extent == index));
        }
        for part in parts.iter().filter(|part| !part.remote.is_empty()) {
            self.move_or_leave(&extents[part.extent], claim, part);
        }
    }

    /// Counts an extent of which these parts are not where they belong.
    pub(super) fn count_parts<'p>(
        &mut self,
        extent: &Extent,
        claim: &Claim,
        parts: impl Iterator<Item = &'p Part>,
    ) {
        let mut remote: BTreeMap<NodeId, u64> = BTreeMap::new();
        for (&node, bytes) in parts.flat_map(|part| &part.remote) {
            *remote.entry(node).or_default() += bytes;
        }
        let movable = is_movable(&self.targets(extent, &claim.home, &claim.allowed));
        self.count_portioned(extent, &remote, movable);
    }

    /// Moves a part, or counts why it stays.
    pub(super) fn move_or_leave(&mut self, extent: &Extent, claim: &Claim, part: &Part) {
        match self.targets(extent, &part.to, &claim.allowed) {
            Ok(targets) => self.move_part(extent, part, targets),
            Err(reason) => self.stays(extent, reason, part),
        }
    }

    fn stays(&mut self, extent: &Extent, reason: Reason, part: &Part) {
        let (mapping, kind, name) = (extent.mappings[0], extent.kind, extent.name.clone());
        let remote_bytes = part.remote.values().sum();
        self.plan.skipped.push(Skipped { mapping, kind, name, reason, remote_bytes });
    }

    /// A part is an extent whose home is all nodes except the nodes that its pages leave.
    fn move_part(&mut self, extent: &Extent, part: &Part, targets: NodeSet) {
        let leave: NodeSet = part.remote.keys().copied().collect();
        let home = self.scene.topology.ids().minus(&leave);
        let routes = self.routes(RouteEnds { home, targets, ..RouteEnds::default() });
        let Range { start, end } = part.range;
        let mapping = |mapping: &Mapping| Mapping { start: mapping.start + start, ..*mapping };
        let mappings: Vec<Mapping> = extent.mappings.iter().map(mapping).collect();
        let all: u64 = part.remote.values().sum();
        if extent.policy == Mempolicy::Unasked {
            self.plan.unasked_bytes += all;
        }
        let asked = extent.rule.and_then(Rule::request);
        if let Some(named) = asked.and_then(|rule| self.plan.named.get_mut(rule)) {
            named.bytes_to_move += all;
        }
        for (node, bytes) in &part.remote {
            let on_node = extent.residency.nodes.get(node);
            self.plan.huge_bytes += on_node.map_or(0, |on_node| on_node.huge_bytes.min(*bytes));
        }
        self.plan.moves.push(Move {
            away: Chunks::whole(mappings[0].start, end - start),
            mappings,
            pages: extent.pages.clone(),
            stripe: None,
            rule: extent.rule,
            bytes: end - start,
            kind: extent.kind,
            hugetlb_bytes: extent.hugetlb_bytes,
            mappers: extent.mappers,
            name: extent.name.clone(),
            routes,
            remote: part.remote.clone(),
            shared_bytes: 0,
        });
    }

    /// Counts an extent of which these bytes, by node, are not where they belong.
    fn count_portioned(&mut self, extent: &Extent, remote: &BTreeMap<NodeId, u64>, movable: bool) {
        let mut locality = Locality::default();
        let remote_of = |node: NodeId| remote.get(&node).copied().unwrap_or(0);
        let all = self.plan.options.include_shared;
        for (&node, resident) in &extent.residency.nodes {
            let share = |bytes: u64| {
                let remote_bytes = remote_of(node).min(bytes);
                Share { local_bytes: bytes - remote_bytes, remote_bytes, ..Share::default() }
            };
            locality.overall.add(share(resident.total_bytes()));
            if movable {
                let bytes = if all { resident.total_bytes() } else { resident.owned_bytes };
                locality.movable.add(share(bytes));
            }
        }
        let asked = extent.rule.and_then(Rule::request);
        if let Some(named) = asked.and_then(|rule| self.plan.named.get_mut(rule)) {
            named.count(&extent.residency, 0);
        }
        self.add(extent, locality, |node, _| remote_of(node));
    }
}
