use super::*;
use crate::fake::Fake;
use numaloc_core::{Node, NodeId, NodeMemory, Thread, Threads};
use std::time::Duration;

fn topology() -> Topology {
    let node = |id, cpus: &str| Node {
        id: NodeId(id),
        cpus: cpus.parse().expect("a list"),
        memory: NodeMemory::default(),
    };
    Topology::new([node(0, "0-3"), node(64, "1022-2000")], [])
}

fn read(fake: &Fake, pid: i32) -> Result<Process, Miss> {
    super::read(&fake.roots(), pid, &topology())
}

#[test]
fn cpus_are_the_online_ones_of_all_threads() {
    let fake = Fake::new();
    fake.process(100, "redis) S (x", &["0-1", "3-7", "0-1", "1500-4000"]);
    let process = read(&fake, 100).unwrap();
    assert_eq!(process.identity, Identity { pid: 100, start_time: 1100 });
    assert_eq!((process.comm.as_str(), process.swap_bytes), ("redis) S (x", 12 << 10));
    assert_eq!(process.page_table_bytes, 44 << 10);
    assert_eq!(process.cpus.to_string(), "0-1,3,1500-2000");
    assert_eq!(process.mems_allowed.to_string(), "0,64");
}

#[test]
fn threads_are_weighed_where_they_make_a_home_of_several_nodes() {
    let memory = NodeMemory { total_bytes: 1 << 30, ..NodeMemory::default() };
    let topology = topology();
    let nodes = topology.nodes().map(|node| Node { memory: memory.clone(), ..node.clone() });
    let topology = Topology::new(nodes.collect::<Vec<_>>(), []);
    let fake = Fake::new();
    let threads = |cpus: &[&str]| {
        fake.process(100, "app", cpus);
        fake.worked(100, 101, "worker", 250);
        super::read(&fake.roots(), 100, &topology).unwrap().threads
    };
    assert_eq!(threads(&["0-1", "2"]), [], "all on one node");
    assert_eq!(threads(&["0-1,1022", "0-1,1022"]), [], "all have the same");
    let found = threads(&["0-1", "0-1", "0-3,1022-4000"]);
    let ticks = |ticks: u64| Duration::from_secs(ticks) / procfs::ticks_per_second() as u32;
    let thread =
        |tid, comm: &str, time| Thread { tid, comm: comm.to_owned(), cpu_time: ticks(time) };
    let pinned = Threads {
        cpus: "0-1".parse().unwrap(),
        mems_allowed: None,
        count: 2,
        cpu_time: ticks(250),
        busiest: vec![thread(101, "worker", 250), thread(100, "app", 0)],
    };
    let free = Threads {
        cpus: "0-3,1022-2000".parse().unwrap(),
        mems_allowed: None,
        count: 1,
        cpu_time: ticks(0),
        busiest: vec![thread(102, "app", 0)],
    };
    assert_eq!(found, [pinned, free]);
    fake.end(100, 100);
    let found = super::read(&fake.roots(), 100, &topology).unwrap().threads;
    let counts: Vec<_> = found.iter().map(|group| (group.cpus.to_string(), group.count)).collect();
    assert_eq!(
        counts,
        [("0-1".into(), 1), ("0-3,1022-2000".into(), 1)],
        "what has ended runs nowhere"
    );
    // If there are many threads, only the busiest are kept by name.
    let many = vec!["0"; 40];
    fake.process(100, "app", &[&many[..], &["0-4000"]].concat());
    (100..140).for_each(|tid| fake.worked(100, tid, "w", tid as u64));
    let found = super::read(&fake.roots(), 100, &topology).unwrap().threads;
    let tids: Vec<_> = found[0].busiest.iter().map(|thread| thread.tid).collect();
    assert_eq!((found[0].count, tids), (40, (132..140).rev().collect()));
}

#[test]
fn threads_in_different_cpusets_are_read_by_the_nodes_that_these_allow() {
    let fake = Fake::new();
    fake.process(100, "app", &["0", "0", "0"]);
    fake.mems(100, 100, "64");
    fake.mems(100, 101, "0");
    fake.mems(100, 102, "0");
    let process = read(&fake, 100).unwrap();
    assert_eq!(process.mems_allowed.to_string(), "0,64", "that of any thread");
    let groups = process.threads.iter().map(|group| {
        let mems = group.mems_allowed.as_ref().map(ToString::to_string);
        (group.cpus.to_string(), mems, group.count)
    });
    let group = |mems: &str, count| ("0".to_owned(), Some(mems.to_owned()), count);
    assert_eq!(groups.collect::<Vec<_>>(), [group("0", 2), group("64", 1)]);
}

