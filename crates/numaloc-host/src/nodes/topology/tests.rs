use super::*;
use crate::{ErrorKind, fake::Fake};

fn set(text: &str) -> NodeSet {
    text.parse().expect("a list")
}

fn synthetic(description: &str) -> Topology {
    let builder = Hwloc::builder().from_synthetic(description).expect("a description");
    from_hwloc(&builder.build().expect("a topology"))
}

fn recorded() -> Topology {
    let builder = Hwloc::builder().from_xml(include_str!("sparse.xml")).expect("XML");
    from_hwloc(&builder.build().expect("a topology"))
}

#[test]
fn more_than_64_nodes_and_their_cpus() {
    let topology = synthetic("numa:80(memory=1GB) pu:2");
    assert_eq!(topology.ids(), set("0-79"));
    let last = topology.node(NodeId(79)).unwrap();
    assert_eq!(last.cpus.to_string(), "158-159");
    assert_eq!(last.memory.total_bytes, 1_000_000_000);
}

#[test]
fn os_indexes_are_kept() {
    let topology = synthetic("numa:2(indexes=8,252 memory=1MB) pu:2(indexes=4,5,0,1)");
    assert_eq!(topology.ids(), set("8,252"));
    assert_eq!(topology.node(NodeId(8)).unwrap().cpus.to_string(), "4-5");
}

#[test]
fn a_memory_only_node_owns_no_cpus_and_is_never_local() {
    let topology = recorded();
    assert!(topology.node(NodeId(70)).unwrap().cpus.is_empty());
    assert_eq!(topology.local_nodes(&"0-3".parse().unwrap()), set("0"));
}

#[test]
fn a_memory_less_node_is_there_without_memory() {
    let topology = recorded();
    assert_eq!(topology.ids(), set("0,8,70"));
    assert_eq!(topology.with_memory(), set("0,70"));
    assert_eq!(topology.node(NodeId(8)).unwrap().cpus.to_string(), "2-3");
}

#[test]
fn distances_keep_their_direction() {
    let topology = recorded();
    let distance = |from, to| topology.distance(NodeId(from), NodeId(to));
    assert_eq!((distance(0, 8), distance(8, 0)), (21, 31));
    assert_eq!((distance(0, 70), distance(70, 0), distance(70, 70)), (17, 28, 10));
    let without_table = synthetic("numa:2 pu:1");
    assert_eq!(without_table.distance(NodeId(0), NodeId(1)), 20);
}

#[test]
fn the_kernel_says_whose_cpus_and_how_much_memory() {
    let fake = Fake::new();
    fake.write("proc/zoneinfo", "");
    fake.write("sys/devices/system/node/node0/cpulist", "1\n");
    let meminfo = "Node 0 MemTotal: 8 kB\nNode 0 MemFree: 4 kB\n";
    fake.write("sys/devices/system/node/node0/meminfo", meminfo);
    let reader = NodeMemoryReader::new(&fake.roots()).unwrap();
    let node =
        |id| Node { id: NodeId(id), cpus: "0".parse().unwrap(), memory: NodeMemory::default() };
    let mut nodes = [node(0), node(1)];
    fill(&fake.roots(), &reader, &mut nodes).unwrap();
    assert_eq!((nodes[0].cpus.to_string(), nodes[0].memory.free_bytes), ("1".into(), 4096));
    assert_eq!(nodes[1], node(1));
}

