//! Measures how much of the memory moved by an earlier run is remote again.

use crate::{Returned, Trail};
use numaloc_core::{Identity, Moved, NodeSet, Options, Topology, planner};
use numaloc_host::{AddressSpace, PageLocation, Precision, Roots, Scanner, Survey, movers};
use std::collections::BTreeMap;

/// Looks where the pages of `trail` are now, among the processes of `survey`. A page that is not mapped any more does
/// not count as moved back, nor does a page of a process that has ended.
pub fn returned(
    roots: &Roots,
    topology: &Topology,
    survey: &Survey,
    options: &Options,
    trail: &Trail,
) -> Returned {
    // With several nodes only the one that a page was brought to is right, and a page that may not leave a node is
    // right there.
    let home = |space: &AddressSpace| match options.is_wide() || !options.maps.is_empty() {
        true => topology.ids().minus(&options.sources(topology)),
        false => planner::stay(topology, &space.process, options),
    };
    let spaces: BTreeMap<Identity, (&AddressSpace, NodeSet)> =
        survey.spaces.iter().map(|space| (space.process.identity, (space, home(space)))).collect();
    let mut scanner = Scanner::new(roots, &survey.page_access, Precision::Sampled);
    let mut places = Vec::new();
    let mut is_back = |page: &&Moved| {
        let Some((space, home)) = spaces.get(&page.process) else { return false };
        places.clear();
        if let Err(error) = scanner.locate(space, page.address, 1, &mut places) {
            tracing::warn!(%error, "whether a page has come back is not known");
        }
        places.first().is_some_and(|&place| is_off(place, page, home))
    };
    let back: Vec<Identity> =
        trail.sample.iter().filter(&mut is_back).map(|page| page.process).collect();
    let returned = estimate(back.len(), trail);
    let movers = if returned.is_much() { movers(roots) } else { Vec::new() };
    let process = most(&back, trail).and_then(|process| {
        let (space, _) = spaces.get(&process)?;
        Some(format!("process {} ({})", process.pid, space.process.comm))
    });
    Returned { by: movers.iter().map(ToString::to_string).collect(), process, ..returned }
}

/// The process that more than half of the pages belong to that are back, if the trail has pages of several.
fn most(back: &[Identity], trail: &Trail) -> Option<Identity> {
    let first = trail.sample.first()?.process;
    let is_one = trail.sample.iter().all(|page| page.process == first);
    let mut counts: BTreeMap<Identity, usize> = BTreeMap::new();
    back.iter().for_each(|process| *counts.entry(*process).or_default() += 1);
    let (process, count) = counts.into_iter().max_by_key(|&(_, count)| count)?;
    (!is_one && count * 2 > back.len()).then_some(process)
}

/// Whether a page is on a node where it should not be. The node that it was brought to does not count, even if that has
/// become remote since: then the target itself has got other CPUs.
fn is_off(place: PageLocation, page: &Moved, home: &NodeSet) -> bool {
    matches!(place, PageLocation::On(node) if node != page.to && !home.contains(node))
}

fn estimate(back: usize, trail: &Trail) -> Returned {
    let (back, all) = (back as u128, trail.sample.len().max(1) as u128);
    let bytes = u128::from(trail.moved_bytes) * back / all;
    let moved_bytes = trail.moved_bytes;
    let bytes = u64::try_from(bytes).unwrap_or(moved_bytes);
    Returned { bytes, moved_bytes, ..Returned::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::NodeId;

    fn page(to: u32) -> Moved {
        Moved { process: Identity { pid: 7, start_time: 1 }, address: 4096, to: NodeId(to) }
    }

    #[test]
    fn only_what_somebody_has_moved_away_has_come_back() {
        let home: NodeSet = "0,2".parse().expect("a list");
        let off = |place, to| is_off(place, &page(to), &home);
        assert!(off(PageLocation::On(NodeId(1)), 0));
        assert!(!off(PageLocation::On(NodeId(0)), 0));
        assert!(!off(PageLocation::On(NodeId(2)), 0), "that is at home too");
        assert!(!off(PageLocation::On(NodeId(1)), 1), "it was brought there");
        assert!(!off(PageLocation::Absent, 0) && !off(PageLocation::Unknown, 0));
    }

    #[test]
    fn the_process_that_most_of_it_belongs_to_is_named() {
        let of = |pid| Identity { pid, start_time: 1 };
        let sample: Vec<Moved> = [7, 7, 8].map(|pid| Moved { process: of(pid), ..page(0) }).into();
        let trail = Trail { moved_bytes: 3, sample };
        assert_eq!(most(&[of(8)], &trail), Some(of(8)));
        assert_eq!(most(&[of(7), of(7), of(8)], &trail), Some(of(7)));
        assert_eq!(most(&[of(7), of(8)], &trail), None, "as much of both");
        assert_eq!(most(&[], &trail), None);
        let one = Trail { moved_bytes: 1, sample: vec![page(0)] };
        assert_eq!(most(&[of(7)], &one), None, "the run has moved no other");
    }

    #[test]
    fn the_sample_stands_for_all() {
        let trail = |moved_bytes, pages| Trail { moved_bytes, sample: vec![page(0); pages] };
        let returned = estimate(64, &trail(1 << 40, 256));
        assert_eq!((returned.bytes, returned.percent(), returned.is_much()), (1 << 38, 25, true));
        assert!(!estimate(63, &trail(1 << 40, 256)).is_much());
        assert_eq!(estimate(3, &trail(u64::MAX, 3)).bytes, u64::MAX);
        assert_eq!(estimate(0, &Trail::default()), Returned::default());
    }
}
