//! Targets of very many processes.

use crate::{
    Groups, Surveyor,
    fake::{Crowd, REMOTE, open_page_maps},
    resolve,
};
use numaloc_core::Options;
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

const PROCESSES: usize = 10_000;
const OPEN: usize = 64;
/// One of these tests counts what this process has open.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_hundred_thousand_processes_are_planned_with_few_descriptors() {
    let _alone = ALONE.lock();
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

#[test]
fn ten_thousand_processes_that_come_and_go_take_the_places_of_those_alive_at_a_time() {
    let _alone = ALONE.lock();
    const AT_A_TIME: usize = 100;
    let crowd = Crowd::new(1);
    let (roots, topology, options) = (crowd.roots(OPEN), Crowd::topology(), Options::default());
    let targets = [Crowd::target()];
    let processes = resolve(&roots, &targets, &topology).unwrap().processes;
    let groups = Groups::of(&roots, &topology, &targets).expect("a cgroup");
    let surveyor = Surveyor::new(&roots, &topology, &options);
    let (survey, _) = surveyor.survey(processes, Some(Arc::new(groups))).unwrap();
    let mut crew = survey.newcomers.crew().expect("it may grow");
    for first in (1..=PROCESSES).step_by(AT_A_TIME) {
        let numbers = first..first + AT_A_TIME;
        crowd.start(numbers.clone());
        crew = survey.newcomers.look(&crew);
        let pids: Vec<i32> = crew.newcomers().map(|process| process.identity.pid).collect();
        assert_eq!(pids.len(), AT_A_TIME);
        // Each is found at its index, with its claim.
        let found = pids.iter().all(|&pid| crew.spaces.iter().any(|space| space.pid() == pid));
        assert!(found, "{pids:?}");
        numbers.for_each(|number| crowd.end(number));
    }
    assert!(crew.spaces.len() <= 1 + 2 * AT_A_TIME, "{} places", crew.spaces.len());
}
