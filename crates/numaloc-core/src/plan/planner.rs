//! The planner: extents in, decisions out. Time and memory are linear in the number of extents.

use crate::{
    ask::{heat::HeatSource, options::Options},
    home::{
        away,
        claim::{Claim, Claims},
        wide_threads,
    },
    machine::{
        ids::{NodeId, NodeSet},
        process::Process,
        topology::{NodeMemory, Topology},
    },
    memory::{
        extent::{Extent, Kind, Pages},
        fixed::FixedMemory,
        locality::Locality,
        mempolicy::Mempolicy,
        rule::Rule,
    },
    plan::{
        CommonStay, Move, NamedMemory, Plan, PlannedCell, PlannedProcess, Skipped, benefit,
        route::{RouteEnds, Routes},
    },
    result::account::Reason,
};
use std::{collections::BTreeMap, sync::Arc};

mod belonging;
mod bounds;
mod counts;
mod expected;
mod guest_cells;
mod neighbours;
mod one_sided;
mod portioned;
mod tiered;

pub use crate::home::home;
pub use belonging::{claims, skip, skip_placed, stay};

use belonging::{is_exposed, is_movable};
use neighbours::KnownNeighbours;
use one_sided::Sides;
use tiered::Tiered;

/// Copy rates of the kernel's migration on one CPU in bytes per second, for the guess at a plan's duration:
/// Zen 3, kernel 7.0, as published with the page-migration offload series (4 KiB pages; 2 MiB pages).
pub(crate) const BASE_RATE: f64 = 3.55e9;
const HUGE_RATE: f64 = 10.88e9;

/// The facts that the planner needs besides the extents and the options.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The machine, with free memory as of now.
    pub topology: &'a Topology,
    /// The target's processes; extents refer to them by index.
    pub processes: &'a [Process],
    /// Nodes on which the caller's own cpuset lets it allocate. The kernel allocates the destination pages on behalf of
    /// the caller (mm/migrate.c, `alloc_migration_target`).
    pub caller_mems: &'a NodeSet,
}

/// The result of a survey of a target.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// The target's processes; extents refer to them by index.
    pub processes: Vec<Process>,
    /// Nodes on which the caller's own cpuset lets it allocate ([`Scene::caller_mems`]).
    pub caller_mems: NodeSet,
    /// Everything that those processes map, each page in one extent only.
    pub extents: Vec<Extent>,
    /// Most bytes of attached shared memory that may be resident, mapped by no process, and that this process may not look at.
    pub unseen_bytes: u64,
    /// Bytes of attached shared memory that are in swap.
    pub swapped_shared_bytes: u64,
    /// Whether page frames are hidden from this process. Then what several processes map counts as shared with strangers.
    pub frames_hidden: bool,
    /// Memory that can never move; it is in no extent.
    pub fixed: FixedMemory,
}

impl Surveyed {
    /// Decides which pages go where. `options` have to be the options of the survey.
    pub fn plan(self, topology: &Topology, options: &Options) -> Plan {
        let scene = Scene { topology, processes: &self.processes, caller_mems: &self.caller_mems };
        Plan {
            unseen_bytes: self.unseen_bytes,
            swapped_shared_bytes: self.swapped_shared_bytes,
            frames_hidden: self.frames_hidden,
            fixed: self.fixed,
            ..plan(scene, self.extents, options)
        }
    }
}

/// Decides which pages of `extents` go where.
pub fn plan(
    scene: Scene<'_>,
    extents: impl IntoIterator<Item = Extent>,
    options: &Options,
) -> Plan {
    let mut planner = Planner::new(scene, options);
    for extent in extents {
        planner.extent(extent);
    }
    planner.finish()
}

