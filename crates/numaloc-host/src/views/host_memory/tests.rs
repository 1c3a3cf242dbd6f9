use super::*;
use crate::fake::Crowd;
use numaloc_core::Identity;
use std::cell::Cell;

const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;

/// A process of 3 MiB: 1 MiB on node 0, 2 MiB on node 1.
fn process(pid: i32, comm: &str, cgroup: &str, home: &[u32]) -> ProcessNow {
    ProcessNow {
        identity: Identity { pid, start_time: 1 },
        comm: comm.into(),
        cgroup: Some(cgroup.into()),
        home: home.iter().copied().map(NodeId).collect(),
        near: Default::default(),
        resident_bytes: 3 * MIB,
        cpu_percent: None,
        threads: 1,
        seen: Seen::Pages {
            nodes: [(NodeId(0), MIB), (NodeId(1), 2 * MIB)].into(),
            unplaced_bytes: 0,
            kernel_migrated_pages: None,
            age: SECOND * pid as u32,
        },
    }
}

fn memory(processes: Vec<ProcessNow>, most: usize) -> HostMemory {
    let snapshot =
        Snapshot { processes, unseen: 5, hidden: 2, used: SECOND, ..Snapshot::default() };
    HostMemory::of(&snapshot, &Crowd::topology(), most)
}

fn named(bytes: &BTreeMap<String, PinnedBytes>) -> Vec<(&str, u64, u64)> {
    bytes
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.local / MIB, bytes.remote / MIB))
        .collect()
}

#[test]
fn remote_is_what_is_not_at_home_and_unpinned_processes_are_apart() {
    let id = "a".repeat(64);
    let pod = format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope");
    let seen = memory(
        vec![
            process(1, "redis", "/system.slice/redis.service", &[0]),
            process(2, "redis", "/system.slice/redis.service/worker", &[1]),
            process(3, "java", &pod, &[0]),
            process(4, "bash", "/user.slice/user-0.slice/session-1.scope", &[0, 1]),
            ProcessNow { seen: Seen::Never, ..process(5, "new", "/", &[0]) },
        ],
        10,
    );
    let places = [Nearness::Local, Nearness::Remote, Nearness::Unpinned];
    let on = |node| places.map(|place| seen.nodes[&(NodeId(node), place)] / MIB);
    assert_eq!((on(0), on(1)), ([2, 1, 1], [2, 4, 2]));
    assert_eq!(named(&seen.units), [("redis.service", 3, 3)]);
    assert_eq!(named(&seen.containers), [(id.as_str(), 1, 2)]);
    assert_eq!(named(&seen.programs), [("java", 1, 2), ("redis", 3, 3)]);
    let counts = ProcessCounts { pinned: 3, unpinned: 1, hidden: 2, unseen: 5 };
    assert_eq!((seen.processes, seen.oldest_look, seen.used), (counts, 4 * SECOND, SECOND));
}

#[test]
fn a_process_on_all_nodes_with_cpus_has_no_remote_memory_on_a_node_without() {
    let far =
        numaloc_core::Node { id: NodeId(2), ..Crowd::topology().nodes().next().unwrap().clone() };
    let far = numaloc_core::Node { cpus: numaloc_core::CpuSet::default(), ..far };
    let topology = Topology::new(Crowd::topology().nodes().cloned().chain([far]), []);
    let snapshot = |home: &[u32]| Snapshot {
        processes: vec![process(1, "app", "/", home)],
        ..Snapshot::default()
    };
    let counts = |home: &[u32]| HostMemory::of(&snapshot(home), &topology, 9).processes;
    assert_eq!((counts(&[0, 1]).unpinned, counts(&[1]).pinned), (1, 1));
}

#[test]
fn memory_on_a_lower_tier_is_demoted_and_not_remote() {
    let slow = Topology::new(
        Crowd::topology().nodes().map(|node| match node.id {
            NodeId(1) => {
                numaloc_core::Node { cpus: numaloc_core::CpuSet::default(), ..node.clone() }
            }
            _ => node.clone(),
        }),
        [],
    );
    let slow = slow.with_tiers([(NodeId(0), 4), (NodeId(1), 22)]);
    let mut seen = HostMemory { lower: slow.lower_tiers(), ..HostMemory::default() };
    seen.add(
        &process(1, "db", "/system.slice/db.service", &[0]),
        &[NodeId(0), NodeId(7)].into_iter().collect(),
    );
    let expected = PinnedBytes { local: MIB, remote: 0, demoted: 2 * MIB };
    assert_eq!(seen.units["db.service"], expected);
    assert_eq!(seen.nodes[&(NodeId(1), Nearness::Demoted)], 2 * MIB);
    let there = HostMemory::of(&Snapshot::default(), &slow, 9);
    let places = |id| there.nodes.keys().filter(|(node, _)| *node == NodeId(id)).count();
    assert_eq!((places(0), places(1)), (3, 4), "no other node has demoted memory");
}

#[test]
fn the_largest_are_named_and_the_others_are_one() {
    let of = |number: i32| {
        process(number, &format!("p{number}"), "/", if number < 3 { &[0] } else { &[1] })
    };
    let seen = memory((0..6).map(of).collect(), 3);
    let expected = [("other", 6, 3), ("p0", 1, 2), ("p1", 1, 2), ("p2", 1, 2)];
    assert_eq!(named(&seen.programs), expected);
    // A program with this name is one of them.
    let seen = memory(vec![process(1, OTHERS, "/", &[0]), process(2, "b", "/", &[1])], 1);
    assert_eq!(named(&seen.programs), [("other", 3, 3)]);
    assert!(seen.units.is_empty() && seen.containers.is_empty());
}

