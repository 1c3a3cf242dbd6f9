//! Guests with NUMA nodes of their own: the memory of each belongs where its vCPU runs.

use super::*;
use std::{os::unix::fs::FileExt, path::Path};

/// Two cells of 32 MiB with a vCPU each. The first one has all memory in which the guest counts.
const CELLS: &str = "<cpu><numa><cell id='0' cpus='0' memory='32' unit='MiB'/>\
                     <cell id='1' cpus='1' memory='32' unit='MiB'/></numa></cpu>";
const CELL: u64 = 32 * MIB;

impl Guest {
    /// Where its cells begin in its process. The first cell is the one whose word for the number of passes is not 0.
    fn cells(&self) -> [u64; 2] {
        let path = format!("/proc/{}", self.pid());
        let maps = fs::read_to_string(format!("{path}/maps")).expect("it runs");
        let memory = fs::File::open(format!("{path}/mem")).expect("readable");
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for line in maps.lines().filter(|line| line.contains(" rw-")) {
            let (start, end) =
                line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
            let [start, end] = [start, end].map(|hex| u64::from_str_radix(hex, 16).expect("hex"));
            if end - start != CELL {
                continue;
            }
            let mut passes = [0; 4];
            memory.read_exact_at(&mut passes, start + PASSES).expect("memory of the guest");
            if passes == [0; 4] { second.push(start) } else { first.push(start) }
        }
        match (&first[..], &second[..]) {
            (&[first], &[second]) => [first, second],
            _ => panic!("{first:x?} {second:x?}\n{maps}"),
        }
    }

    /// On which nodes its cells are.
    fn nodes_of_cells(&self) -> [Nodes; 2] {
        let truth = Truth::of(self.pid());
        self.cells().map(|start| truth.mapping(start))
    }

    /// Has each vCPU run on a node of its own, and the other threads anywhere.
    fn vcpus_run_on(&self, nodes: [u32; 2]) {
        let all = format!("{},{}", cpus_of(0), cpus_of(1));
        done("virsh", &["emulatorpin", self.name, &all, "--live"]);
        for (number, node) in nodes.into_iter().enumerate() {
            done("virsh", &["vcpupin", self.name, &number.to_string(), &cpus_of(node), "--live"]);
        }
    }
}

fn assert_on(guest: &Guest, nodes: [u32; 2], context: &str) {
    let found = guest.nodes_of_cells();
    for (found, node) in found.iter().zip(nodes) {
        let is_there = on(found, node) == CELL && off(found, node) == 0;
        assert!(is_there, "{}: {found:?} is not on node {node}; {context}", guest.name);
    }
}

#[test]
fn each_cell_of_a_guest_comes_to_the_node_of_its_vcpu() {
    let _still = Setting::still_host();
    let _pools = [0, 1].map(|node| Setting::huge_pool(node, 40));
    libvirt();
    assert!(Path::new("/dev/hugepages").exists(), "hugetlbfs is mounted by systemd");
    let system = System::new();
    system.install(1, &["numaloc"]);
    // All of it is there from the start, on node 1.
    let backing = |source: &str| {
        format!("<memoryBacking>{source}<allocation mode='immediate'/></memoryBacking>")
    };
    for (name, source) in [
        ("memfds", "<source type='memfd'/><access mode='shared'/>"),
        ("plain", "<source type='anonymous'/>"),
        ("files", "<hugepages/>"),
    ] {
        let guest = Guest::start_with(name, &backing(source), CELLS, 2);
        assert_on(&guest, [1, 1], "it began there");
        let since = guest.word(PASSES);
        // Each cell once on either node, so that one taken for the other one is seen.
        for nodes in [[0, 1], [1, 0]] {
            guest.vcpus_run_on(nodes);
            let said = format!("{:?}", run("/usr/bin/numalocctl", &["migrate", "--vm", name]));
            assert_on(&guest, nodes, &said);
            let plan = done("/usr/bin/numalocctl", &["plan", "--vm", name]);
            let belongs =
                |cell: usize| format!("cell: {cell} of the guest of process {} ", guest.pid());
            for (cell, node) in nodes.into_iter().enumerate() {
                let line = plan.lines().find(|line| line.starts_with(&belongs(cell)));
                let home = format!("home is node {node};");
                assert!(line.is_some_and(|line| line.contains(&home)), "{nodes:?}: {plan}");
            }
        }
        guest.counts_on(since);
    }
    systemctl(&["stop", "libvirtd.service", "libvirtd.socket", "virtlogd.service"]);
}
