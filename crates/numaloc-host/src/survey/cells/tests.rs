//! QEMU with a guest of two NUMA nodes, on a fake host of two nodes.

use crate::{
    Surveyor, Target,
    fake::{Fake, two_nodes},
    resolve,
};
use numaloc_core::{NodeId, Options, Plan, Skip};

/// No process of this machine has such a pid (include/linux/threads.h, PID_MAX_LIMIT).
const PID: i32 = 5_000_000;
const MAPS: &str = "\
7f0000010000-7f0000018000 rw-s 00000000 00:01 8 /memfd:memory-backend-memfd (deleted)
7f0000020000-7f0000028000 rw-s 00000000 00:01 7 /memfd:memory-backend-memfd (deleted)
7f0000030000-7f0000034000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0 [stack]
";

fn guest(names: [&str; 2], cpus: [&str; 2]) -> Fake {
    let fake = Fake::new();
    two_nodes::write(&fake);
    fake.process(PID, "qemu-system-x86", &["0-7", cpus[0], cpus[1]]);
    for (tid, name) in (PID + 1..).zip(names) {
        fake.worked(PID, tid, name, 100);
    }
    (PID..=PID + 2).for_each(|tid| fake.mems(PID, tid, "0-1"));
    let object = |cell| format!("-object\0memory-backend-memfd,id=ram-node{cell},size=32K\0");
    let numa = |cell| format!("-numa\0node,nodeid={cell},cpus={cell},memdev=ram-node{cell}\0");
    let line = format!("qemu\0{}{}{}{}", object(0), object(1), numa(0), numa(1));
    fake.write(&format!("proc/{PID}/cmdline"), &line);
    fake.write(&format!("proc/{PID}/maps"), MAPS);
    // Each cell has its pages on the node of the other one, and there are 2 pages of something else on each node.
    let [zero, one] = [0, 1].map(two_nodes::frame);
    let at = |address: u64| address >> 12;
    let runs = [
        (at(0x7f00_0001_0000), 8, zero),
        (at(0x7f00_0002_0000), 8, one),
        (at(0x7f00_0003_0000), 2, zero + 8),
        (at(0x7f00_0003_2000), 2, one + 8),
    ];
    two_nodes::pagemap(&fake, &format!("proc/{PID}/pagemap"), &runs);
    fake
}

fn plan(fake: &Fake, policies: [&str; 2], options: &Options) -> Plan {
    let numa_maps = format!(
        "7f0000010000 {} file=/memfd:memory-backend-memfd\\040(deleted) dirty=8 N0=8 kernelpagesize_kB=4\n\
         7f0000020000 {} file=/memfd:memory-backend-memfd\\040(deleted) dirty=8 N1=8 kernelpagesize_kB=4\n\
         7f0000030000 default anon=4 dirty=4 N0=2 N1=2 kernelpagesize_kB=4\n",
        policies[0], policies[1],
    );
    fake.write(&format!("proc/{PID}/numa_maps"), &numa_maps);
    let (roots, topology) = (fake.roots(), two_nodes::topology(1 << 39));
    let processes = resolve(&roots, &[Target::Pid(PID)], &topology).expect("it is there").processes;
    let surveyor = Surveyor::new(&roots, &topology, options);
    let (_, seen) = surveyor.survey(processes, None).expect("it can be read");
    seen.plan(&topology, options)
}

fn flows(plan: &Plan) -> Vec<(u32, u32, u64)> {
    plan.expected_flows.iter().map(|((from, to), bytes)| (from.0, to.0, *bytes)).collect()
}

const THREADS: [&str; 2] = ["CPU 0/KVM", "CPU 1/KVM"];
const DEFAULT: [&str; 2] = ["default"; 2];

#[test]
fn each_cell_of_a_guest_belongs_where_its_vcpus_run() {
    let fake = guest(THREADS, ["0-3", "4-7"]);
    let found = plan(&fake, DEFAULT, &Options::default());
    assert_eq!(flows(&found), [(0, 1, 0x8000), (1, 0, 0x8000)]);
    let process = &found.processes[0];
    assert_eq!((process.home.to_string(), process.skip), ("0-1".to_owned(), None));
    let cells: Vec<_> =
        process.cells.iter().map(|cell| (cell.home.to_string(), cell.resident.clone())).collect();
    let on = |node| [(NodeId(node), 0x8000)].into();
    assert_eq!(cells, [("0".to_owned(), on(1)), ("1".to_owned(), on(0))]);
    // With the vCPUs the other way round all is where it belongs.
    let found = plan(&guest(THREADS, ["4-7", "0-3"]), DEFAULT, &Options::default());
    assert_eq!((flows(&found), found.locality.overall.remote_bytes), (vec![], 0));
}

#[test]
fn bound_cells_stay_and_the_request_comes_first() {
    let fake = guest(THREADS, ["0-3", "4-7"]);
    let found = plan(&fake, ["bind:0", "default"], &Options::default());
    assert_eq!(flows(&found), [(1, 0, 0x8000)]);
    let to = Options { to: "0".parse().ok(), ..Options::default() };
    let found = plan(&fake, DEFAULT, &to);
    assert_eq!(flows(&found), [(1, 0, 0xa000)]);
    let maps = vec!["memfd:*=home:1".parse().expect("a rule")];
    let found = plan(&fake, DEFAULT, &Options { maps, ..Options::default() });
    assert_eq!(flows(&found), [(0, 1, 0x8000)]);
}

#[test]
fn where_vcpus_or_memory_are_not_certain_all_of_the_process_has_one_home() {
    let is_as_before = |fake: &Fake| {
        let found = plan(fake, DEFAULT, &Options::default());
        assert_eq!(found.processes[0].skip, Some(Skip::NoTargetNode));
        flows(&found).is_empty()
    };
    // Without -name debug-threads=on; vCPUs that float; and no command line that could be read.
    assert!(is_as_before(&guest(["qemu-system-x86"; 2], ["0-3", "4-7"])));
    assert!(is_as_before(&guest(THREADS, ["0-7", "0-7"])));
    let fake = guest(THREADS, ["0-3", "4-7"]);
    std::fs::remove_file(fake.path(&format!("proc/{PID}/cmdline"))).expect("a file");
    assert!(is_as_before(&fake));
    // A third mapping that could be the memory of a cell.
    let fake = guest(THREADS, ["0-3", "4-7"]);
    let third =
        "7f0000040000-7f0000048000 rw-s 00000000 00:01 9 /memfd:memory-backend-memfd (deleted)\n";
    fake.write(&format!("proc/{PID}/maps"), &(MAPS.to_owned() + third));
    let found = plan(&fake, DEFAULT, &Options::default());
    assert_eq!(flows(&found), []);
    assert!(found.processes[0].cells.iter().all(|cell| cell.resident.is_empty()));
}
