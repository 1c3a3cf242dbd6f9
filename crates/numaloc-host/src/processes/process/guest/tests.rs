use super::*;

/// vCPUs of the guest, each with a thread on these CPUs.
fn vcpus(cpus: &[&str]) -> BTreeMap<u32, Threads> {
    let thread = |cpus: &&str| Threads {
        cpus: cpus.parse().expect("a list"),
        count: 1,
        ..Threads::default()
    };
    (0..).zip(cpus.iter().map(thread)).collect()
}

fn parsed(words: &[&str], cpus: &[&str]) -> Option<Guest> {
    parse(&words.iter().map(|word| format!("{word}\0")).collect::<String>(), vcpus(cpus))
}

fn memory(id: &str, mib: u64, backing: Backing, cell: Option<usize>) -> GuestMemory {
    GuestMemory { id: id.to_owned(), bytes: Some(mib << 20), backing, cell }
}

/// The relevant part of a command line of libvirt 9.0 (Debian 12), for `<cell id='0' cpus='0,2' memory='32'
/// unit='MiB'/>` and memfds.
#[test]
fn what_libvirt_starts_is_understood() {
    let words = [
        "/usr/bin/qemu-system-x86_64",
        "-name",
        "guest=cells,debug-threads=on",
        "-object",
        r#"{"qom-type":"secret","id":"masterKey0","format":"raw","file":"/var/lib/libvirt/master-key.aes"}"#,
        "-smp",
        "4,sockets=4,cores=1,threads=1",
        "-object",
        r#"{"qom-type":"memory-backend-memfd","id":"ram-node0","share":true,"x-use-canonical-path-for-ramblock-id":false,"size":33554432}"#,
        "-numa",
        "node,nodeid=0,cpus=0,cpus=2,memdev=ram-node0",
        "-object",
        r#"{"qom-type":"memory-backend-file","id":"ram-node1","mem-path":"/dev/hugepages/libvirt/qemu/1-cells","prealloc":true,"size":33554432,"host-nodes":[1],"policy":"bind"}"#,
        "-numa",
        "node,nodeid=1,cpus=1,cpus=3,memdev=ram-node1",
        "-object",
        r#"{"qom-type":"memory-backend-ram","id":"memdimm0","size":67108864}"#,
        "-device",
        r#"{"driver":"pc-dimm","node":1,"memdev":"memdimm0","id":"dimm0","slot":0}"#,
    ];
    let guest = parsed(&words, &["0", "4", "1", "5"]).expect("two cells");
    let seen = guest.cells.iter().map(|cell| (cell.id, cell.cpus.to_string(), cell.threads.len()));
    assert_eq!(seen.collect::<Vec<_>>(), [(0, "0-1".to_owned(), 2), (1, "4-5".to_owned(), 2)]);
    let directory = Backing::File("/dev/hugepages/libvirt/qemu/1-cells".to_owned());
    let expected = [
        memory("ram-node0", 32, Backing::Memfd, Some(0)),
        memory("ram-node1", 32, directory, Some(1)),
        memory("memdimm0", 64, Backing::Anonymous, Some(1)),
    ];
    assert_eq!(guest.memory, expected);
    assert_eq!(guest.memory_of(1).collect::<Vec<_>>(), ["ram-node1", "memdimm0"]);
}

/// `numa: 1` with two sockets, as Proxmox VE starts it; and with huge pages.
#[test]
fn what_proxmox_starts_is_understood() {
    let words = [
        "/usr/bin/kvm",
        "-id",
        "100",
        "-name",
        "db,debug-threads=on",
        "-m",
        "2048",
        "-object",
        "memory-backend-ram,id=ram-node0,size=1024M",
        "-numa",
        "node,nodeid=0,cpus=0-1,memdev=ram-node0",
        "-object",
        "memory-backend-file,id=ram-node1,size=1024M,mem-path=/run/hugepages/kvm/2048kB,share=on,prealloc=yes",
        "-numa",
        "node,nodeid=1,cpus=2-3,memdev=ram-node1",
    ];
    let guest = parsed(&words, &["0", "1", "4-5", "4-5"]).expect("two cells");
    let cpus = guest.cells.iter().map(|cell| cell.cpus.to_string());
    assert_eq!(cpus.collect::<Vec<_>>(), ["0-1", "4-5"]);
    let huge = Backing::File("/run/hugepages/kvm/2048kB".to_owned());
    let expected = [
        memory("ram-node0", 1024, Backing::Anonymous, Some(0)),
        memory("ram-node1", 1024, huge, Some(1)),
    ];
    assert_eq!(guest.memory, expected);
}