struct Planner<'a> {
    scene: Scene<'a>,
    claims: Claims,
    /// Nodes that pages may leave.
    sources: NodeSet,
    /// Nodes of lower tiers that pages may not leave.
    demoted: NodeSet,
    plan: Plan,
    memory: BTreeMap<NodeId, NodeMemory>,
    neighbours: KnownNeighbours,
    sides: Sides,
    /// Where the cells of guests are in the plan, by their numbers.
    cells: Vec<(usize, usize)>,
    /// Small extents that are balanced together, by their claims.
    small: Vec<(Arc<Claim>, Vec<Extent>)>,
    /// Extents that are placed by use.
    tiered: Vec<Tiered>,
}

impl<'a> Planner<'a> {
    fn new(scene: Scene<'a>, options: &Options) -> Self {
        let processes =
            scene.processes.iter().map(|process| planned(scene.topology, process, options));
        let plan = Plan {
            options: options.clone(),
            processes: processes.collect(),
            family_resident: BTreeMap::new(),
            family_locality: Locality::default(),
            kinds: Vec::new(),
            routes: Vec::new(),
            moves: Vec::new(),
            skipped: Vec::new(),
            common_stays: Vec::new(),
            fixed: FixedMemory::new(),
            named: vec![NamedMemory::default(); options.maps.len()],
            locality: Locality::default(),
            expected_bytes: 0,
            nearer_bytes: 0,
            near_left_bytes: 0,
            near_came_bytes: 0,
            aside: BTreeMap::new(),
            expected_flows: BTreeMap::new(),
            huge_bytes: 0,
            expected_room: BTreeMap::new(),
            demoting: scene.topology.demoting(),
            used_up_pools: Default::default(),
            protected_cache: BTreeMap::new(),
            no_room_bytes: 0,
            no_room: BTreeMap::new(),
            beyond_pool_bytes: 0,
            limit_bytes: None,
            expected_seconds: 0.0,
            unplaced_bytes: 0,
            unmapped: BTreeMap::new(),
            unseen_bytes: 0,
            frames_hidden: false,
            unasked_bytes: 0,
            order: HeatSource::Address,
            waits: None,
            exposed_bytes: 0,
            undoable_bytes: 0,
            devices: Vec::new(),
            one_sided: Vec::new(),
            held: Vec::new(),
            swapped_shared_bytes: 0,
            sharers: None,
            tiers: None,
        };
        let memory = scene.topology.nodes().map(|node| (node.id, node.memory.clone())).collect();
        let claims = claims(scene.topology, scene.processes, options);
        let sources = options.sources(scene.topology);
        let demoted = scene.topology.lower_tiers().minus(&sources);
        let (neighbours, sides, small, tiered) = Default::default();
        let cells = guest_cells::places(&plan.processes);
        Self {
            scene,
            claims,
            sources,
            demoted,
            plan,
            memory,
            neighbours,
            sides,
            cells,
            small,
            tiered,
        }
    }

