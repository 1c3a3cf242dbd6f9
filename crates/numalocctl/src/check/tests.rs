//! The checks on a good, a bad and a poor host.

use super::*;
use crate::{
    container_runtime::RuntimeAnswer, doc::DoctorDoc, exit::Code, fixture, output::View, text,
};
use numaloc_api::v1;
use numaloc_core::{DomainValues, GroupName, HugePool, MoverGroup, Notation};
use numaloc_dma::dsa::{Device, Found, Queue, State};
use numaloc_host::{
    RealTimePolicy, UnixSocket,
    facts::{Capabilities, CgroupVersion, KernelSetting},
    node_room::Permission,
};
use prost_types::Timestamp;

pub fn good() -> Findings {
    let capabilities = Capabilities {
        sys_ptrace: true,
        sys_nice: true,
        sys_admin: true,
        dac_read_search: true,
        fowner: true,
        sys_resource: true,
    };
    let facts = HostFacts {
        kernel_release: Some("6.12.107+deb13-amd64".into()),
        numa_balancing: Some(0),
        thp_enabled: Some("madvise".into()),
        thp_defrag: Some("madvise".into()),
        mthp_enabled: [(64 << 10, "always".into()), (2 << 20, "never".into())].into(),
        cgroups: CgroupVersion::V2,
        capabilities,
        hidepid: None,
        has_processes_alone: false,
        has_foreign_cgroups: false,
        offload: Vec::new(),
        pressure: true,
        swap_bytes: 0,
        huge_pools: vec![HugePool {
            page_bytes: 2 << 20,
            total_pages: 64,
            free_pages: 60,
            unreserved_pages: 60,
        }],
    };
    let topology = Ok(fixture::topology());
    let daemon = DaemonState::Reachable {
        version: "0.1.0".into(),
        role: "admin".into(),
        holds: v1::Holds::default(),
        problems: Vec::new(),
    };
    let (reclaim, compact) = (Permission::Allowed, Permission::Allowed);
    Findings {
        facts,
        pfns_readable: true,
        pagemap_scan: true,
        topology,
        ways: Some(RoomRights { reclaim, compact, demotes: false }),
        containers: ContainersState {
            nri: UnixSocket::Listens,
            containerd: RuntimeAnswer::Version("v2.1.9".into()),
            runc_sets_policies: None,
            told_by: Some("nri".into()),
        },
        real_time: Vec::new(),
        dsa: Found::default(),
        mover_group: MoverGroupState::Unset,
        daemon,
    }
}

fn hog(is_limited: bool) -> RealTimeHog {
    let (cpu, policy) = (numaloc_core::CpuId(3), RealTimePolicy::Fifo);
    RealTimeHog { cpu, pid: 811, tid: 812, comm: "poll".into(), policy, priority: 99, is_limited }
}

fn slow_group() -> MoverGroup {
    let name = GroupName::parse("numaloc").expect("a name");
    let memory_bandwidth = DomainValues::parse("20", Notation::Number).ok();
    MoverGroup { name, memory_bandwidth, l3: None }
}

fn bad() -> Findings {
    let good = good();
    let path = "/sys/kernel/mm/migrate/dma_migrate_enabled".into();
    let facts = HostFacts {
        kernel_release: Some("6.1.0-31-amd64".into()),
        numa_balancing: Some(1),
        pressure: false,
        thp_enabled: None,
        cgroups: CgroupVersion::None,
        capabilities: Capabilities::default(),
        hidepid: Some("invisible".into()),
        offload: vec![KernelSetting { path, value: Some("0".into()) }],
        huge_pools: Vec::new(),
        ..good.facts
    };
    let topology = Err(Error::Hwloc { reason: "no /sys".into() });
    let daemon = DaemonState::Refused("the role viewer\nis not yours".into());
    let (reclaim, compact) = (Permission::Absent, Permission::Refused);
    let ways = Some(RoomRights { reclaim, compact, demotes: false });
    let containers = ContainersState {
        nri: UnixSocket::Absent,
        containerd: RuntimeAnswer::Version("1.7.24".into()),
        runc_sets_policies: None,
        told_by: None,
    };
    let device = Device { name: "dsa0".into(), ..Device::default() };
    let dsa = Found { devices: vec![device], ..Found::default() };
    Findings {
        facts,
        pfns_readable: false,
        pagemap_scan: false,
        topology,
        ways,
        containers,
        real_time: vec![hog(false)],
        dsa,
        mover_group: MoverGroupState::Set(slow_group()),
        daemon,
    }
}

