//! A hand-made machine with sparse nodes, and a target on it.

pub mod pictures;

use numaloc_api::{
    samples,
    value::{self, FoundAt, FoundMember, Missing, Target},
};
use numaloc_core::{
    CpuSet, Extent, HugePool, Identity, Kind, Mapping, Mempolicy, Node, NodeId, NodeMemory,
    NodeResidency, NodeSet, Options, Pages, Plan, Process, Residency, Thread, Threads, Topology,
    planner, planner::Scene,
};
use numaloc_dma::dsa;
use numaloc_engine::LookedAt;
use numaloc_executor::Outcome;
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn cpus(list: &str) -> CpuSet {
    list.parse().expect("a list")
}

/// Nodes 0 and 2 with CPUs and memory, 8 with memory only, 16 with CPUs only.
pub fn topology() -> Topology {
    let pool =
        HugePool { page_bytes: 2 * MIB, total_pages: 64, free_pages: 60, unreserved_pages: 60 };
    let node = |id, list: &str, total_mib: u64, free_mib: u64| Node {
        id: NodeId(id),
        cpus: cpus(list),
        memory: NodeMemory {
            total_bytes: total_mib * MIB,
            free_bytes: free_mib * MIB,
            cache_bytes: total_mib / 4 * MIB,
            protected_bytes: total_mib / 128 * MIB,
            min_watermark_bytes: if total_mib == 0 { 0 } else { 64 * MIB },
            low_watermark_bytes: if total_mib == 0 { 0 } else { 80 * MIB },
            high_watermark_bytes: if total_mib == 0 { 0 } else { 96 * MIB },
            huge_pools: if id == 0 { vec![pool] } else { Vec::new() },
        },
    };
    let nodes = [
        node(0, "0-3", 16 << 10, 8 << 10),
        node(2, "8-11", 16 << 10, 2 << 10),
        node(8, "", 128 << 10, 100 << 10),
        node(16, "16-19", 0, 0),
    ];
    let pairs = [(0, 2, 21), (0, 8, 17), (0, 16, 31), (2, 8, 28), (2, 16, 31), (8, 16, 255)];
    let distances = pairs.into_iter().flat_map(|(a, b, distance)| {
        let (a, b) = (NodeId(a), NodeId(b));
        [((a, b), distance), ((b, a), distance)]
    });
    Topology::new(nodes, distances)
}

fn process(pid: i32, comm: &str, list: &str) -> Process {
    Process {
        identity: Identity { pid, start_time: 90_000 + pid as u64 },
        comm: comm.to_owned(),
        cpus: cpus(list),
        threads: Vec::new(),
        mems_allowed: "0,2,8".parse().expect("a list"),
        device_nodes: Default::default(),
        swap_bytes: 0,
        page_table_bytes: 0,
        guest: None,
    }
}

/// An extent. Each entry of `nodes` is (node, owned MiB, shared MiB).
fn extent(mappings: &[(usize, u64)], kind: Kind, name: &str, nodes: &[(u32, u64, u64)]) -> Extent {
    let resident = |&(id, owned, shared): &(u32, u64, u64)| {
        let bytes =
            NodeResidency { owned_bytes: owned * MIB, shared_bytes: shared * MIB, huge_bytes: 0 };
        (NodeId(id), bytes)
    };
    Extent {
        mappings: mappings.iter().map(|&(process, start)| Mapping { process, start }).collect(),
        pages: Pages::All,
        bytes: 1 << 30,
        kind,
        policy: Mempolicy::Default,
        hugetlb_bytes: None,
        mappers: Default::default(),
        stripe: None,
        rule: None,
        name: name.into(),
        residency: Residency {
            nodes: nodes.iter().map(resident).collect(),
            unplaced_bytes: 4096,
            ..Residency::default()
        },
    }
}

fn extents() -> Vec<Extent> {
    let heap = [(0, 512, 0), (2, 400, 0), (8, 112, 0)];
    let library = "/usr/lib/x86_64-linux-gnu/libc.so.6";
    let bound = Mempolicy::Bind("8".parse().expect("a list"));
    vec![
        extent(&[(0, 0x5555_0000_0000)], Kind::Heap, "[heap]", &heap),
        extent(&[(0, 0x7f00_0000_0000)], Kind::File, library, &[(0, 1, 0), (2, 1, 2)]),
        Extent {
            policy: bound,
            ..extent(&[(0, 0x7f10_0000_0000)], Kind::Anonymous, "", &[(8, 16, 0)])
        },
        extent(&[(1, 0x7f20_0000_0000)], Kind::Anonymous, "", &[(0, 20, 0), (8, 30, 0)]),
        Extent {
            hugetlb_bytes: Some(2 * MIB),
            ..extent(
                &[(0, 0x7f30_0000_0000), (1, 0x7f40_0000_0000)],
                Kind::Shmem,
                "/dev/shm/ring\x1b[31m",
                &[(0, 64, 0), (8, 64, 0)],
            )
        },
        extent(&[(2, 0x7f50_0000_0000)], Kind::Anonymous, "", &[(2, 5, 0)]),
    ]
}

