use super::*;
use crate::fake::{Crowd, Fake, REMOTE, open_page_maps};
use numaloc_core::{
    HugePool, Mempolicy, Node, NodeMemory,
    advise::{CpuControl, Who},
};
use std::{
    fs,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

const PROCESSES: usize = 10_000;
const OPEN: usize = 64;

fn wanted(targets: &[Target]) -> LookRequest {
    LookRequest { targets: targets.to_vec(), min_bytes: 4096, interval: Duration::from_millis(1) }
}

#[test]
fn ten_thousand_processes_are_looked_at_with_few_descriptors() {
    let crowd = Crowd::new(PROCESSES);
    let roots = crowd.roots(OPEN);
    let (steps, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = || {
        if steps.fetch_add(1, Relaxed).is_multiple_of(100) {
            most.fetch_max(open_page_maps(), Relaxed);
        }
        false
    };
    let looked = look_on(&stop, &roots, Crowd::topology(), &wanted(&[Crowd::target()])).unwrap();
    // On a slow machine the time for page maps may end first. No subject is lost without a report.
    let seen = looked.look.subjects.len();
    assert!((1..=SUBJECTS).contains(&seen), "{seen}");
    assert_eq!(seen + looked.left_out, PROCESSES);
    assert_eq!((looked.unreadable, looked.ended), (0, 0));
    let resident = BTreeMap::from([(NodeId(0), REMOTE / 2), (NodeId(1), REMOTE)]);
    for subject in &looked.look.subjects {
        assert_eq!((&subject.resident, subject.exactness), (&resident, Exactness::Scanned));
        assert_eq!(subject.cpus.to_string(), "0-3");
    }
    let most = most.into_inner();
    assert!(most <= OPEN + 4, "{most}");
    assert!(!looked.look.is_whole);
}

fn two_nodes() -> Topology {
    two_nodes_with(&[])
}

/// Each with hugetlb pools of these sizes.
fn two_nodes_with(sizes: &[u64]) -> Topology {
    let pool = |&page_bytes: &u64| HugePool {
        page_bytes,
        total_pages: 8,
        free_pages: 0,
        unreserved_pages: 0,
    };
    let huge_pools = sizes.iter().map(pool).collect();
    let memory = NodeMemory { total_bytes: 1 << 40, huge_pools, ..NodeMemory::default() };
    let node = |id, cpus: &str| Node {
        id: NodeId(id),
        cpus: cpus.parse().unwrap(),
        memory: memory.clone(),
    };
    Topology::new([node(0, "0-3"), node(64, "4-7")], [])
}

/// A cgroup with these processes and 8 MiB on node 64.
fn group(fake: &Fake, path: &str, pids: &[(i32, &[&str])]) {
    let lines: String = pids.iter().map(|(pid, _)| format!("{pid}\n")).collect();
    fake.write(&format!("cgroup{path}/cgroup.procs"), &lines);
    fake.write(&format!("cgroup{path}/memory.numa_stat"), "anon N0=4096 N64=8388608\n");
    for (pid, threads) in pids {
        fake.process(*pid, "app", threads);
        fake.write(&format!("proc/{pid}/cgroup"), &format!("0::{path}\n"));
    }
}

fn seen(fake: &Fake, targets: &[Target]) -> Looked {
    fake.write("proc/stat", "");
    fake.write("sys/devices/system/node/online", "0\n");
    let looked = look_on(&|| false, &fake.roots(), two_nodes(), &wanted(targets));
    looked.expect("it can be read")
}

#[test]
fn a_cgroup_of_a_container_has_its_name() {
    let fake = Fake::new();
    fake.write("cgroup/cgroup.procs", "");
    let id = "d".repeat(64);
    let path = format!("/docker/{id}");
    group(&fake, &path, &[(100, &["0-1"])]);
    group(&fake, "/a", &[(200, &["0-1"])]);
    let config = format!("var/lib/docker/containers/{id}/config.v2.json");
    fake.write(&config, r#"{"Name":"/web"}"#);
    let looked = seen(&fake, &[]);
    let named = looked.look.subjects.iter().map(|subject| (subject.who.clone(), &*subject.name));
    let named: Vec<_> = named.collect();
    assert_eq!(named.len(), 2);
    for (path, name) in [(path.as_str(), "web"), ("/a", "/a")] {
        assert!(named.contains(&(Who::Cgroup(path.to_owned()), name)), "{named:?}");
    }
}

#[test]
fn a_cgroup_is_one_subject_by_what_the_kernel_counts() {
    let fake = Fake::new();
    fake.write("cgroup/cgroup.procs", "");
    group(&fake, "/a", &[(100, &["0-1"]), (200, &["0-1"])]);
    fake.write("cgroup/a/cpuset.cpus", "\n");
    fake.write("cgroup/a/cpuset.mems", "\n");
    fake.write("cgroup/cpuset.cpus.effective", "0-7\n");
    fake.write("cgroup/cpuset.mems.effective", "0,64\n");
    fake.write("proc/100/numa_maps", "10000 bind:64 file=/bin/app mapped=4 N0=4\n");
    let looked = seen(&fake, &[]);
    let [subject] = &looked.look.subjects[..] else { panic!("{looked:?}") };
    assert_eq!(subject.who, Who::Cgroup("/a".into()));
    let directory = fake.path("cgroup/a").display().to_string();
    assert_eq!(subject.handle, CpuControl::Cpuset(directory.clone()));
    assert_eq!(subject.mems_directory, Some(directory));
    assert_eq!(
        (subject.cpus.to_string(), subject.cpus_above.to_string()),
        ("0-1".into(), "0-7".into())
    );
    assert_eq!(subject.mems.to_string(), "0,64");
    assert_eq!(subject.policy, Mempolicy::Bind("64".parse().unwrap()));
    assert_eq!(subject.resident, [(NodeId(0), 4096), (NodeId(64), 8 << 20)].into());
    assert_eq!(subject.exactness, Exactness::Counted);
    assert!(looked.look.is_whole);
}

#[test]
fn who_sets_the_cpus_of_a_cgroup_is_seen() {
    let handle = |path: &str| {
        let fake = Fake::new();
        fs::create_dir_all(fake.path("run/systemd/system")).unwrap();
        fake.write("cgroup/cgroup.procs", "");
        group(&fake, path, &[(100, &["0-1"])]);
        let looked = seen(&fake, &[]);
        let [subject] = &looked.look.subjects[..] else { panic!("{looked:?}") };
        match &subject.handle {
            CpuControl::Members(_) => CpuControl::Members(String::new()),
            handle => handle.clone(),
        }
    };
    assert_eq!(handle("/system.slice/redis.service"), CpuControl::Unit("redis.service".into()));
    assert_eq!(handle("/kubepods.slice/pod1/crio-2.scope"), CpuControl::Foreign);
    assert_eq!(handle("/user.slice/user@7.service/app.scope"), CpuControl::Members(String::new()));
    assert_eq!(handle("/batch"), CpuControl::Members(String::new()));
    // Units of managers inside of containers, which may have the names of the host's.
    for path in [
        "/lxc.payload.c1/system.slice/sshd.service",
        "/machine.slice/systemd-nspawn@c1.service/payload/system.slice/cron.service",
        "/system.slice/docker-4f5e.scope/init.scope",
    ] {
        assert_eq!(handle(path), CpuControl::Members(String::new()), "{path}");
    }
    let nested = "/machine.slice/machine-qemu.slice/vm.scope";
    assert_eq!(handle(nested), CpuControl::Unit("vm.scope".into()));
}

#[test]
fn processes_with_different_pins_are_not_taken_together() {
    let fake = Fake::new();
    fake.write("cgroup/cgroup.procs", "");
    group(&fake, "/a", &[(100, &["0-1"]), (200, &["4-5"])]);
    // These fake processes map nothing, so that nothing of them is left by themselves.
    let looked = seen(&fake, &[]);
    assert!(looked.look.subjects.is_empty(), "{looked:?}");
}

/// Each process of a host with v1's memory controller is looked at, as if it had no cgroup.
#[test]
fn with_cgroup_v1_processes_are_looked_at_one_by_one() {
    const V1: &str = "total=2 N0=1 N64=1\nanon=2 N0=1 N64=1\nhierarchical_total=2 N0=1 N64=1\n";
    for unified in [None, Some("unified")] {
        let fake = Fake::new();
        fake.process(100, "app", &["0-1"]);
        fake.process(200, "hidden", &["0-1"]);
        fs::remove_file(fake.path("proc/200/maps")).expect("it is there");
        std::os::unix::fs::symlink("maps", fake.path("proc/200/maps")).expect("a link to itself");
        frames_are_seen(&fake);
        fake.write("proc/100/maps", "100000000-100100000 rw-p 00000000 00:00 0\n");
        entries(&fake, "proc/100/pagemap", 0x10_0000, std::iter::repeat_n(64, 256));
        for hierarchy in ["memory", "cpuset"].into_iter().chain(unified) {
            fake.write(&format!("cgroup/{hierarchy}/cgroup.procs"), "");
            fake.write(&format!("cgroup/{hierarchy}/app/cgroup.procs"), "100\n200\n");
        }
        fake.write("cgroup/memory/memory.numa_stat", V1);
        fake.write("cgroup/memory/app/memory.numa_stat", V1);
        fake.write("proc/100/cgroup", "2:memory:/app\n1:cpuset:/app\n0::/app\n");
        let look = |targets: &[Target]| {
            let looked = look_on(&|| false, &fake.roots(), two_nodes(), &wanted(targets));
            let looked = looked.expect("it can be read");
            let [subject] = &looked.look.subjects[..] else { panic!("{looked:?}") };
            assert!(matches!(&subject.who, Who::Process(id) if id.pid == 100), "{subject:?}");
            assert_eq!(looked.unreadable, 1);
        };
        look(&[]);
        look(&[Target::Cgroup("/".into())]);
        look(&[Target::Cgroup("/app".into())]);
    }
}

#[test]
fn named_subjects_that_do_not_exist_are_reported() {
    let fake = Fake::new();
    fake.write("cgroup/cgroup.procs", "");
    group(&fake, "/a", &[(100, &["0-1"])]);
    let gone = Target::Cgroup("/gone".into());
    let looked = seen(&fake, &[gone.clone(), Target::Cgroup("/a".into())]);
    assert_eq!((looked.missing.len(), looked.missing[0].target), (1, 0));
    assert_eq!(looked.look.subjects.len(), 1);
    let refused = look_on(&|| false, &fake.roots(), two_nodes(), &wanted(&[gone, Target::Pid(7)]));
    assert!(matches!(refused, Err(Error::NoCgroup { .. })), "{refused:?}");
    let stopped = look_on(&|| true, &fake.roots(), two_nodes(), &wanted(&[]));
    assert!(matches!(stopped, Err(Error::Stopped)));
}

/// Writes entries of pages that are present and that no other process maps, from this page on.
fn entries(fake: &Fake, path: &str, page: u64, frames: impl Iterator<Item = u64>) {
    const PRESENT_EXCLUSIVE: u64 = 1 << 63 | 1 << 56;
    let file =
        fs::OpenOptions::new().create(true).truncate(false).write(true).open(fake.path(path));
    let bytes: Vec<u8> =
        frames.flat_map(|frame| (PRESENT_EXCLUSIVE | frame).to_ne_bytes()).collect();
    file.expect("a file").write_all_at(&bytes, page * 8).expect("room for a sparse file");
}

/// Frames of a block of 128 MiB each: block 0 is on node 0, block 1 on node 64.
fn frames_are_seen(fake: &Fake) {
    fake.write("proc/stat", "");
    fake.write("sys/devices/system/node/online", "0,64\n");
    fake.write("sys/devices/system/memory/block_size_bytes", "8000000\n");
    for block in ["node0/memory0", "node64/memory1"] {
        let block = format!("sys/devices/system/node/{block}");
        fs::create_dir_all(fake.path(&block)).expect("a directory");
    }
    // This process sees frames: a page of its own has one.
    fake.write("proc/self/status", "Mems_allowed_list:\t0,64\n");
    let local = 0u8;
    let here = std::hint::black_box(&raw const local) as u64 / 4096;
    entries(fake, "proc/self/pagemap", here - 256, (1..).take(512));
}

#[test]
fn private_hugetlb_memory_of_a_process_is_seen_where_pools_have_one_size() {
    let fake = Fake::new();
    fake.process(100, "java", &["0-1"]);
    frames_are_seen(&fake);
    let status = fs::read_to_string(fake.path("proc/100/status")).expect("it is there");
    fake.write("proc/100/status", &format!("{status}HugetlbPages:\t    8192 kB\n"));
    let maps = "100000000-100100000 rw-p 00000000 00:00 0\n\
        200000000-200800000 rw-p 00000000 00:0f 77 /anon_hugepage (deleted)\n\
        300000000-300800000 rw-s 00000000 00:0f 78 /anon_hugepage (deleted)\n";
    fake.write("proc/100/maps", maps);
    entries(&fake, "proc/100/pagemap", 0x10_0000, std::iter::repeat_n(64, 256));
    // Four pages of 2 MiB: the first one is on node 0, the others on node 64. Shared memory is not looked at.
    let frame = |page: u64| if page < 512 { 64 } else { (1 << 15) + 64 };
    entries(&fake, "proc/100/pagemap", 0x20_0000, (0..2048).map(frame));
    let hugetlb = |sizes: &[u64]| {
        let (roots, topology) = (fake.roots(), two_nodes_with(sizes));
        let looked = look_on(&|| false, &roots, topology, &wanted(&[Target::Pid(100)]));
        let looked = looked.expect("it can be read");
        let [subject] = &looked.look.subjects[..] else { panic!("{looked:?}") };
        assert!(subject.resident.contains_key(&NodeId(0)), "{subject:?}");
        subject.hugetlb.clone()
    };
    let by_node: BTreeMap<NodeId, u64> = [(NodeId(0), 2 << 20), (NodeId(64), 6 << 20)].into();
    assert_eq!(hugetlb(&[2 << 20]), [(2 << 20, by_node)].into());
    assert_eq!(hugetlb(&[2 << 20, 1 << 30]), BTreeMap::new());
    assert_eq!(hugetlb(&[]), BTreeMap::new());
}

#[test]
fn of_large_memory_a_part_is_read_and_scaled() {
    let fake = Fake::new();
    fake.process(100, "large", &["0-1"]);
    frames_are_seen(&fake);
    // 2 GiB: the first quarter is on node 0, the rest on node 64.
    const PAGES: u64 = 1 << 19;
    fake.write("proc/100/maps", "100000000-180000000 rw-p 00000000 00:00 0\n");
    let frame = |page: u64| if page < PAGES / 4 { 64 } else { (1 << 15) + 64 };
    entries(&fake, "proc/100/pagemap", 0x10_0000, (0..PAGES).map(frame));
    let looked = look_on(&|| false, &fake.roots(), two_nodes(), &wanted(&[Target::Pid(100)]));
    let looked = looked.expect("it can be read");
    let [subject] = &looked.look.subjects[..] else { panic!("{looked:?}") };
    assert_eq!(subject.exactness, Exactness::Sampled(PAGES / 2));
    // Its status says 48 KiB.
    assert_eq!(subject.resident, [(NodeId(0), 12 << 10), (NodeId(64), 36 << 10)].into());
    assert_eq!(subject.name, "large");
}
