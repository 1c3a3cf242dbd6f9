use super::*;
use crate::machine::guest::GuestCell;

const MIB: u64 = 1 << 20;
const STACK: MappedRange<'_> = MappedRange {
    start: 0x7ffd_27a9_b000,
    bytes: 132 << 10,
    name: "[stack]",
    kind: Kind::Stack,
    shared: false,
};

fn guest(backing: &Backing, mib: &[u64]) -> Guest {
    let memory = mib.iter().enumerate().map(|(cell, mib)| GuestMemory {
        id: format!("ram-node{cell}"),
        bytes: Some(mib * MIB),
        backing: backing.clone(),
        cell: Some(cell),
    });
    let cells = (0..mib.len() as u32).map(|id| GuestCell { id, ..GuestCell::default() });
    Guest { cells: cells.collect(), memory: memory.collect() }
}

fn anonymous(start: u64, mib: u64) -> MappedRange<'static> {
    MappedRange { start, bytes: mib * MIB, name: "", kind: Kind::Anonymous, shared: false }
}

fn memfd(start: u64, mib: u64) -> MappedRange<'static> {
    let name = "/memfd:memory-backend-memfd (deleted)";
    MappedRange { name, kind: Kind::Shmem, shared: true, ..anonymous(start, mib) }
}

/// As QEMU 7.2 was seen to have three backends of 32 MiB on a kernel 6.18.
const HIGH: [u64; 3] = [0x7f49_87c0_0000, 0x7f49_89e0_0000, 0x7f49_d060_0000];

#[test]
fn what_differs_in_length_is_known_by_it() {
    for (backing, mapping) in
        [(Backing::Anonymous, anonymous as fn(u64, u64) -> _), (Backing::Memfd, memfd)]
    {
        let guest = guest(&backing, &[32, 48]);
        let mapped = [mapping(HIGH[2], 48), mapping(HIGH[0], 32), mapping(HIGH[1], 16)];
        assert_eq!(cells(&guest, &mapped), [Some(1), Some(0), None], "{backing:?}, any layout");
    }
}

#[test]
fn of_equal_lengths_the_first_is_the_highest() {
    for (backing, mapping) in
        [(Backing::Anonymous, anonymous as fn(u64, u64) -> _), (Backing::Memfd, memfd)]
    {
        let guest = guest(&backing, &[32, 32, 32]);
        let at = |start| mapping(start, 32);
        let mapped = [at(HIGH[0]), at(HIGH[1]), at(HIGH[2]), STACK];
        assert_eq!(cells(&guest, &mapped), [Some(2), Some(1), Some(0), None], "{backing:?}");
        // Without a limit of the stack, a third of the way up; and where the stack is not known.
        let low = [at(0x2aaa_ab00_0000), at(0x2aaa_ad00_1000), at(0x2aaa_af00_2000), STACK];
        assert_eq!(cells(&guest, &low), [None; 4], "{backing:?}");
        assert_eq!(cells(&guest, &mapped[..3]), [None; 3], "{backing:?}");
        // Something else has the same length, or one of them is not there in one piece.
        let more = [mapped[0], mapped[1], mapped[2], at(0x7f40_0000_0000), STACK];
        assert_eq!(cells(&guest, &more), [None; 5], "{backing:?}");
        assert_eq!(cells(&guest, &mapped[1..]), [None; 3], "{backing:?}");
    }
}

#[test]
fn memory_of_no_cell_has_its_place_in_the_order() {
    let mut guest = guest(&Backing::Anonymous, &[32, 32, 32]);
    guest.memory[1].cell = None;
    let mapped = [anonymous(HIGH[0], 32), anonymous(HIGH[1], 32), anonymous(HIGH[2], 32), STACK];
    assert_eq!(cells(&guest, &mapped), [Some(2), None, Some(0), None]);
    guest.memory[1].bytes = None;
    assert_eq!(cells(&guest, &mapped), [None; 4], "it could be any of them");
    guest.memory[1].backing = Backing::Memfd;
    assert_eq!(cells(&guest, &mapped[1..]), [Some(2), Some(0), None]);
}

#[test]
fn files_are_known_by_their_names() {
    let mut guest = guest(&Backing::File("/dev/hugepages/libvirt/qemu/1-db".to_owned()), &[32, 32]);
    guest.memory[1].backing = Backing::File("/var/lib/libvirt/qemu/ram/1-db/ram-node1".to_owned());
    let file = |name| MappedRange { name, ..memfd(0x2aaa_ab00_0000, 8) };
    let mapped = [
        file("/libvirt/qemu/1-db/qemu_back_mem._objects_ram-node0.s77DtK (deleted)"),
        file("/dev/hugepages/libvirt/qemu/1-db/qemu_back_mem.ram-node0.s77DtK"),
        file("/dev/hugepages/libvirt/qemu/1-db/qemu_back_mem.ram-node01.s77DtK"),
        file("/dev/hugepages/libvirt/qemu/1-db/qemu_back_mem.ram-node0.x.s77Dt"),
        file("/var/lib/libvirt/qemu/ram/1-db/ram-node1"),
        file("/var/lib/libvirt/qemu/ram/2-db/ram-node1"),
    ];
    assert_eq!(cells(&guest, &mapped), [Some(0), Some(0), None, None, Some(1), None]);
    guest.memory[0].backing = guest.memory[1].backing.clone();
    assert_eq!(cells(&guest, &mapped)[4], None, "two backends have it");
}

#[test]
fn shared_anonymous_memory_is_not_private_memory() {
    let guest = guest(&Backing::SharedAnonymous, &[32]);
    let zero = MappedRange { name: "/dev/zero (deleted)", ..memfd(HIGH[0], 32) };
    let mapped = [anonymous(HIGH[1], 32), zero, memfd(HIGH[2], 32)];
    assert_eq!(cells(&guest, &mapped), [None, Some(0), None]);
}