/// Workers on node 0, and a helper that may run on both nodes.
fn threads() -> Vec<Threads> {
    let group = |list, tid, comm: &str, ms| {
        let cpu_time = Duration::from_millis(ms);
        let thread = Thread { tid, comm: comm.to_owned(), cpu_time };
        Threads { cpus: cpus(list), mems_allowed: None, count: 1, cpu_time, busiest: vec![thread] }
    };
    vec![group("0-3", 4712, "redis-\x07fork", 99_000), group("0-3,8-11", 4713, "bio_close", 1000)]
}

/// Three processes: one at home on node 0, one on two nodes, one whose node has no memory.
pub fn inspection(options: Options) -> LookedAt {
    let topology = topology();
    let processes = vec![
        process(4711, "redis-server", "0-3"),
        Process { threads: threads(), ..process(4712, "redis-\x07fork", "0-3,8-11") },
        process(4900, "adrift", ""),
    ];
    let caller_mems: NodeSet = topology.with_memory();
    let scene = Scene { topology: &topology, processes: &processes, caller_mems: &caller_mems };
    let plan = planner::plan(scene, extents(), &options);
    LookedAt {
        plan,
        topology,
        missing: missing(),
        found: found(),
        cgroups: Vec::new(),
        files: None,
    }
}

/// A container that was looked up.
fn found() -> Vec<FoundMember> {
    let (cgroup, by) = (Some("/docker/0a1b2c".to_owned()), "Docker 0a1b2c".to_owned());
    vec![FoundMember { member: Target::container("web"), at: FoundAt { cgroup, by } }]
}

/// A cgroup of which two processes may not be read, and a process that has ended.
pub fn missing() -> Vec<Missing> {
    let pid = Target { pids: [4999].into(), ..Target::default() };
    let no_right = "no right to read maps of process 4712 (nginx): run as its user";
    [(Target::cgroup("/system.slice/nginx.service"), no_right, 2), (pid, "no process 4999", 0)]
        .map(|(member, reason, processes)| Missing { member, reason: reason.into(), processes })
        .into()
}

/// A target of one process with many extents.
pub fn many_extents() -> LookedAt {
    let topology = topology();
    let processes = vec![process(4711, "redis-server", "0-3")];
    let caller_mems: NodeSet = topology.with_memory();
    let scene = Scene { topology: &topology, processes: &processes, caller_mems: &caller_mems };
    let extents = (1..=25).map(|i| extent(&[(0, i << 32)], Kind::Anonymous, "", &[(2, i, 0)]));
    let options = Options::default();
    let plan = Plan { frames_hidden: true, ..planner::plan(scene, extents, &options) };
    LookedAt {
        plan,
        topology,
        missing: Vec::new(),
        found: Vec::new(),
        cgroups: Vec::new(),
        files: None,
    }
}

/// A possible outcome for [`inspection`].
pub fn outcome() -> Outcome {
    let value::Outcome { processes, cache_flows, calls, elapsed, .. } = samples::outcome();
    Outcome {
        processes,
        flows: samples::member().flows,
        cache_flows,
        calls,
        elapsed,
        ..Outcome::default()
    }
}

/// A device that is used, and one that is not and has refused its last command.
pub fn accelerators() -> dsa::Found {
    let free = |name: &str| dsa::Queue {
        name: name.into(),
        state: dsa::State::Disabled,
        kind: Some("none".into()),
        mode: Some("shared".into()),
        size: Some(0),
        priority: Some(0),
        ..dsa::Queue::default()
    };
    let used = dsa::Queue {
        name: "wq0.0".into(),
        state: dsa::State::Enabled,
        kind: Some("kernel".into()),
        mode: Some("dedicated".into()),
        driver: Some("dmaengine".into()),
        driver_name: Some("dmaengine".into()),
        label: Some("numaloc".into()),
        group: Some(0),
        size: Some(128),
        priority: Some(10),
        max_transfer_bytes: Some(2 << 30),
        clients: Some(1),
        ..dsa::Queue::default()
    };
    let group = dsa::Group {
        name: "group0.0".into(),
        number: 0,
        queues: vec!["wq0.0".into()],
        engines: vec!["engine0.0".into()],
    };
    let first = dsa::Device {
        number: 0,
        name: "dsa0".into(),
        numa_node: Some(NodeId(0)),
        state: dsa::State::Enabled,
        driver: Some("idxd".into()),
        configurable: Some(true),
        pasid_enabled: Some(true),
        clients: Some(1),
        limits: dsa::Limits {
            work_queues: Some(2),
            work_queues_size: Some(128),
            groups: Some(1),
            engines: Some(1),
            batch_size: Some(1024),
            transfer_bytes: Some(2 << 30),
        },
        queues: vec![used, free("wq0.1")],
        groups: vec![group],
        engines: vec![dsa::Engine { name: "engine0.0".into(), group: Some(0) }],
        ..dsa::Device::default()
    };
    let second = dsa::Device {
        number: 2,
        name: "dsa2".into(),
        numa_node: Some(NodeId(2)),
        state: dsa::State::Disabled,
        configurable: Some(true),
        pasid_enabled: Some(false),
        errors: Some("00000000,00000001".into()),
        command_status: dsa::CommandStatus(0x8004_0000),
        queues: vec![free("wq2.0")],
        ..dsa::Device::default()
    };
    dsa::Found { bus: true, devices: vec![first, second], undriven: Vec::new() }
}
