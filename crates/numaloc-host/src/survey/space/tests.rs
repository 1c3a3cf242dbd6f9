use super::*;
use crate::{OpenFiles, fake::Fake};
use numaloc_core::{CpuSet, NodeId, NodeSet, Threads};
use std::fs;

/// Opens a process of a fake host.
pub(super) fn open(fake: &Fake, pid: i32) -> Option<AddressSpace> {
    AddressSpace::open(&Arc::new(fake.roots()), process(fake, pid)).unwrap()
}

/// A process of a fake host, with the CPUs of its first thread.
fn process(fake: &Fake, pid: i32) -> Process {
    let status = fs::read_to_string(fake.path(&format!("proc/{pid}/status"))).unwrap();
    let cpus: CpuSet =
        crate::files::read::field(&status, "Cpus_allowed_list").unwrap().parse().unwrap();
    let identity = Identity { pid, start_time: 1000 + pid as u64 };
    let (mems_allowed, device_nodes) = (NodeSet::new(), NodeSet::new());
    Process {
        identity,
        comm: "x".into(),
        cpus,
        threads: Vec::new(),
        mems_allowed,
        device_nodes,
        swap_bytes: 0,
        page_table_bytes: 0,
        guest: None,
    }
}

#[test]
fn a_thread_that_lives_stands_for_the_process() {
    let fake = Fake::new();
    fake.process(100, "x", &["0", "0"]);
    let space = open(&fake, 100).unwrap();
    assert!(space.is_alive());
    assert_eq!((space.pid(), space.tid()), (100, 100));
    fake.end(100, 100);
    assert!(space.is_alive());
    assert_eq!((space.pid(), space.tid()), (100, 101));
    assert_eq!(space.path("maps"), fake.path("proc/101/maps"));
    fake.end(100, 101);
    assert!(!space.is_alive());
}

#[test]
fn another_program_is_another_memory() {
    let fake = Fake::new();
    fake.process(100, "x", &["0"]);
    let space = open(&fake, 100).unwrap();
    fake.exec(100);
    assert!(!space.is_alive());
    assert!(open(&fake, 100).unwrap().is_alive());
}

#[test]
fn memory_lives_as_long_as_one_who_has_it() {
    let fake = Fake::new();
    fake.process(100, "x", &["0"]);
    fake.process(200, "x", &["0"]);
    let mut space = open(&fake, 100).unwrap();
    space.holders.extend(open(&fake, 200).unwrap().holders);
    fake.exec(100);
    assert!(space.is_alive());
    assert_eq!((space.pid(), space.tid()), (100, 200));
    fake.remove(200);
    assert!(!space.is_alive());
}

#[test]
fn what_is_gone_or_another_is_not_opened() {
    let fake = Fake::new();
    fake.process(100, "x", &["0"]);
    let stat = |start_time| fake.stat_at("proc/100", 100, "x", ('S', 0), start_time);
    stat(7);
    assert!(open(&fake, 100).is_none());
    stat(1100);
    assert!(open(&fake, 100).is_some());
    fake.end(100, 100);
    assert!(open(&fake, 100).is_none());
}

#[test]
fn a_page_map_is_opened_again_for_the_same_memory_alone() {
    let fake = Fake::new();
    let roots = Roots { open_files: OpenFiles::at_most(1), ..fake.roots() };
    let roots = Arc::new(roots);
    for pid in [100, 200, 300] {
        fake.process(pid, "x", &["0"]);
    }
    let open = |pid| AddressSpace::open(&roots, process(&fake, pid)).unwrap().unwrap();
    let spaces = [100, 200, 300].map(open);
    for _ in 0..2 {
        spaces.iter().for_each(|space| drop(space.pagemap().unwrap()));
    }
    fake.exec(100);
    assert!(is_gone(&spaces[0].pagemap().unwrap_err()));
    spaces[1].pagemap().unwrap();
    // Without random layouts it cannot be proved that the memory is the same.
    fake.write("proc/sys/kernel/randomize_va_space", "0");
    let spaces = [200, 300].map(open);
    spaces[1].pagemap().unwrap();
    assert!(is_gone(&spaces[0].pagemap().unwrap_err()));
}

#[test]
fn memory_that_has_gone_shows_in_its_page_map() {
    let fake = Fake::new();
    fake.process(100, "x", &["0"]);
    let space = open(&fake, 100).unwrap();
    fake.write("proc/100/pagemap", "");
    assert!(!space.is_alive());
}

/// std::process::Command returns when the exec has let go of the old memory (vfork), which is before the new memory has its layout.
#[test]
fn a_process_is_opened_while_it_begins_another_program() {
    let roots = Arc::new(Roots::default());
    for attempt in 0..500 {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("coreutils");
        let pid = child.id() as i32;
        let start_time = thread::start_time(&roots, pid).expect("it is not waited for");
        let cpus = CpuSet::new();
        let (threads, mems_allowed) = (Vec::new(), NodeSet::new());
        let identity = Identity { pid, start_time };
        let (comm, device_nodes) = ("sleep".into(), NodeSet::new());
        let process = Process {
            identity,
            comm,
            cpus,
            threads,
            mems_allowed,
            device_nodes,
            swap_bytes: 0,
            page_table_bytes: 0,
            guest: None,
        };
        let opened = AddressSpace::open(&roots, process);
        child.kill().and_then(|()| child.wait()).expect("a child");
        assert!(opened.expect("readable").is_some(), "attempt {attempt}");
    }
}

#[test]
fn what_is_gone_is_opened_again_for_as_long_as_its_process_is_there() {
    let tries = |is_there: bool, needed: u32, error: i32| {
        let tries = std::cell::Cell::new(0);
        let opened = settled(
            || is_there,
            || {
                tries.set(tries.get() + 1);
                if tries.get() < needed { Err(io::Error::from_raw_os_error(error)) } else { Ok(()) }
            },
        );
        (opened.is_ok(), tries.get())
    };
    assert_eq!(tries(true, 3, ESRCH), (true, 3));
    assert_eq!(tries(false, 3, ESRCH), (false, 1));
    assert_eq!(tries(true, u32::MAX, ESRCH), (false, ATTEMPTS));
    assert_eq!(tries(true, 3, nix::libc::EACCES), (false, 1));
}

#[test]
fn a_call_names_a_thread_that_may_have_memory_on_the_target() {
    let fake = Fake::new();
    fake.process(100, "x", &["0", "0", "0"]);
    fake.mems(100, 100, "1");
    fake.mems(100, 101, "0");
    fake.mems(100, 102, "0,2");
    let mut space = open(&fake, 100).unwrap();
    let tids = |space: &AddressSpace| [0, 1, 2, 3].map(|node| space.tid_for(NodeId(node)));
    assert_eq!(tids(&space), [100; 4], "nothing is read where the threads do not differ");
    let mems_allowed = Some("0".parse().unwrap());
    space.process.threads = vec![Threads { mems_allowed, ..Threads::default() }];
    let found = tids(&space);
    assert!([101, 102].contains(&found[0]) && found[1..] == [100, 102, 100], "{found:?}");
    // One that is there no longer, or in another cpuset by now, is not named again.
    fake.mems(100, 102, "1");
    fake.end(100, 101);
    assert_eq!(tids(&space), [100; 4]);
}