fn shown(found: &Findings) -> String {
    text::doctor(&DoctorDoc::from(checks(found)), View::TABLE)
}

#[test]
fn a_good_host_has_no_problem() {
    insta::assert_snapshot!(shown(&good()));
    let document = DoctorDoc::from(checks(&good()));
    assert_eq!(document.code(), Code::Done);
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
}

#[test]
fn a_bad_host_is_told_what_to_do() {
    insta::assert_snapshot!(shown(&bad()));
    assert_eq!(DoctorDoc::from(checks(&bad())).code(), Code::Failure);
}

#[test]
fn a_group_without_limits_is_no_warning_and_one_that_this_host_lacks_is() {
    let check = |state| mover_group::mover_group(&Findings { mover_group: state, ..good() });
    let free = MoverGroup { memory_bandwidth: None, ..slow_group() };
    let free = check(MoverGroupState::Set(free));
    assert_eq!((free.level.name(), &*free.found), ("ok", "resctrl group numaloc without limits"));
    let wrong = check(MoverGroupState::Wrong("resctrl is not mounted".into()));
    assert_eq!((wrong.level.name(), &*wrong.found), ("warning", "resctrl is not mounted"));
}

#[test]
fn a_real_time_thread_that_never_sleeps_is_a_warning() {
    let check =
        |is_limited| machine::real_time(&Findings { real_time: vec![hog(is_limited)], ..good() });
    let limited = check(true);
    assert_eq!(limited.level.name(), "warning");
    let hog =
        "CPU 3 runs thread 812 (poll) of process 811 at real-time priority 99 without a pause";
    assert_eq!(
        limited.found,
        format!("{hog}: calls that move memory may wait up to a second for it")
    );
    assert!(check(false).found.ends_with("until the thread sleeps"));
}

#[test]
fn memory_of_a_dax_device_beside_a_nodes_own_is_a_warning() {
    let dax = |bytes| {
        let device = numaloc_core::DaxMemory { name: "dax0.0".into(), bytes };
        let dax = [(numaloc_core::NodeId(0), vec![device])];
        let topology = Ok(fixture::topology().with_dax(dax.into()));
        machine::dax_memory(&Findings { topology, ..good() })
    };
    let mixed = dax(256 << 20);
    assert_eq!(mixed.level.name(), "warning");
    let expected = "node 0 has up to 256 MiB behind dax0.0 (kmem): memory there may be slower, and numaloc cannot tell it from the rest";
    assert_eq!(mixed.found, expected);
    assert_eq!(dax(16 << 30).level.name(), "ok", "all of the node's memory is the device's");
}

#[test]
fn memory_that_the_kernel_cannot_give_back_is_a_warning() {
    let node = |id: u32| numaloc_core::NodeId(id);
    let check = |movable_bytes, device: &str| {
        let nature = numaloc_core::NodeNature {
            origin: Some(numaloc_core::MemoryOrigin::Persistent),
            movable_bytes: Some(movable_bytes),
            side_caches: Vec::new(),
        };
        let storage = numaloc_core::StorageDevice {
            name: device.into(),
            mode: numaloc_core::StorageMode::Fsdax,
            bytes: 128 << 30,
            node: Some(node(2)),
            target_node: Some(node(2)),
            disk: None,
            descriptor_bytes: 2 << 30,
        };
        let topology = fixture::topology().with_natures([(node(8), nature)].into());
        Findings { topology: Ok(topology.with_storage(vec![storage])), ..good() }
    };
    let found = check(1 << 30, "namespace0.0");
    let movable = memory_kinds::movable(&found);
    assert_eq!(movable.level.name(), "warning");
    assert!(movable.found.contains("memory of node 8 is not all"), "{}", movable.found);
    let descriptors = memory_kinds::descriptors(&found);
    assert!(descriptors.found.ends_with("take 2048 MiB (12 %) of node 2"), "{}", descriptors.found);
    let kinds = memory_kinds::kinds(&found).found;
    let expected = "nodes by kind: dram 0,2, persistent 8, empty 16; tiers by kind, the fastest first: 0: 0,2, 1: 8";
    assert_eq!(kinds, expected);
    assert_eq!(memory_kinds::movable(&check(128 << 30, "a")).level.name(), "ok");
}

