//! Targets of very many processes.

use crate::{
    Surveyor,
    fake::{Crowd, REMOTE, open_page_maps},
    resolve,
};
use numaloc_core::Options;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const PROCESSES: usize = 10_000;
const OPEN: usize = 64;

#[test]
fn a_hundred_thousand_processes_are_planned_with_few_descriptors() {
    let crowd = Crowd::new(PROCESSES);
    let (roots, topology) = (crowd.roots(OPEN), Crowd::topology());
    let processes = resolve(&roots, &[Crowd::target()], &topology).unwrap().processes;
    let (steps, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = || {
        if steps.fetch_add(1, Relaxed).is_multiple_of(PROCESSES / 10) {
            most.fetch_max(open_page_maps(), Relaxed);
        }
        false
    };
    let options = Options::default();
    let surveyor = Surveyor { stop: &stop, ..Surveyor::new(&roots, &topology, &options) };
    let (survey, seen) = surveyor.survey(processes, None).unwrap();
    assert_eq!(survey.spaces.len(), PROCESSES);
    let plan = seen.plan(&topology, &options);
    assert_eq!(plan.expected_bytes, PROCESSES as u64 * REMOTE);
    // Beyond the bound, each thread that reads may have one open, and this process its own, to see what it may read.
    let (most, threads) = (most.into_inner(), options.pacing.pace().workers);
    assert!((OPEN..=OPEN + 2 * threads + 2).contains(&most), "{most}");
}
