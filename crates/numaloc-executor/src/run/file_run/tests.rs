use super::*;
use crate::{SharedRate, limits::rooms::SharedRooms, pace::stall};
use numaloc_core::{Node, NodeMemory};
use std::{fs, io::Write, path::Path, sync::Arc};

/// A file in memory, and the plan to move all of it from the node that it is on to one that is not there.
fn planned(directory: &Path) -> (PlannedFile, u64) {
    let path = directory.join("file");
    fs::File::create(&path).unwrap().write_all(&vec![7; 3 << 20]).unwrap();
    let file = CachedFile::open(&Roots::default(), &path).expect("tmpfs");
    let cache = file.look(&|| false, &mut |_| {}).expect("it can be mapped");
    let plan = FilePlan::new(&CacheGoal::On("63".parse().unwrap()), &cache);
    let bytes = plan.bytes_to_move;
    (PlannedFile { path, id: file.id(), cache, plan }, bytes)
}

/// Host files with a node 63, which has room for all.
fn with_room() -> (tempfile::TempDir, NodeMemoryReader) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |path: &str| directory.path().join(path);
    let node = path("sys/devices/system/node/node63");
    fs::create_dir_all(&node).unwrap();
    fs::create_dir_all(path("proc")).unwrap();
    fs::write(path("proc/zoneinfo"), "").unwrap();
    let meminfo = "Node 63 MemTotal: 4194304 kB\nNode 63 MemFree: 4194304 kB\n";
    fs::write(node.join("meminfo"), meminfo).unwrap();
    let roots = Roots { proc: path("proc"), sys: path("sys"), ..Roots::default() };
    let memory = NodeMemoryReader::new(&roots).expect("it has a node");
    (directory, memory)
}

/// Carries a run out that has limits and a control of its own.
fn with_run<T>(
    admitted: bool,
    memory: &NodeMemoryReader,
    (limits, control): (&RunLimits, &Control),
    act: impl FnOnce(FileRun<'_>) -> T,
) -> T {
    let node =
        |id| Node { id: NodeId(id), cpus: "0".parse().unwrap(), memory: NodeMemory::default() };
    let topology = &Topology::new([node(0), node(63)], []);
    let (roots, options) = (&Roots::default(), &Options::default());
    let admits = &|_: &CachedFile| admitted;
    act(FileRun { roots, topology, memory, options, limits, control, admits, unmapped: None })
}

fn outcome(admitted: bool, change: impl FnOnce(&Control, &mut RunLimits)) -> FileOutcome {
    let memory = NodeMemoryReader::new(&Roots::default()).expect("this host has nodes");
    outcome_on(&memory, admitted, change)
}

fn outcome_on(
    memory: &NodeMemoryReader,
    admitted: bool,
    change: impl FnOnce(&Control, &mut RunLimits),
) -> FileOutcome {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (file, bytes) = planned(directory.path());
    assert_eq!(bytes, 3 << 20);
    let (control, mut limits) = (Control::default(), RunLimits::default());
    change(&control, &mut limits);
    let outcome =
        with_run(admitted, memory, (&limits, &control), |run| run.carry_out(&[&[file]]).remove(0));
    assert!(outcome.account.closes(), "{outcome:?}");
    assert_eq!(control.settled_bytes.load(Relaxed), bytes);
    outcome
}

#[test]
fn the_account_closes_whatever_keeps_pages() {
    let full = outcome(true, |_, _| {});
    assert_eq!(full.account.left_for(Reason::NoMemory), 3 << 20, "{full:?}");
    let others = outcome(false, |_, _| {});
    assert_eq!(others.account.left_for(Reason::Unreadable), 3 << 20);
    let cancelled = outcome(true, |control, _| control.cancel.store(true, Relaxed));
    assert_eq!(cancelled.account.left_for(Reason::Cancelled), 3 << 20);
    let late = outcome(true, |_, limits| limits.timeout = Some(Duration::ZERO));
    assert_eq!(late.account.left_for(Reason::OutOfTime), 3 << 20);
}

/// The kernel refuses a node that the machine does not have. So a run that makes a call ends as not allowed, and one that is held back
/// before its first call as out of time.
#[test]
fn what_all_runs_share_holds_a_run_over_files_back() {
    let (_directory, memory) = with_room();
    let free = outcome_on(&memory, true, |_, _| {});
    assert_eq!(free.account.left_for(Reason::NotAllowed), 3 << 20, "{free:?}");
    // On a busy machine it takes a while until the run is held back.
    let timeout = Some(Duration::from_secs(2));
    let by_rate = outcome_on(&memory, true, |_, limits| {
        let shared_rate = Some(Arc::new(SharedRate::new(1)));
        *limits = RunLimits { shared_rate, timeout, ..RunLimits::default() };
    });
    assert_eq!(by_rate.account.left_for(Reason::OutOfTime), 3 << 20, "{by_rate:?}");
    assert!(by_rate.calls.held_back > Duration::ZERO, "{by_rate:?}");
    let rooms = Arc::new(SharedRooms::default());
    let all = rooms.take((NodeId(63), None), 4 << 30, 1, true, || 4 << 30);
    let by_room = outcome_on(&memory, true, |_, limits| {
        *limits = RunLimits { rooms: Some(rooms.clone()), timeout, ..RunLimits::default() };
    });
    assert_eq!(by_room.account.left_for(Reason::OutOfTime), 3 << 20, "{by_room:?}");
    assert_eq!(by_room.calls.calls, 0, "{by_room:?}");
    drop(all);
}

#[test]
fn a_run_that_yields_makes_small_calls_and_holds_back() {
    let (_directory, memory) = with_room();
    let yielding = outcome_on(&memory, true, |control, limits| {
        control.yielding.store(true, Relaxed);
        limits.attempts = 1;
    });
    let CallStats { calls, addresses, held_back, .. } = yielding.calls;
    assert_eq!(
        (calls, addresses * page_size()),
        (1, stall::LEAST),
        "the node is refused: {yielding:?}"
    );
    assert!(held_back > Duration::ZERO, "{yielding:?}");
}

#[test]
fn pages_that_were_cut_off_meanwhile_have_vanished() {
    let (_directory, memory) = with_room();
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (file, _) = planned(directory.path());
    let piece = CachedFile::open(&Roots::default(), &file.path).expect("tmpfs").piece(0);
    let piece = piece.expect("it can be mapped");
    let (from, addresses) = piece.elsewhere(&NodeSet::new()).pop_first().expect("it is cached");
    let mut outcome = FileOutcome::default();
    outcome.account.found(addresses.len() as u64 * page_size());
    fs::File::options().write(true).open(&file.path).unwrap().set_len(4 * page_size()).unwrap();
    let left = with_run(true, &memory, (&RunLimits::default(), &Control::default()), |run| {
        let nodes = file.plan.nodes();
        let work = FileWork::new(&run, &nodes);
        let worker = FileWorker {
            run,
            work: &work,
            rests: Rests::new(&work),
            subject: Subject::File(PathBuf::new()),
            hugetlb_bytes: None,
            calls: CacheCalls::default(),
            mapped: None,
        };
        worker.settle(&Group { from, nodes, mapped: &[piece] }, addresses, |_| false, &mut outcome)
    });
    assert_eq!(left.len(), 4, "what is still there is tried again");
    assert_eq!(outcome.account.vanished_bytes(), 508 * page_size(), "{outcome:?}");
}