#[test]
fn a_thread_stands_for_its_process() {
    let fake = Fake::new();
    fake.process(100, "x", &["0", "1"]);
    assert_eq!(read(&fake, 101).unwrap(), read(&fake, 100).unwrap());
}

#[test]
fn io_uring_workers_do_not_count() {
    let fake = Fake::new();
    fake.process(100, "x", &["0", "0-3"]);
    fake.stat("proc/100/task/101", 101, "iou-wrk-100", 'S', PF_IO_WORKER);
    assert_eq!(read(&fake, 100).unwrap().cpus.to_string(), "0");
}

#[test]
fn names_that_are_not_text_are_accepted() {
    let fake = Fake::new();
    fake.process(100, "x", &["0"]);
    let path = fake.path("proc/100/status");
    let status = std::fs::read(&path).unwrap();
    std::fs::write(&path, [b"Name:\t\xff\xfe:\n".as_slice(), &status].concat()).unwrap();
    assert_eq!(read(&fake, 100).unwrap().cpus.to_string(), "0");
}

#[test]
fn a_process_without_memory_is_reported() {
    let fake = Fake::new();
    for pid in [-1, 0, 1, i32::MAX] {
        assert!(matches!(read(&fake, pid), Err(Miss::Gone)), "{pid}");
    }
    fake.process(2, "kthreadd", &["0"]);
    fake.stat("proc/2", 2, "kthreadd", 'S', PF_KTHREAD);
    assert!(matches!(read(&fake, 2), Err(Miss::KernelThread { comm }) if comm == "kthreadd"));
    fake.process(3, "z", &["0", "0"]);
    fake.end(3, 3);
    fake.end(3, 4);
    assert!(matches!(read(&fake, 3), Err(Miss::Ended { comm }) if comm == "ended"));
}

#[test]
fn a_process_lives_on_without_its_first_thread() {
    let fake = Fake::new();
    fake.process(100, "x", &["0-3", "1", "3"]);
    fake.end(100, 100);
    let process = read(&fake, 100).unwrap();
    assert_eq!(process.identity, Identity { pid: 100, start_time: 1100 });
    assert_eq!(process.cpus.to_string(), "1,3", "what has ended runs nowhere");
    fake.end(100, 102);
    assert_eq!(read(&fake, 101).unwrap().cpus.to_string(), "1");
}

#[test]
fn nonsense_is_an_error_with_the_path() {
    let fake = Fake::new();
    fake.process(100, "x", &["0-x"]);
    let Err(Miss::Failed(error)) = read(&fake, 100) else { panic!("taken") };
    assert!(error.to_string().contains("proc/100/task/100/status"), "{error}");
}

#[test]
fn refusals_are_distinguished() {
    let path = Path::new("/proc/1/maps");
    let io = |errno| ProcError::from(io::Error::from_raw_os_error(errno));
    for errno in [nix::libc::EACCES, nix::libc::EPERM] {
        let miss = miss(io(errno), path, "x", "maps");
        let error = miss.into_error(1).to_string();
        assert!(error.starts_with("no right to read maps of process 1 (x)"), "{error}");
    }
    assert!(matches!(miss(io(nix::libc::ESRCH), path, "x", "maps"), Miss::Gone));
    assert!(matches!(miss(io(nix::libc::EIO), path, "x", "maps"), Miss::Failed(_)));
}

#[test]
fn this_process_is_read() {
    let roots = Roots::default();
    let own = own_pid(&roots).unwrap();
    let topology = crate::nodes::topology::topology(&roots).unwrap();
    let process = super::read(&roots, own, &topology).unwrap();
    assert_eq!(process.identity.pid, own);
    assert!(!process.cpus.is_empty() && !process.mems_allowed.is_empty());
}

#[test]
fn fields_are_found_in_any_order() {
    let of = |status| {
        let Fields { has_memory, cpus, mems } = Fields::of(status);
        (has_memory, cpus, mems)
    };
    let lists = "Cpus_allowed_list:\t0-3\nMems_allowed_list:\t0\nnonvoluntary_ctxt_switches:\t1\n";
    let status = format!("Name:\tVmSize:\nVmSize:\t 4 kB\n{lists}");
    assert_eq!(of(&status), (true, Some("0-3"), Some("0")));
    let before = "Name:\tVmSize:\nMems_allowed_list:\t8\nCpus_allowed_list:\t7\nThreads:\t1\n";
    assert_eq!(of(before), (false, Some("7"), Some("8")));
    assert_eq!(of("Name:\tx\nCpus_allowed_list:\t7\n"), (false, Some("7"), None));
}