#[test]
fn what_proc_hides_is_not_known() {
    let hidden = |has_processes_alone| {
        let facts = HostFacts { pressure: false, has_processes_alone, ..good().facts };
        let topology = Err(numaloc_host::Error::Stopped);
        let found = Findings { facts, topology, ..good() };
        [kernel::pressure(&found), machine::hwloc(&found)]
    };
    for check in hidden(true) {
        assert_eq!(check.advice.as_deref(), Some(kernel::WHOLE_PROC), "{check:?}");
    }
    let [pressure, hwloc] = hidden(false);
    assert_eq!(pressure.found, "not measured (PSI is off)");
    assert!(hwloc.advice.is_some_and(|advice| advice.contains("lstopo")));
}

#[test]
fn a_kernel_before_6_1_is_a_problem() {
    let level = |release: &str| {
        let facts = HostFacts { kernel_release: Some(release.into()), ..good().facts };
        kernel::release(&Findings { facts, ..good() }).level.name()
    };
    let releases = ["5.14.0-503.el9.x86_64", "6.0.19", "6.1.0-31-amd64", "6.12.1", "x"];
    assert_eq!(releases.map(level), ["problem", "problem", "ok", "ok", "warning"]);
}

#[test]
fn a_machine_of_one_full_node_is_a_problem() {
    let mut topology = fixture::topology();
    let node = topology.node(numaloc_core::NodeId(0)).unwrap().clone();
    let memory = numaloc_core::NodeMemory { free_bytes: 0, cache_bytes: 0, ..node.memory };
    topology = Topology::new([numaloc_core::Node { memory, ..node }], []);
    insta::assert_snapshot!(shown(&Findings { topology: Ok(topology), ..good() }));
}

/// The check of a daemon that moves nothing, and of one that has another problem besides.
#[test]
fn a_daemon_that_is_held_is_a_warning_that_says_how_to_end_it() {
    let since = Some(Timestamp { seconds: 1_700_000_000, nanos: 0 });
    let check = |drain_time, pause_time, problems: &[&str]| {
        let problems = problems.iter().map(|&problem| problem.to_owned()).collect();
        let holds = v1::Holds { drain_time, pause_time };
        let (version, role) = ("0.1.0".to_owned(), "admin".to_owned());
        let daemon = DaemonState::Reachable { version, role, holds, problems };
        checks(&Findings { daemon, ..good() }).pop().expect("the daemon's is the last check")
    };
    let drained = "drained since 2023-11-14T22:13:20Z, so no move begins";
    let paused = "all moves are paused since 2023-11-14T22:13:20Z";
    let (undrain, resume, see_log) = (
        "`numalocctl undrain` lets moves begin again",
        "`numalocctl resume-all` lets paused moves continue",
        "see `numalocctl status` and the daemon's log",
    );
    for (found, texts, advice) in [
        (check(since, None, &[]), &[drained][..], &[undrain][..]),
        (check(None, since, &[]), &[paused], &[resume]),
        (
            check(since, since, &["no room", "no rights"]),
            &[drained, paused, "no room", "no rights"],
            &[undrain, resume, see_log],
        ),
    ] {
        assert_eq!((found.name, found.level.name()), ("daemon", "warning"));
        assert_eq!(found.found, format!("numalocd 0.1.0: {}", texts.join("; ")));
        assert_eq!(found.advice, Some(advice.join("; ")));
    }
    assert_eq!(check(None, None, &[]).level.name(), "ok");
}

/// The check of accelerators: a queue is missed only where the kernel could use it.
#[test]
fn a_work_queue_is_missed_where_the_kernel_could_use_it() {
    let check = |ready: bool, offload: bool| {
        let state = if ready { State::Enabled } else { State::Disabled };
        let kind = Some("kernel".to_owned());
        let queue = Queue { name: "wq0.0".into(), state, kind, ..Queue::default() };
        let device = Device { name: "dsa0".into(), queues: vec![queue], ..Device::default() };
        let dsa = Found { devices: vec![device], ..Found::default() };
        let facts = if offload { bad().facts } else { good().facts };
        let all = checks(&Findings { dsa, facts, ..good() });
        all.into_iter().find(|check| check.name == "dsa").expect("a check")
    };
    assert_eq!(check(true, true), Check::ok("dsa", "dsa0: wq0.0 for the kernel"));
    let none = "dsa0: no work queue for the kernel";
    assert_eq!(check(false, false), Check::ok("dsa", none));
    let missed = check(false, true);
    assert_eq!((missed.level.name(), missed.found.as_str()), ("warning", none));
    assert!(missed.advice.is_some_and(|advice| advice.contains("manage_work_queue")));
}

#[test]
fn sizes_of_pages_are_shown() {
    assert_eq!(
        kernel::page_size(64 << 10, 512 << 20),
        Check::ok("page_size", "64.0 KiB, huge pages 512.0 MiB")
    );
}