#[test]
fn the_kernels_lists_are_read() {
    let fake = Fake::new();
    fake.write("proc/zoneinfo", "");
    let node = |id: u32, cpus: &str, distances: &str| {
        let path = format!("sys/devices/system/node/node{id}");
        fake.write(&format!("{path}/cpulist"), cpus);
        fake.write(&format!("{path}/distance"), distances);
        let meminfo = format!("Node {id} MemTotal: 8 kB\nNode {id} MemFree: 4 kB\n");
        fake.write(&format!("{path}/meminfo"), &meminfo);
    };
    fake.write("sys/devices/system/node/online", "0,70\n");
    node(0, "0-3\n", "10 17\n");
    node(70, "\n", "28 10\n");
    let topology = topology(&fake.roots()).unwrap();
    assert_eq!(topology.ids(), set("0,70"));
    assert_eq!(topology.local_nodes(&"0-3".parse().unwrap()), set("0"));
    let distance = |from, to| topology.distance(NodeId(from), NodeId(to));
    assert_eq!((distance(0, 70), distance(70, 0), distance(70, 70)), (17, 28, 10));
    assert_eq!(topology.other_tiers(), set("70"), "it is memory-only");
    // A link to a CPU, and a directory with a similar name.
    fake.write("sys/devices/system/node/node70/cpufreq", "");
    assert_eq!(super::topology(&fake.roots()).unwrap().other_tiers(), set("70"));
    fake.write("sys/devices/system/node/node70/cpu4/online", "0\n");
    assert_eq!(
        super::topology(&fake.roots()).unwrap().other_tiers(),
        set(""),
        "its CPU is offline"
    );
    node(70, "\n", "28 10 31\n");
    let error = super::topology(&fake.roots()).unwrap_err().to_string();
    assert!(error.contains("node70/distance") && error.contains("nodes 0,70"), "{error}");
}

#[test]
fn where_memory_belongs_is_known_without_a_look_at_what_is_free() {
    let fake = Fake::new();
    let node = |id: u32, cpus: &str, kib: u32| {
        let path = format!("sys/devices/system/node/node{id}");
        fake.write(&format!("{path}/cpulist"), cpus);
        fake.write(&format!("{path}/distance"), "10 17\n");
        fake.write(&format!("{path}/meminfo"), &format!("Node {id} MemTotal: {kib} kB\n"));
    };
    fake.write("sys/devices/system/node/online", "0,70\n");
    node(0, "0-3\n", 0);
    node(70, "4\n", 8);
    // Zoneinfo and MemFree, which the whole topology needs, do not exist.
    topology(&fake.roots()).unwrap_err();
    let places = places(&fake.roots()).unwrap();
    assert_eq!((places.ids(), places.with_memory()), (set("0,70"), set("70")));
    assert_eq!(places.node(NodeId(70)).unwrap().memory.total_bytes, 8192);
    assert_eq!(places.local_nodes(&"0-3".parse().unwrap()), set("70"));
    assert_eq!(places.distance(NodeId(0), NodeId(70)), 17);
}

#[test]
fn named_nodes_are_checked() {
    let fake = Fake::new();
    fake.write("sys/devices/system/node/possible", "0-127\n");
    let to = |nodes: &str| Options { to: Some(set(nodes)), ..Options::default() };
    let from = |nodes: &str| Options { from: Some(set(nodes)), ..Options::default() };
    let check = |options: Options| check_options(&fake.roots(), &recorded(), &options);
    assert!(check(Options::default()).is_ok());
    assert!(check(to("0,70")).is_ok() && check(from("0,70")).is_ok());
    for (node, reason) in [("8", "has no memory"), ("1", "is offline"), ("900", "does not exist")] {
        let nodes = format!("0,{node}");
        for error in [to(&nodes), from(&nodes)].map(|options| check(options).unwrap_err()) {
            assert_eq!(error.to_string(), format!("node {node} {reason}; nodes with memory: 0,70"));
            assert_eq!(error.kind(), ErrorKind::Usage);
        }
    }
}

#[test]
fn one_node_is_too_few() {
    assert!(check_several(&recorded()).is_ok());
    assert!(matches!(check_several(&synthetic("numa:1 pu:2")), Err(Error::OneNode { .. })));
}

#[test]
fn another_machine_is_refused() {
    let builder = Hwloc::builder().from_synthetic("numa:2 pu:2").unwrap();
    let error = check_this_system(&Roots::default(), &builder.build().unwrap()).unwrap_err();
    assert!(error.to_string().contains("another machine"), "{error}");
    let fake = Fake::new();
    fake.write("sys/devices/system/node/online", "5\n");
    let error = check_this_system(&fake.roots(), &discover().unwrap()).unwrap_err();
    assert!(error.to_string().contains("has 5 online"), "{error}");
}

#[test]
fn this_machine_is_read() {
    let topology = by_hwloc(&Roots::default()).unwrap();
    let free = |node: &Node| node.memory.free_bytes;
    assert!(topology.nodes().any(|node| !node.cpus.is_empty() && free(node) > 0));
    let places = places(&Roots::default()).unwrap();
    assert_eq!((places.ids(), places.with_memory()), (topology.ids(), topology.with_memory()));
}
