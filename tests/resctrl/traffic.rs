//! What is read of counters as the kernel has them: of groups that come and go, and that say words instead of numbers.

use crate::{Host, on};
use numaloc_core::{NodeId, NodeTraffic, Topology, Traffic, TrafficDomain};
use numaloc_host::traffic::{self, TrafficCounters};
use numaloc_tests::resctrl::Machine;
use std::{fs, path::Path, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

/// Two nodes with two caches each: 0 and 1, and 8 and 17.
fn topology(host: &Host) -> Topology {
    for (cpu, cache) in [0, 1, 8, 17].into_iter().enumerate() {
        let directory = host.roots().sys.join(format!("devices/system/cpu/cpu{cpu}/cache/index3"));
        fs::create_dir_all(&directory).expect("directories");
        for (name, text) in [("level", 3), ("id", cache), ("shared_cpu_list", cpu)] {
            fs::write(directory.join(name), format!("{text}\n")).expect(name);
        }
    }
    let memory = numaloc_core::NodeMemory { total_bytes: 1 << 30, ..Default::default() };
    let node = |id, cpus: &str| numaloc_core::Node {
        id: NodeId(id),
        cpus: cpus.parse().expect("a list"),
        memory: memory.clone(),
    };
    Topology::new([node(0, "0-1"), node(1, "2-3")], [])
}

#[test]
fn the_traffic_of_all_control_groups_is_that_of_the_host_and_its_nodes() {
    on(Machine::amd(), |host| {
        let (roots, topology) = (host.roots(), topology(host));
        fs::create_dir(host.root().join("BE")).expect("a group");
        fs::create_dir(host.root().join("mon_groups/pod")).expect("a group");
        let before = traffic::read(&roots);
        host.fs.count("", 0, "1000", "1500");
        host.fs.count("BE", 1, "30", "40");
        host.fs.count("", 17, "7", "9");
        // It is a part of the root group.
        host.fs.count("mon_groups/pod", 0, "500", "900");
        let host_traffic = before.until(&traffic::read(&roots), SECOND);
        let sum = Traffic { local_bytes_per_second: 1037, remote_bytes_per_second: 512 };
        assert_eq!((host_traffic.sum(), host_traffic.partial.len()), (Some(sum), 0));
        let by_node = host_traffic.by_node(&traffic::caches(&roots, &topology), &topology);
        let whole = |bytes_per_second| NodeTraffic { bytes_per_second, is_whole: true };
        assert_eq!(by_node, [(NodeId(0), whole(1032)), (NodeId(1), whole(517))].into());
        let pod = || TrafficCounters::of([host.root().join("mon_groups/pod")]);
        let own = pod();
        host.fs.count("mon_groups/pod", 0, "600", "1000");
        let own = own.until(&pod(), SECOND).sum().expect("it counts");
        assert_eq!((own.local_bytes_per_second, own.remote_bytes_per_second), (100, 0));
    });
}

#[test]
fn words_and_groups_that_vanish_or_begin_again_are_no_traffic() {
    on(Machine::amd(), |host| {
        let (roots, topology) = (host.roots(), topology(host));
        let group = host.root().join("BE");
        fs::create_dir(&group).expect("a group");
        for cache in [0, 1, 8, 17] {
            host.fs.count("", cache, "100", "100");
        }
        let before = traffic::read(&roots);
        host.fs.count("", 0, "Unassigned", "Unassigned");
        host.fs.count("", 1, "50", "60");
        host.fs.count("", 8, "Unavailable", "200");
        host.fs.count("", 17, "150", "160");
        fs::remove_dir(&group).expect("a group");
        let after = before.until(&traffic::read(&roots), SECOND);
        assert_eq!(after.domains.keys().collect::<Vec<_>>(), [&TrafficDomain::Cache(17)]);
        assert_eq!(after.partial.len(), 4, "the group has gone");
        let by_node = after.by_node(&traffic::caches(&roots, &topology), &topology);
        let bound = NodeTraffic { bytes_per_second: 50, is_whole: false };
        assert_eq!(by_node, [(NodeId(1), bound)].into());
    });
}

#[test]
fn the_use_of_nodes_is_measured_and_nothing_without_resctrl() {
    on(Machine::monitoring(), |host| {
        let (roots, topology) = (host.roots(), topology(host));
        let measured = traffic::measure_nodes(&roots, &topology, &|| false);
        // Its caches are 0 and 1, both of node 0.
        let idle = NodeTraffic { bytes_per_second: 0, is_whole: false };
        assert_eq!(measured, [(NodeId(0), idle)].into());
        let elsewhere = numaloc_host::Roots { sys: Path::new("/nowhere").into(), ..roots };
        assert!(traffic::measure_nodes(&elsewhere, &topology, &|| false).is_empty());
    });
}
