//! Verdicts on a good, a bad and a poor host.

use super::*;
use crate::{doc::DoctorDoc, exit::Code, fixture, output::View, text};
use numaloc_core::HugePool;
use numaloc_host::facts::{Capabilities, CgroupVersion, Knob};

fn good() -> Findings {
    let capabilities =
        Capabilities { sys_ptrace: true, sys_nice: true, sys_admin: true, dac_read_search: true };
    let facts = HostFacts {
        kernel_release: Some("6.12.107+deb13-amd64".into()),
        numa_balancing: Some(0),
        thp_enabled: Some("madvise".into()),
        thp_defrag: Some("madvise".into()),
        mthp_enabled: [(64 << 10, "always".into()), (2 << 20, "never".into())].into(),
        cgroups: CgroupVersion::V2,
        capabilities,
        hidepid: None,
        offload: Vec::new(),
        dsa_devices: Vec::new(),
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
        problems: Vec::new(),
    };
    Findings { facts, page_size: Ok(()), pfns_readable: true, pagemap_scan: true, topology, daemon }
}

fn bad() -> Findings {
    let good = good();
    let path = "/sys/kernel/mm/migrate/dma_migrate_enabled".into();
    let facts = HostFacts {
        kernel_release: Some("6.1.0-31-amd64".into()),
        numa_balancing: Some(1),
        thp_enabled: None,
        cgroups: CgroupVersion::None,
        capabilities: Capabilities::default(),
        hidepid: Some("invisible".into()),
        offload: vec![Knob { path, value: Some("0".into()) }],
        dsa_devices: vec!["dsa0".into()],
        huge_pools: Vec::new(),
        ..good.facts
    };
    let topology = Err(Error::Hwloc { reason: "no /sys".into() });
    let daemon = DaemonState::Refused("the role viewer\nis not yours".into());
    let page_size = Err(Error::PageSize { bytes: 65536 });
    Findings { facts, page_size, pfns_readable: false, pagemap_scan: false, topology, daemon }
}

fn shown(found: &Findings) -> String {
    text::doctor(&DoctorDoc::from(checks(found)), View { wide: false, headers: true })
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
fn a_machine_of_one_full_node_is_a_problem() {
    let mut topology = fixture::topology();
    let node = topology.node(numaloc_core::NodeId(0)).unwrap().clone();
    let memory = numaloc_core::NodeMemory { free_bytes: 0, ..node.memory };
    topology = Topology::new([numaloc_core::Node { memory, ..node }], []);
    insta::assert_snapshot!(shown(&Findings { topology: Ok(topology), ..good() }));
}