    fn extent(&mut self, extent: Extent) {
        let claim = self.claims.on_extent(&extent);
        let is_exposed = is_exposed(&extent, self.scene.topology, &claim.allowed);
        if is_exposed && (extent.stripe.is_some() || claim.portions.is_some()) {
            let resident = extent.residency.nodes.values().map(|resident| resident.total_bytes());
            self.plan.exposed_bytes += resident.sum::<u64>();
        }
        if extent.pages == Pages::Unmapped {
            for (&node, resident) in &extent.residency.nodes {
                *self.plan.unmapped.entry(node).or_default() += resident.total_bytes();
            }
        } else if claim.portions.is_some() {
            return self.portioned(extent, claim);
        }
        let Claim { home, allowed, in_tiers, .. } = &*claim;
        let targets = self.targets(&extent, home, allowed);
        let in_tiers: BTreeMap<NodeId, Result<NodeSet, Reason>> =
            in_tiers.iter().map(|(&from, to)| (from, self.targets(&extent, to, allowed))).collect();
        let is_meant = extent.rule.is_some() || self.plan.options.maps.is_empty();
        let may_move = |node: &NodeId| match in_tiers.get(node) {
            Some(to) => is_movable(to),
            None => {
                let may_leave = home.contains(*node) || self.sources.contains(*node);
                is_meant && is_movable(&targets) && may_leave
            }
        };
        let movable = extent.residency.nodes.keys().copied().filter(may_move).collect();
        self.count(&extent, home, &movable);
        self.count_sides(&extent, home);
        self.count_cell(&extent);
        let options = &self.plan.options;
        let (mut remote, mut shared_bytes, mut refused) =
            (BTreeMap::new(), 0, BTreeMap::<Reason, u64>::new());
        let reason_elsewhere = options.reason_elsewhere();
        for (&node, resident) in
            extent.residency.nodes.iter().filter(|(node, _)| !home.contains(**node))
        {
            let refusal = match in_tiers.get(&node) {
                Some(to) => to.as_ref().err(),
                None if self.sources.contains(node) => targets.as_ref().err(),
                None => {
                    *refused.entry(reason_elsewhere).or_default() += resident.total_bytes();
                    continue;
                }
            };
            let shared = if options.include_shared { 0 } else { resident.shared_bytes };
            shared_bytes += shared;
            let owned = resident.total_bytes().saturating_sub(shared);
            match refusal {
                Some(&reason) => *refused.entry(reason).or_default() += owned,
                None if owned > 0 => {
                    remote.insert(node, owned);
                    self.plan.huge_bytes += resident.huge_bytes.min(owned);
                }
                None => {}
            }
        }
        let owned_bytes: u64 = remote.values().sum();
        let is_move = owned_bytes > 0;
        let asked = extent.rule.and_then(Rule::request);
        if let Some(named) = asked.and_then(|rule| self.plan.named.get_mut(rule)) {
            named.count(&extent.residency, owned_bytes);
        }
        if !is_move && matches!(extent.pages, Pages::Common(_)) {
            let (mappings, bytes) = (extent.mappings.clone(), extent.bytes);
            self.plan.common_stays.push(CommonStay { mappings, bytes });
        }
        let mut skip = |reason, remote_bytes| {
            let (mapping, kind, name) = (extent.mappings[0], extent.kind, extent.name.clone());
            if remote_bytes > 0 {
                self.plan.skipped.push(Skipped { mapping, kind, name, reason, remote_bytes });
            }
        };
        refused.into_iter().for_each(|(reason, bytes)| skip(reason, bytes));
        if !is_move {
            return skip(Reason::Shared, shared_bytes);
        }
        if extent.policy == Mempolicy::Unasked {
            self.plan.unasked_bytes += owned_bytes;
        }
        if is_exposed {
            self.plan.undoable_bytes += owned_bytes;
        }
        let in_tiers: BTreeMap<NodeId, NodeSet> =
            in_tiers.into_iter().filter_map(|(from, to)| Some((from, to.ok()?))).collect();
        let nearer = self.nearer(&extent, &remote, home, allowed, &in_tiers);
        let (home, targets) = (home.clone(), targets.unwrap_or_default());
        let routes = self.routes(RouteEnds { home, targets, in_tiers, nearer });
        let Extent { mappings, pages, stripe, rule, bytes, kind, .. } = extent;
        let Extent { hugetlb_bytes, mappers, name, residency, .. } = extent;
        self.plan.moves.push(Move {
            mappings,
            pages,
            stripe,
            rule,
            bytes,
            kind,
            hugetlb_bytes,
            mappers,
            name,
            routes,
            remote,
            shared_bytes,
            away: residency.away,
        });
    }

