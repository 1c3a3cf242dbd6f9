//! Memory on two tiers by its use ([`Placement::Tiers`](crate::Placement)): chunks as large as a huge page that are used go up, chunks that are not
//! go down. All of a target's memory is decided on together, after the last extent, because bounds are for all of it.

use super::{Planner, portioned::Part};
use crate::{
    Identity,
    ask::{
        placement::{Portions, tiers::Tiers},
        temperatures::{Temperature, Temperatures},
    },
    home::claim::Claim,
    machine::{
        ids::{NodeId, NodeSet},
        supply::Supply,
        topology::NodeMemory,
    },
    memory::extent::{Extent, Mapping},
    plan::tier_use::{TierUse, UseAmounts},
    pmd_size,
};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// An extent that is placed by use, with its claim.
pub(super) struct Tiered {
    claim: Arc<Claim>,
    extent: Extent,
}

/// A chunk of an extent that belongs on the other tier.
struct Chunk {
    /// Index of the extent.
    extent: usize,
    /// The chunk's number within the extent: chunks with successive numbers follow each other.
    number: usize,
    /// Bytes from the start of the extent.
    range: Range<u64>,
    /// What leaves, by node.
    bytes: BTreeMap<NodeId, u64>,
}

impl Chunk {
    fn sum(&self) -> u64 {
        self.bytes.values().sum()
    }
}