#[test]
fn cells_without_vcpus_or_memory_of_their_own_are_known_as_such() {
    let object = "memory-backend-ram,id=a,,b,share=yes,size=32M";
    // vCPUs 1 and 2 are not plugged in; those of cell 5 are named in a way that is not read.
    let words = [
        "q",
        "--object",
        object,
        "--numa",
        "node,cpus=0-2",
        "-numa",
        "node,nodeid=5,memdev=a,,b",
        "-numa",
        "cpu,node-id=5,socket-id=1",
    ];
    let guest = parsed(&words, &["7"]).expect("memory of a cell");
    let seen = guest.cells.iter().map(|cell| (cell.id, cell.cpus.to_string()));
    assert_eq!(seen.collect::<Vec<_>>(), [(0, "7".to_owned()), (5, String::new())]);
    assert_eq!(guest.memory, [memory("a,b", 32, Backing::SharedAnonymous, Some(1))]);
}

#[test]
fn a_command_line_without_memory_of_cells_has_no_cells() {
    let object = "memory-backend-ram,id=r,size=32M";
    for words in [
        &["qemu", "-m", "64"][..],
        &["qemu", "-numa", "node,nodeid=0,cpus=0,mem=32"],
        &["qemu", "-object", object],
        &["qemu", "-object", object, "-numa", "node,cpus=0,memdev=other"],
        // The memory of two cells, a broken list of CPUs, and an argument that is missing.
        &["qemu", "-object", object, "-numa", "node,cpus=0,memdev=r", "-numa", "node,memdev=r"],
        &["qemu", "-object", object, "-numa", "node,cpus=0-99999999999,memdev=r"],
        &["qemu", "-object", object, "-numa", "node,cpus=3-1,memdev=r"],
        &["qemu", "-object", object, "-numa", "node,cpus=,,0,memdev=r,=,,,"],
        &["qemu", "-object", object, "-numa"],
        &["qemu", "-object", "{\"qom-type\":", "-numa", "node,cpus=0,memdev=r"],
    ] {
        assert_eq!(parsed(words, &["0"]), None, "{words:?}");
    }
    let mut many = vec!["qemu", "-object", object, "-numa", "node,cpus=0,memdev=r"];
    many.extend([["-numa", "node"]; MOST_CELLS].concat());
    assert_eq!(parsed(&many, &["0"]), None, "more than QEMU takes");
    assert!(parsed(&many[..many.len() - 2], &["0"]).is_some());
    let mut many = vec!["qemu", "-object", object, "-numa", "node,cpus=0,memdev=r"];
    many.extend([["-object", "memory-backend-ram,id=x"]; MOST_MEMORY].concat());
    assert_eq!(parsed(&many, &["0"]), None, "more than QEMU takes");
    assert!(parsed(&many[..many.len() - 2], &["0"]).is_some());
}

/// Whatever a process says of itself: it is looked at by programs with many rights.
#[test]
fn long_and_odd_command_lines_take_no_time() {
    let lists = "cpus=0-4294967295,".repeat(60_000);
    let cells = format!("node,{lists}memdev=r");
    let words = ["qemu", "-object", "memory-backend-ram,id=r,size=32M", "-numa", &*cells];
    let guest = parsed(&words, &["0", "1"]).expect("a cell");
    assert_eq!(
        (guest.cells[0].threads.len(), guest.cells[0].cpus.to_string()),
        (2, "0-1".to_owned())
    );
    for word in
        ["", ",", ",,", "=", "{}", "{", "[]", "{\"id\":[1]}", "\u{e9},id=\u{e9}", "node,nodeid=-1"]
    {
        for option in ["-object", "-numa", "-device"] {
            assert_eq!(parsed(&["qemu", option, word], &["0"]), None, "{option} {word}");
        }
    }
}

#[test]
fn memory_whose_kind_or_length_is_not_known_keeps_its_place() {
    let words = [
        "qemu",
        "-object",
        "memory-backend-shm,id=a,size=1.x",
        "-object",
        "memory-backend-file,id=b,size=2G",
        "-numa",
        "node,cpus=0,memdev=a",
    ];
    let guest = parsed(&words, &["0"]).expect("memory of a cell");
    let seen = guest.memory.iter().map(|memory| (&memory.backing, memory.bytes, memory.cell));
    let expected = [(&Backing::Other, None, Some(0)), (&Backing::Other, Some(2 << 30), None)];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}