    /// The nodes that an extent's pages may go to, or why they may go to none.
    fn targets(
        &self,
        extent: &Extent,
        home: &NodeSet,
        allowed: &NodeSet,
    ) -> Result<NodeSet, Reason> {
        let options = &self.plan.options;
        if options.exclude_file && extent.kind.is_file() {
            return Err(Reason::FileExcluded);
        }
        if !options.include_network && extent.kind == Kind::NetworkFile {
            return Err(Reason::NetworkFile);
        }
        let seconds = extent.hugetlb_bytes.unwrap_or(0) as f64 / HUGE_RATE;
        if !options.include_gigantic && seconds > options.pacing.pace().max_stall.as_secs_f64() {
            return Err(Reason::StallBound);
        }
        let allowed = home.and(self.scene.caller_mems).and(allowed);
        let permitted =
            if options.include_bound { home.clone() } else { extent.policy.permits(home) };
        if permitted.is_empty() {
            return Err(Reason::Bound);
        }
        let targets = allowed.and(&permitted);
        if targets.is_empty() {
            return Err(Reason::NotAllowed);
        }
        let targets = targets.minus(&options.saturated);
        if targets.is_empty() { Err(Reason::TargetSaturated) } else { Ok(targets) }
    }

    /// Where pages may go that find no room at home, by the nodes that they leave.
    fn nearer(
        &mut self,
        extent: &Extent,
        remote: &BTreeMap<NodeId, u64>,
        home: &NodeSet,
        allowed: &NodeSet,
        in_tiers: &BTreeMap<NodeId, NodeSet>,
    ) -> BTreeMap<NodeId, NodeSet> {
        let neighbours = self.neighbours(home).filter(|_| extent.pages != Pages::Unmapped);
        let Some(neighbours) = neighbours else { return BTreeMap::new() };
        let sources = remote.keys().filter(|&from| !in_tiers.contains_key(from));
        let nearer = sources.filter_map(|&from| {
            let nodes = neighbours.nearer.get(&from).filter(|nodes| !nodes.is_empty())?;
            Some((from, self.targets(extent, nodes, allowed).ok()?))
        });
        nearer.collect()
    }

    fn routes(&mut self, ends: RouteEnds) -> usize {
        let all = ends.all_targets();
        let known = self.plan.routes.iter().position(|routes| {
            let tables = (&routes.in_tiers, &routes.nearer);
            routes.home == ends.home
                && routes.targets == all
                && tables == (&ends.in_tiers, &ends.nearer)
        });
        known.unwrap_or_else(|| {
            let topology = self.scene.topology;
            self.plan.routes.push(Routes::new(topology, &self.sources, ends));
            self.plan.routes.len() - 1
        })
    }

    fn finish(mut self) -> Plan {
        self.balance_small();
        self.place_by_use();
        self.apply_relief();
        self.apply_ratio();
        let moves = std::mem::take(&mut self.plan.moves);
        let mut wanted = self.plan.limit_bytes.unwrap_or(u64::MAX);
        for planned_move in &moves {
            for (&from, &bytes) in &planned_move.remote {
                let bytes = bytes.min(wanted);
                wanted -= bytes;
                self.expect(planned_move, from, bytes);
            }
        }
        self.plan.moves = moves;
        self.plan.one_sided = self.one_sided();
        self.plan.waits = benefit::of_plan(self.scene.topology, &self.plan);
        let expected = self.plan.expected_bytes as f64;
        let huge = (self.plan.huge_bytes as f64).min(expected);
        self.plan.expected_seconds = huge / HUGE_RATE + (expected - huge) / BASE_RATE;
        self.plan
    }
}

fn planned(topology: &Topology, process: &Process, options: &Options) -> PlannedProcess {
    let home = home(topology, process, options);
    let away = away(topology, process, options);
    let skip = skip(topology, process, options);
    let (resident, locality, counted, remote) = Default::default();
    let wide_threads = wide_threads(topology, process);
    let cells = PlannedCell::of(topology, process, options);
    let process = process.clone();
    PlannedProcess {
        process,
        home,
        away,
        wide_threads,
        skip,
        resident,
        locality,
        counted,
        remote,
        cells,
    }
}

#[cfg(test)]
mod tests;
