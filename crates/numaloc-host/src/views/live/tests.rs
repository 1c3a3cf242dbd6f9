use super::*;
use crate::fake::Crowd;
use numaloc_core::NodeId;
use std::cell::Cell;

const SECOND: Duration = Duration::from_secs(1);
/// Time that each read takes on the clock of these tests.
const READ: Duration = Duration::from_micros(100);

/// A view of a crowd, on a clock that continues by [`READ`] each time it is read, which is once for each thing that is read.
struct Watch {
    live: Live,
    now: Cell<Duration>,
    reads: Cell<u32>,
}

impl Watch {
    fn new(crowd: &Crowd, budget_percent: f64) -> Self {
        let (roots, topology) = (crowd.roots(64), Crowd::topology());
        let live = Live::new(&roots, topology, budget_percent, 2 * SECOND, Duration::ZERO);
        Self { live: live.unwrap(), now: Cell::default(), reads: Cell::default() }
    }

    /// Two refreshes a second, with ten turns of work each.
    fn run(&mut self, seconds: u32) {
        for _ in 0..2 * seconds {
            let (now, reads) = (&self.now, &self.reads);
            let clock = || {
                now.set(now.get() + READ);
                reads.set(reads.get() + 1);
                now.get()
            };
            let begin = now.get();
            self.live.refresh(&clock);
            for turn in 1..=10 {
                now.set(now.get().max(begin + SECOND / 20 * turn));
                self.live.work(&clock);
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.live.snapshot(self.now.get())
    }
}

#[test]
fn ten_thousand_processes_are_seen_within_the_budget() {
    const PROCESSES: usize = 10_000;
    let crowd = Crowd::new(PROCESSES);
    let mut watch = Watch::new(&crowd, 2.0);
    watch.run(1);
    let first = watch.snapshot();
    assert!((PROCESSES / 2..PROCESSES).contains(&first.unseen), "{}", first.unseen);
    let mut seconds = 1;
    while watch.snapshot().unseen > 0 {
        watch.run(10);
        seconds += 10;
        assert!(seconds < 400, "{} are left", watch.snapshot().unseen);
    }
    // 2% of the time, what the budget begins with, and for each turn of work the reading of the clock and one read beyond.
    let turns = 20 * seconds;
    let most = seconds * 200 + 1000 + 2 * turns;
    assert!(watch.reads.get() <= most, "{} reads, {most} were allowed", watch.reads.get());
    let snapshot = watch.snapshot();
    assert_eq!((snapshot.processes.len(), snapshot.hidden), (PROCESSES, 0));
    for process in &snapshot.processes {
        let Seen::Pages { nodes, age, .. } = &process.seen else { panic!("{process:?}") };
        assert_eq!(*nodes, [(NodeId(0), 0x8000), (NodeId(1), 0x8000)].into());
        assert!(*age <= SECOND * seconds);
        assert_eq!(process.home, [NodeId(0)].into_iter().collect());
        assert_eq!(process.cgroup.as_deref(), Some("/crowd"));
    }
}

#[test]
fn the_budget_is_what_bounds_the_reads() {
    let crowd = Crowd::new(1000);
    let reads = [1.0, 10.0].map(|percent| {
        let mut watch = Watch::new(&crowd, percent);
        watch.run(4);
        watch.reads.get()
    });
    assert!(reads[1] > 2 * reads[0], "{reads:?}");
}

#[test]
fn processes_end_and_cgroups_are_renamed() {
    let crowd = Crowd::new(3);
    crowd.write("cgroup/crowd/memory.numa_stat", "anon N0=4096 N1=4096\n");
    let mut watch = Watch::new(&crowd, 50.0);
    watch.run(4);
    let before = watch.snapshot();
    assert_eq!((before.processes.len(), before.unseen), (3, 0));
    assert!(before.groups["/crowd"].memory.is_some() && before.nodes.len() == 2);
    let watched = [0, 1].map(|index| before.processes[index].identity);
    watch.live.watch(&watched.into());
    watch.run(4);
    let details = watch.snapshot().details;
    assert_eq!(details.iter().map(|detail| detail.identity).collect::<Vec<_>>(), watched);
    for detail in details {
        let starts: Vec<u64> = detail.mappings.iter().map(|mapping| mapping.start).collect();
        assert_eq!((starts, detail.threads.len()), (vec![0x10000, 0x20000, 0x40000], 1));
    }
    watch.live.watch(&[watched[1]].into());
    assert_eq!(watch.snapshot().details.len(), 1);
    crowd.end(1);
    let roots = crowd.roots(1);
    std::fs::rename(roots.cgroup.join("crowd"), roots.cgroup.join("renamed")).unwrap();
    crowd.write("proc/all/cgroup", "0::/renamed\n");
    watch.run(8);
    let after = watch.snapshot();
    assert_eq!((after.processes.len(), after.details), (2, Vec::new()));
    assert_eq!(after.groups.keys().collect::<Vec<_>>(), ["/renamed"]);
}

/// The processes whose page maps have been read, with the age of that.
fn ages(snapshot: &Snapshot) -> BTreeMap<Identity, Duration> {
    let age = |seen: &Seen| match seen {
        Seen::Pages { age, .. } => Some(*age),
        Seen::Never | Seen::Hidden => None,
    };
    let processes = snapshot.processes.iter();
    processes.filter_map(|each| Some((each.identity, age(&each.seen)?))).collect()
}

#[test]
fn what_has_moved_or_was_opened_does_not_wait_for_its_turn() {
    let crowd = Crowd::new(1000);
    // So little that a turn comes once in minutes.
    let mut watch = Watch::new(&crowd, 0.1);
    watch.run(60);
    let (moved, opened) = {
        let mut oldest: Vec<_> = ages(&watch.snapshot()).into_iter().collect();
        oldest.sort_by_key(|&(_, age)| std::cmp::Reverse(age));
        assert!(oldest[1].1 > 30 * SECOND, "{oldest:?}");
        (oldest[0].0, oldest[1].0)
    };
    watch.live.moved([(moved, 4096)].into());
    watch.live.watch(&[opened].into());
    watch.run(1);
    let snapshot = watch.snapshot();
    let age = |snapshot: &Snapshot, of: Identity| ages(snapshot)[&of];
    assert!(age(&snapshot, moved) <= SECOND && age(&snapshot, opened) <= SECOND);
    let [detail] = &snapshot.details[..] else { panic!("{:?}", snapshot.details) };
    assert_eq!((detail.mappings.len(), detail.threads.len()), (3, 1));
    // The same bytes again are no move.
    watch.live.moved([(moved, 4096)].into());
    watch.run(20);
    assert!(age(&watch.snapshot(), moved) > 10 * SECOND);
    watch.live.moved([(moved, 8192)].into());
    watch.run(1);
    assert!(age(&watch.snapshot(), moved) <= SECOND);
}

#[test]
fn a_move_of_all_processes_is_looked_at_within_bounds() {
    let crowd = Crowd::new(1000);
    let mut watch = Watch::new(&crowd, 0.1);
    watch.run(60);
    let all = watch.snapshot().processes.into_iter().map(|each| (each.identity, 4096)).collect();
    watch.live.moved(all);
    let before = watch.reads.get();
    watch.run(1);
    let turns = 20;
    // A quarter of a second, what it begins with, and what the budget allows.
    let most = 2500 + 1000 + 10 + 2 * turns;
    let reads = watch.reads.get() - before;
    assert!((1000..=most).contains(&reads), "{reads} reads, {most} were allowed");
}