/// A look at a crowd, on a clock that advances by a tenth of a millisecond at each reading.
struct Watched {
    look: HostMemoryLook,
    now: Cell<Duration>,
    shown: Vec<(u64, HostMemory)>,
}

impl Watched {
    fn new(crowd: &Crowd, limits: HostMemoryLimits) -> Self {
        let look = HostMemoryLook::new(&crowd.roots(64), Crowd::topology(), limits, Duration::ZERO);
        Self { look: look.unwrap(), now: Cell::default(), shown: Vec::new() }
    }

    /// A turn each second, until this second.
    fn run(&mut self, until: u64) {
        let now = &self.now;
        let clock = || {
            now.set(now.get() + Duration::from_micros(100));
            now.get()
        };
        while now.get() < Duration::from_secs(until) {
            let second = now.get().as_secs();
            self.shown.extend(self.look.turn(&clock).map(|memory| (second, memory)));
            now.set(now.get().max(Duration::from_secs(second + 1)));
        }
    }
}

#[test]
fn a_round_a_period_sees_all_processes() {
    let crowd = Crowd::new(50);
    let limits = HostMemoryLimits { period: 60 * SECOND, cpu_percent: 0.5, series: 20 };
    let mut watched = Watched::new(&crowd, limits);
    watched.run(150);
    let [(first, seen), .., (last, again)] = &watched.shown[..] else {
        panic!("{:?}", watched.shown)
    };
    assert!(*first < 20 && *last >= 120 && watched.shown.len() == 3, "{:?}", watched.shown);
    assert_eq!(seen.processes, ProcessCounts { pinned: 50, ..ProcessCounts::default() });
    let remote = 50 * crate::fake::REMOTE;
    let bytes = PinnedBytes { local: 50 * 0x8000, remote, ..PinnedBytes::default() };
    assert_eq!(seen.programs, [("crowd".to_owned(), bytes)].into());
    assert_eq!(seen.nodes[&(NodeId(1), Nearness::Remote)], bytes.remote);
    assert!(again.oldest_look < 60 * SECOND, "each was looked at again: {again:?}");
    crowd.end(0);
    watched.run(200);
    assert_eq!(watched.shown.last().unwrap().1.processes.pinned, 49);
}

#[test]
fn a_budget_that_is_too_small_shows_what_there_is() {
    let crowd = Crowd::new(2000);
    let limits = HostMemoryLimits { period: 10 * SECOND, cpu_percent: 0.1, series: 20 };
    let mut watched = Watched::new(&crowd, limits);
    watched.run(25);
    assert_eq!(watched.shown.iter().map(|(second, _)| *second).collect::<Vec<_>>(), [10, 20]);
    let counts = watched.shown[1].1.processes;
    assert!(counts.unseen > 0 && counts.unseen + counts.pinned == 2000, "{counts:?}");
    // 0.1% of 25 s, what a budget begins with, and a step beyond.
    assert!(watched.shown[1].1.used < Duration::from_millis(130), "{:?}", watched.shown[1].1.used);
}

#[test]
fn units_and_containers_are_the_outermost() {
    let (one, two) = ("1".repeat(64), "2".repeat(64));
    for (cgroup, unit, container) in [
        ("/system.slice/a.service/b.scope", Some("a.service"), None),
        (
            "/user.slice/user-0.slice/user@0.service/app.slice/c.service",
            Some("user@0.service"),
            None,
        ),
        (&format!("/system.slice/docker-{one}.scope/init.scope"), None, Some(&one)),
        (&format!("/docker/{one}/docker/{two}"), None, Some(&one)),
        (
            &format!("/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{two}"),
            Some("containerd.service"),
            Some(&two),
        ),
        ("/user.slice", None, None),
        ("/", None, None),
        ("", None, None),
    ] {
        assert_eq!(unit_of(cgroup), unit, "{cgroup}");
        assert_eq!(container_of(cgroup), container.map(String::as_str), "{cgroup}");
    }
}

/// PostgreSQL's buffers, which a session has filled that has ended.
#[test]
fn unmapped_memory_that_a_unit_has_attached_is_its_memory() {
    let group = |mib: u64| {
        let on: BTreeMap<NodeId, u64> = [(NodeId(1), mib * MIB)].into();
        let counted = numaloc_core::live::CountedMemory {
            nodes: on.clone(),
            unmapped: on,
            ..Default::default()
        };
        numaloc_core::live::GroupNow { memory: Some(counted), ..Default::default() }
    };
    let unit = "/system.slice/db.service";
    let paths = [
        ("/", 64),
        (unit, 48),
        ("/system.slice/db.service/a", 8),
        ("/system.slice/db.service/a-b", 0),
        ("/system.slice/db.service/a/c", 8),
    ];
    let snapshot = Snapshot {
        processes: paths
            .iter()
            .enumerate()
            .map(|(pid, (path, _))| process(pid as i32, "db", path, &[0]))
            .collect(),
        groups: paths.map(|(path, mib)| (path.to_owned(), group(mib))).into(),
        ..Snapshot::default()
    };
    let seen = HostMemory::of(&snapshot, &Crowd::topology(), 9);
    assert_eq!(named(&seen.units), [("db.service", 4, 4 * 2 + 48)]);
    assert_eq!(seen.nodes[&(NodeId(1), Nearness::Remote)], (5 * 2 + 64) * MIB);
    assert_eq!(named(&seen.programs), [("db", 5, 10)]);
}
