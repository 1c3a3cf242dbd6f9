//! Shared memory of several homes.

use super::*;

/// Processes 0 and 1 with CPUs of nodes 0 and 1, and process 2 of node 0.
fn sides(bytes: [u64; 2], mappers: &[usize], change: impl Fn(Extent) -> Extent) -> Vec<OneSided> {
    let machine = machine(&[0, 1, 2], &[]);
    let processes = ["0-1", "2-3", "0"].map(|cpus| process(cpus, "0-2"));
    let mappings = mappers.iter().map(|&process| Mapping { process, start: 0 }).collect();
    let window = extent(0, &[(0, bytes[0]), (1, bytes[1])]);
    let window = Extent { mappings, kind: Kind::Shmem, name: "window".into(), ..window };
    let extents = vec![change(window)];
    plan_all(&machine, &processes, |_| extents, &Options::default()).one_sided
}

#[test]
fn what_one_process_has_filled_and_those_of_another_node_use_is_one_sided() {
    let plain = |extent| extent;
    let found = sides([100 * MIB, 0], &[0, 1, 2], plain);
    let expected = OneSided {
        name: "window".into(),
        home: nodes("0-1"),
        node: NodeId(0),
        bytes: 100 * MIB,
        total_bytes: 100 * MIB,
        processes: 3,
    };
    assert_eq!(found, [expected]);
    assert_eq!(sides([10 * MIB, 90 * MIB], &[0, 1], plain)[0].node, NodeId(1));
    assert!(sides([80 * MIB, 20 * MIB], &[0, 1], plain).is_empty(), "there is some on both");
    assert!(sides([15 * MIB, 0], &[0, 1], plain).is_empty(), "it is little");
    assert!(sides([100 * MIB, 0], &[0, 2], plain).is_empty(), "they have one home");
    assert!(sides([100 * MIB, 0], &[0, 0], plain).is_empty(), "it is one process");
    let library = |extent| Extent { kind: Kind::File, ..extent };
    assert!(sides([100 * MIB, 0], &[0, 1], library).is_empty(), "files are shared by all");
}