impl Planner<'_> {
    /// Keeps an extent until all are known.
    pub(super) fn tiered(&mut self, extent: Extent, claim: Arc<Claim>) {
        self.tiered.push(Tiered { claim, extent });
    }

    /// Decides on all extents that are placed by use.
    pub(super) fn place_by_use(&mut self) {
        let all = std::mem::take(&mut self.tiered);
        let Some(tiers) = self.plan.options.placement.by_use().cloned() else { return };
        let none = Temperatures::default();
        let seen = tiers.seen.as_deref().unwrap_or(&none);
        let (mut tier_use, mut up, mut down) = (TierUse::default(), Vec::new(), Vec::new());
        for (index, Tiered { claim, extent }) in all.iter().enumerate() {
            let Some(Portions::Tiers { fast, slow }) = &claim.portions else { continue };
            for (number, (range, bytes)) in chunks(extent).into_iter().enumerate() {
                let on = |nodes: &NodeSet| -> BTreeMap<NodeId, u64> {
                    let of_them = bytes.iter().filter(|(node, _)| nodes.contains(**node));
                    of_them.map(|(&node, &bytes)| (node, bytes)).collect()
                };
                let (on_fast, on_slow) = (on(fast), on(slow));
                let temperature = seen.of(self.addresses(&extent.mappings, &range));
                tier_use.fast.add(temperature, on_fast.values().sum());
                tier_use.slow.add(temperature, on_slow.values().sum());
                let chunk = |bytes| Chunk { extent: index, number, range: range.clone(), bytes };
                let goes_up = temperature == Temperature::Hot && !on_slow.is_empty();
                let goes_down = temperature == Temperature::Cold && !on_fast.is_empty();
                if !goes_up && !goes_down {
                    continue;
                }
                let bytes = if goes_up { on_slow } else { on_fast };
                if self.rests(seen, &extent.mappings, &range, goes_up) {
                    tier_use.resting_bytes += bytes.values().sum::<u64>();
                    continue;
                }
                let list = if goes_up { &mut up } else { &mut down };
                list.push(chunk(bytes));
            }
        }
        let fast = all.iter().filter_map(|tiered| match &tiered.claim.portions {
            Some(Portions::Tiers { fast, .. }) => Some(fast.clone()),
            _ => None,
        });
        let fast = fast.fold(NodeSet::new(), |all, fast| all.or(&fast));
        // What may not go up makes no room on its way.
        let comes_up = |chunk: &Chunk| {
            let Tiered { claim, extent } = &all[chunk.extent];
            self.targets(extent, &fast, &claim.allowed).is_ok()
        };
        let up_bytes: u64 = up.iter().filter(|chunk| comes_up(chunk)).map(Chunk::sum).sum();
        let kept_bytes = self.keep(&tiers, &tier_use, &fast, up_bytes, &mut down);
        tier_use.kept_bytes = kept_bytes;
        // Room for what goes up comes first.
        let lacking_bytes = self.lacking(up_bytes, &fast);
        let (mut before, mut sum) = (0, 0);
        while sum < lacking_bytes && before < down.len() {
            sum += down[before].sum();
            before += 1;
        }
        let rest = down.split_off(before);
        let parts = [(down, false), (up, true), (rest, false)];
        let parts: Vec<Part> =
            parts.into_iter().flat_map(|(chunks, is_up)| self.parts(&all, chunks, is_up)).collect();
        for (index, Tiered { claim, extent }) in all.iter().enumerate() {
            self.count_parts(extent, claim, parts.iter().filter(|part| part.extent == index));
        }
        for part in &parts {
            let Tiered { claim, extent } = &all[part.extent];
            self.move_or_leave(extent, claim, part);
        }
        self.plan.tiers = Some(tier_use);
    }

    fn rests(
        &self,
        seen: &Temperatures,
        mappings: &[Mapping],
        range: &Range<u64>,
        is_up: bool,
    ) -> bool {
        self.addresses(mappings, range).any(|(identity, range)| seen.rests(identity, range, is_up))
    }

    /// Where each of the processes maps a range of an extent.
    fn addresses(
        &self,
        mappings: &[Mapping],
        range: &Range<u64>,
    ) -> impl Iterator<Item = (Identity, Range<u64>)> {
        mappings.iter().map(move |mapping| {
            let identity = self.scene.processes[mapping.process].identity;
            (identity, mapping.start + range.start..mapping.start + range.end)
        })
    }

    /// Cuts `down` to what may go: so much stays on the fast nodes as the request says, and no more leaves than that needs which is to
    /// be free there. Returns the cold bytes that stay for that.
    fn keep(
        &self,
        tiers: &Tiers,
        tier_use: &TierUse,
        fast: &NodeSet,
        up_bytes: u64,
        down: &mut Vec<Chunk>,
    ) -> u64 {
        let on_fast = tier_use.fast.sum();
        let kept = tiers.keep_fast.of(on_fast + tier_use.slow.sum());
        let mut most = (on_fast + up_bytes).saturating_sub(kept);
        if let Some(free_bytes) = tiers.free_fast_bytes {
            let free: u64 = fast
                .iter()
                .filter_map(|id| self.memory.get(&id))
                .map(|memory| memory.free_bytes)
                .sum();
            most = most.min((free_bytes + up_bytes).saturating_sub(free));
        }
        let (mut sum, mut kept_bytes) = (0, 0);
        down.retain(|chunk| {
            let goes = sum + chunk.sum() <= most;
            *(if goes { &mut sum } else { &mut kept_bytes }) += chunk.sum();
            goes
        });
        kept_bytes
    }

    /// Bytes that have to leave these nodes before they have room for `bytes`.
    fn lacking(&self, bytes: u64, nodes: &NodeSet) -> u64 {
        let memory = || nodes.iter().filter_map(|id| self.memory.get(&id));
        let reserve = |memory: &NodeMemory| self.plan.options.reserve(memory.total_bytes);
        let room = memory().map(|memory| memory.room(Supply::base(), reserve(memory)));
        match bytes.saturating_sub(room.sum()) {
            0 => 0,
            rest => {
                rest + memory()
                    .map(|memory| memory.below_reserve_bytes(reserve(memory)))
                    .sum::<u64>()
            }
        }
    }

    /// Joins chunks that follow each other and leave the same nodes.
    fn parts(&self, all: &[Tiered], chunks: Vec<Chunk>, is_up: bool) -> Vec<Part> {
        let (mut parts, mut last): (Vec<Part>, usize) = (Vec::new(), 0);
        for Chunk { extent, number, range, bytes } in chunks {
            let follows = |part: &Part| {
                part.extent == extent && number == last + 1 && part.remote.keys().eq(bytes.keys())
            };
            match parts.last_mut().filter(|part| follows(part)) {
                Some(part) => {
                    part.range.end = range.end;
                    bytes.into_iter().for_each(|(node, bytes)| {
                        *part.remote.entry(node).or_default() += bytes;
                    });
                }
                None => {
                    let to = match &all[extent].claim.portions {
                        Some(Portions::Tiers { fast, .. }) if is_up => fast.clone(),
                        Some(Portions::Tiers { slow, .. }) => slow.clone(),
                        _ => continue,
                    };
                    parts.push(Part { extent, to, range, remote: bytes });
                }
            }
            last = number;
        }
        parts
    }
}

/// The chunks of an extent that have pages which may move: their range in bytes from its start, and their bytes by node. A page that is
/// larger than a chunk is one.
fn chunks(extent: &Extent) -> Vec<(Range<u64>, BTreeMap<NodeId, u64>)> {
    let start = extent.mappings[0].start;
    let length = extent.hugetlb_bytes.unwrap_or(pmd_size()).max(pmd_size());
    let range =
        |chunk: u64| chunk.saturating_sub(start)..(chunk + length - start).min(extent.bytes);
    let chunks = extent.residency.grains.chunks(start).into_iter();
    chunks.map(|(chunk, bytes)| (range(chunk), bytes)).collect()
}

impl UseAmounts {
    fn add(&mut self, temperature: Temperature, bytes: u64) {
        *match temperature {
            Temperature::Hot => &mut self.hot_bytes,
            Temperature::Warm => &mut self.warm_bytes,
            Temperature::Cold => &mut self.cold_bytes,
            Temperature::Unseen => &mut self.unseen_bytes,
        } += bytes;
    }
}
