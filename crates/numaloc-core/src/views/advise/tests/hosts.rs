//! Advice for recorded hosts, compared with snapshots.

use super::build::{GIB, MIB, clusters, node, of, process, sockets};
use crate::{NodeId, NodeSet, views::advise::HostLook};

/// All of them, by what they show.
pub fn all() -> Vec<(&'static str, HostLook)> {
    [&placed()[..], &shapes()[..], &full()[..], &owned()[..], &settings()[..]].concat()
}

/// Each subject by itself, on two sockets.
fn placed() -> Vec<(&'static str, HostLook)> {
    let two = || sockets(2);
    vec![
        ("idle", two()),
        ("one_node", sockets(1).with(process(1, "", &[(0, 4.0)], &[(0, 9000)]))),
        ("at_home", two().with(process(1, "0-7", &[(0, 4.0)], &[(0, 9000), (1, 40)]))),
        ("pinned_remote", two().with(process(1, "0-7", &[(0, 4.0)], &[(0, 1000), (1, 9000)]))),
        ("pinned_remote_asleep", two().with(process(1, "8", &[], &[(0, 3000)]))),
        (
            "by_benefit",
            two()
                .with(process(1, "0-7", &[(0, 0.5)], &[(1, 9000)]))
                .with(process(2, "0-7", &[(0, 3.0)], &[(1, 3000)]))
                .with(process(3, "8-15", &[(1, 1.0)], &[(0, 1500)])),
        ),
        (
            "pinned_across_fits_one",
            two().with(process(1, "0-11", &[(0, 2.0), (1, 1.0)], &[(0, 6000), (1, 3000)])),
        ),
        (
            "unpinned_fits_one",
            two().with(process(1, "", &[(0, 1.5), (1, 1.5)], &[(0, 2000), (1, 7000)])),
        ),
        ("unpinned_at_one", two().with(process(1, "", &[(1, 3.0)], &[(1, 7000)]))),
        ("unpinned_asleep", two().with(process(1, "", &[(0, 0.01)], &[(0, 5000), (1, 5000)]))),
        (
            "wide_and_uneven",
            two().with(process(1, "", &[(0, 7.0), (1, 7.0)], &[(0, 20_000), (1, 2000)])),
        ),
        (
            "wide_and_even",
            two().with(process(1, "", &[(0, 7.0), (1, 7.0)], &[(0, 11_000), (1, 9000)])),
        ),
        (
            "interleaved_on_purpose",
            two().with(
                process(1, "0-7", &[(0, 4.0)], &[(0, 5000), (1, 5000)]).policy("interleave:0-1"),
            ),
        ),
        ("bound_away", two().with(process(1, "0-7", &[(0, 4.0)], &[(1, 5000)]).policy("bind:1"))),
        (
            "bound_and_unpinned",
            two().with(process(1, "", &[(0, 2.0), (1, 2.0)], &[(1, 5000)]).policy("bind:1")),
        ),
        (
            "a_helper",
            two().with(
                process(1, "0-15", &[(0, 3.0)], &[(0, 500), (1, 6000)])
                    .threads(&[("0-7", 4, 1000), ("0-15", 1, 0)]),
            ),
        ),
        (
            "many_helpers",
            two().with(
                process(1, "0-15", &[(0, 3.0)], &[(0, 500), (1, 6000)])
                    .threads(&[("0-7", 4, 1000), ("0-15", 40, 3)]),
            ),
        ),
        (
            "unpinned_with_a_device",
            two()
                .with(process(1, "", &[(0, 1.0), (1, 1.0)], &[(0, 6000), (1, 500)]).devices("1"))
                .with(process(2, "", &[(0, 1.0)], &[(0, 4000)]).devices("0")),
        ),
        (
            "pinned_away_from_its_device",
            two().with(process(1, "0-7", &[(0, 4.0)], &[(0, 9000)]).devices("1")),
        ),
        (
            "pinned_away_from_its_storage",
            two().with(
                process(1, "0-7", &[(0, 4.0)], &[(0, 900)])
                    .cpuset("/pool")
                    .storage(&[(1, 20_000), (0, 100)]),
            ),
        ),
        (
            "unpinned_with_storage",
            two()
                .with(process(1, "", &[(0, 1.5)], &[(0, 20)]).storage(&[(1, 512)]))
                .with(process(2, "", &[(1, 1.5)], &[(1, 2000)]).storage(&[(1, 512)])),
        ),
        (
            "storage_of_both",
            two()
                .with(process(1, "0-7", &[(0, 4.0)], &[(0, 900)]).storage(&[(0, 5000), (1, 5000)])),
        ),
        (
            "little_storage_beside_much_memory",
            two().with(process(1, "0-7", &[(0, 4.0)], &[(0, 9000)]).storage(&[(1, 512)])),
        ),
        (
            "no_cpus_left_beside_its_storage",
            two()
                .busy(1, 7.0)
                .with(process(1, "0-7", &[(0, 4.0)], &[(0, 900)]).storage(&[(1, 5000)])),
        ),
        (
            "storage_and_a_kubelet",
            two().with(
                process(1, "0-7", &[(0, 4.0)], &[(0, 900)])
                    .of_kubelet("/kubepods/a")
                    .storage(&[(1, 5000)]),
            ),
        ),
        (
            "wide_with_devices_of_both",
            two().with(
                process(1, "", &[(0, 7.0), (1, 7.0)], &[(0, 11_000), (1, 9000)]).devices("0-1"),
            ),
        ),
    ]
}

/// Hosts with other shapes than two nodes with CPUs and memory each.
fn shapes() -> Vec<(&'static str, HostLook)> {
    let offline = of([node(0, "0-7", 64, 32), node(1, "", 64, 32)], &[]);
    let offline = HostLook {
        topology: offline.topology.clone().with_cpus_offline(NodeSet::from_iter([NodeId(1)])),
        ..offline
    };
    let with_cxl = || {
        let nodes = [node(0, "0-7", 64, 32), node(1, "8-15", 64, 32), node(2, "", 256, 200)];
        of(nodes, &[(0, 2, 24), (1, 2, 24)])
    };
    let sparse = [node(0, "0-15", 64, 32), node(8, "16-31", 64, 32), node(252, "32-47", 64, 32)];
    vec![
        (
            "four_sockets",
            sockets(4)
                .with(process(1, "", &[(0, 1.0), (2, 1.0)], &[(0, 3000), (1, 3000), (3, 3000)]))
                .with(process(2, "24-31", &[(3, 5.0)], &[(0, 8000)])),
        ),
        ("eight_sockets", {
            let spread = |pid| {
                let used: Vec<_> = (0..8).map(|node| (node, 0.5)).collect();
                let resident: Vec<_> = (0..8).map(|node| (node, 1000)).collect();
                process(pid, "", &used, &resident)
            };
            (1..=10).fold(sockets(8), |host, pid| host.with(spread(pid)))
        }),
        (
            "clusters_fit_one",
            clusters().with(process(1, "", &[(0, 2.0), (2, 2.0)], &[(0, 4000), (3, 5000)])),
        ),
        (
            "clusters_fit_a_socket",
            clusters().with(process(1, "", &[(0, 5.0), (3, 5.0)], &[(1, 20_000), (3, 22_000)])),
        ),
        (
            "clusters_of_a_socket_are_near",
            clusters().with(process(1, "0-15", &[(0, 3.0), (1, 1.0)], &[(0, 2000), (1, 2000)])),
        ),
        (
            "memory_only_node",
            with_cxl().with(process(1, "0-7", &[(0, 4.0)], &[(1, 2000), (2, 30_000)])),
        ),
        (
            "memory_only_node_and_unpinned",
            with_cxl().with(process(1, "", &[(0, 2.0), (1, 2.0)], &[(1, 4000), (2, 30_000)])),
        ),
        (
            "memory_only_node_stays_allowed",
            with_cxl().with(
                process(1, "", &[(0, 2.0), (1, 2.0)], &[(0, 3000), (1, 4000), (2, 30_000)])
                    .cpuset("/tiered"),
            ),
        ),
        ("cpus_offline", offline.with(process(1, "0-7", &[(0, 4.0)], &[(0, 2000), (1, 6000)]))),
        (
            "sparse_node_ids",
            of(sparse, &[(0, 8, 16), (8, 252, 16), (0, 252, 32)])
                .with(process(1, "16-31", &[(8, 3.0)], &[(0, 1000), (252, 5000)]))
                .with(process(2, "0-31", &[(0, 2.0), (8, 2.0)], &[(0, 4000), (252, 4000)])),
        ),
    ]
}

/// Nodes that have not enough for all.
fn full() -> Vec<(&'static str, HostLook)> {
    let remote = |pid, cpus: &str, node, from, mib| {
        process(pid, cpus, &[(node, 2.0)], &[(from, mib)]).cpuset(&format!("/c{pid}"))
    };
    vec![
        (
            "no_room_for_all",
            sockets(2)
                .memory(0, |memory| memory.free_bytes = 7 * GIB)
                .with(remote(1, "0-7", 0, 1, 9000)),
        ),
        (
            "cache_is_room",
            sockets(2)
                .memory(0, |memory| (memory.free_bytes, memory.cache_bytes) = (GIB, 20 * GIB))
                .with(remote(1, "0-7", 0, 1, 9000)),
        ),
        (
            "no_room_but_where_it_is",
            sockets(2)
                .memory(0, |memory| memory.free_bytes = GIB)
                .with(remote(1, "0-7", 0, 1, 9000)),
        ),
        (
            "no_room_and_no_other_cpus",
            sockets(2)
                .memory(0, |memory| memory.free_bytes = GIB)
                .with(remote(1, "0-7", 0, 1, 9000).cpus_above("0-7")),
        ),
        (
            "each_in_the_others_way",
            sockets(2)
                .memory(0, |memory| memory.free_bytes = 10 * GIB)
                .memory(1, |memory| memory.free_bytes = 2 * GIB)
                .with(remote(1, "0-7", 0, 1, 8000))
                .with(remote(2, "8-15", 1, 0, 5000)),
        ),
        (
            "cpus_overcommitted",
            sockets(2)
                .busy(0, 2.0)
                .with(process(1, "0-7", &[(0, 3.0)], &[(0, 5000)]).cpuset("/a"))
                .with(process(2, "0-7", &[(0, 2.9)], &[(0, 3000)]).unit("b.service")),
        ),
        (
            "six_that_fit_and_one_that_does_not",
            (1..=7).fold(sockets(2), |host, pid| {
                host.with(process(pid, "", &[(0, 1.05), (1, 1.05)], &[(0, 2000), (1, 2000)]))
            }),
        ),
        (
            "node_without_cpus_to_spare",
            sockets(2).busy(1, 7.0).with(process(
                1,
                "",
                &[(0, 1.0), (1, 1.0)],
                &[(0, 1000), (1, 7000)],
            )),
        ),
    ]
}

/// Subjects whose CPUs a service manager, an administrator or the kubelet sets.
fn owned() -> Vec<(&'static str, HostLook)> {
    let spread = || process(1, "", &[(0, 1.0), (1, 1.0)], &[(0, 6000), (1, 2000)]);
    vec![
        ("unit", sockets(2).with(spread().unit("redis.service"))),
        ("cgroup", sockets(2).with(spread().cpuset("/batch job"))),
        ("kubelet_sets_cpus", sockets(2).with(spread().of_kubelet("/kubepods.slice/a"))),
        (
            "kubelet_and_remote",
            sockets(2).with(
                process(1, "8-11", &[(1, 2.0)], &[(0, 4000)]).of_kubelet("/kubepods.slice/b"),
            ),
        ),
        (
            "mems_forbid_the_home",
            sockets(2)
                .with(process(1, "0-7", &[(0, 4.0)], &[(1, 4000)]).unit("pg.service").mems("1")),
        ),
        (
            "mems_forbid_the_only_node_that_fits",
            sockets(2).busy(0, 6.0).with(spread().cpuset("/x").mems("0")),
        ),
        (
            "hugetlb_in_the_pool",
            sockets(2).pool(0, 1024, 600).pool(1, 512, 0).with(
                process(1, "0-7", &[(0, 4.0)], &[(0, 400)]).cpuset("/vm").hugetlb(&[(1, 1024)]),
            ),
        ),
        (
            "hugetlb_pool_on_the_wrong_node",
            sockets(2).pool(0, 0, 0).pool(1, 512, 0).with(
                process(1, "0-7", &[(0, 4.0)], &[(0, 400)]).cpuset("/vm").hugetlb(&[(1, 1024)]),
            ),
        ),
    ]
}

fn settings() -> Vec<(&'static str, HostLook)> {
    let pinned = |balancing, thp: &str| {
        let host = HostLook {
            numa_balancing: Some(balancing),
            thp_enabled: Some(thp.into()),
            ..sockets(2)
        };
        host.with(process(1, "0-7", &[(0, 4.0)], &[(0, 9000)]))
    };
    let one = pinned(1, "always").with(process(2, "", &[(0, 1.0)], &[(0, 400 * MIB / MIB)]));
    let part = HostLook { is_whole: false, ..pinned(1, "never") };
    vec![
        ("balancing_against_pins", pinned(1, "always")),
        ("balancing_with_tiering", pinned(3, "madvise")),
        ("balancing_helps_one", one),
        ("huge_pages_are_off", pinned(0, "never")),
        ("only_some_were_looked_at", part),
    ]
}
