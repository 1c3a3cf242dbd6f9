//! Programs of others that write memory and check what they read back, while their memory follows their CPUs from node to node.
//! Their verdict says whether a byte was ever wrong; numa_maps says whether their memory really came along.

mod llama;

use crate::{
    app::until,
    cli::{NOBODY, code, numalocctl},
    cpus::cpus_of,
    kernel_log::KernelLog,
    place::{both, home},
    service::proc_status,
    settings::{Cgroup, HUGETLB_BYTES, Setting},
    truth::{Nodes, Truth, off, vmstat},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use numaloc_core::page_size;
use std::{
    fs,
    io::Write,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
};

const MIB: u64 = 1 << 20;
/// Memory of the programs besides the memory that they test, and the part of it that may be other processes':
/// libraries, stacks, heaps.
const BESIDES: u64 = 8 * MIB;

/// Number of migrations that a program is followed for before it is asked to end. Seconds would say little: a busy
/// host has time for one migration where another one has time for ten.
const MIGRATIONS: u32 = 4;
/// Number of migrations without effect from which the test fails. A few do not: memory that comes and goes may be gone
/// when it is to move.
const IN_VAIN: u32 = 60;

/// A program in a cgroup of its own, whose CPUs are those of one node at a time.
struct Stressor {
    child: Child,
    cgroup: Cgroup,
    output: PathBuf,
    log: KernelLog,
    node: u32,
    _balancing: Setting,
}

/// The migrations of a program that count.
#[derive(Clone, Copy)]
struct Counts {
    /// Bytes that it has all the time, and that are to be on the new node after each.
    constant: u64,
    /// Number of pages that the kernel has to have moved.
    pages: u64,
}

impl Stressor {
    /// Starts it as root on the CPUs of the first node.
    fn start(name: &str, command: &str) -> Self {
        Self::start_as(0, name, command)
    }

    /// Starts it as this user on the CPUs of the first node.
    fn start_as(user: u32, name: &str, command: &str) -> Self {
        let balancing = Setting::numa_balancing(false);
        let (log, cgroup) = (KernelLog::from_now(), Cgroup::new(name));
        cgroup.write("cpuset.cpus", &cpus_of(home()));
        let output = PathBuf::from(format!("/tmp/{name}.log"));
        let file = fs::File::create(&output).expect("/tmp is a tmpfs");
        let mut child = Command::new("sh")
            .args(["-c", &format!("read line && exec {command} < /dev/null")])
            .uid(user)
            .gid(user)
            .stdin(Stdio::piped())
            .stderr(file.try_clone().expect("a descriptor"))
            .stdout(file)
            .spawn()
            .expect("sh");
        // It waits until it is in its cgroup, where only root can put it.
        cgroup.write("cgroup.procs", &child.id().to_string());
        let mut waiting = child.stdin.take().expect("a pipe");
        writeln!(waiting, "go").expect("it reads");
        Self { child, cgroup, output, log, node: home(), _balancing: balancing }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn end(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child")
    }

    /// Waits until it has this much memory, and still runs.
    fn grown(self, bytes: u64) -> Self {
        until("the program has its memory", || {
            let kib = |field| {
                let value = proc_status(self.pid(), field);
                value.trim_end_matches(" kB").parse::<u64>().expect("KiB")
            };
            (kib("VmRSS") + kib("HugetlbPages")) << 10 >= bytes
        });
        self
    }

    /// Moves its CPUs to the other node, and has its memory follow.
    fn follow(&mut self) {
        let [first, second] = both();
        self.node = if self.node == first { second } else { first };
        self.cgroup.write("cpuset.cpus", &cpus_of(self.node));
        let name = self.cgroup.path().file_name().expect("a name").to_string_lossy().into_owned();
        let output = numalocctl(&["migrate", "--cgroup", &format!("/{name}"), "--profile", "fast"]);
        println!("{}", String::from_utf8_lossy(&output.stdout));
        match code(&output) {
            // Memory that it has freed, pinned or mapped meanwhile may be left.
            Some(0 | 6) => {}
            // It has ended by itself, and leaves its cgroup before its parent is notified (kernel/exit.c, `do_exit`).
            Some(3) => until("it ends", || self.end().is_some()),
            code => panic!("{code:?}: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// Where its memory is; `None` if it has ended.
    fn nodes(&mut self) -> Option<Nodes> {
        let (pid, stat) = (Pid::from_raw(self.pid()), format!("/proc/{}/stat", self.pid()));
        kill(pid, Signal::SIGSTOP).expect("a child that has not been waited for");
        let mut state = String::new();
        until("it stops or ends", || {
            let stat = fs::read_to_string(&stat).expect("not waited for");
            state = stat.rsplit(") ").next().unwrap_or_default().chars().take(1).collect();
            state == "T" || state == "Z"
        });
        let nodes = (state == "T").then(|| Truth::of(self.pid()).all());
        kill(pid, Signal::SIGCONT).expect("a child that has not been waited for");
        nodes
    }

    /// Follows it from node to node until [`MIGRATIONS`] of them count, and until its output has this. Asserts that it
    /// does not end meanwhile.
    fn chase(&mut self, counts: Counts, has: &str) {
        let (mut counted, mut in_vain) = (0, 0);
        while counted < MIGRATIONS || !self.output().contains(has) {
            let before = vmstat("pgmigrate_success");
            self.follow();
            let pages = vmstat("pgmigrate_success") - before;
            let nodes = self.nodes().filter(|_| self.end().is_none());
            let nodes = nodes.unwrap_or_else(|| panic!("{:?}:\n{}", self.end(), self.output()));
            let bytes: u64 = nodes.values().sum();
            assert!(bytes >= counts.constant, "{bytes} bytes");
            let elsewhere = off(&nodes, self.node);
            assert!(counts.constant == 0 || elsewhere <= BESIDES, "node {}: {nodes:?}", self.node);
            if pages >= counts.pages {
                counted += 1;
            } else {
                in_vain += 1;
            }
            println!("{pages} pages: {counted} migrations count, {in_vain} do not");
            assert!(in_vain < IN_VAIN, "{counted} migrations count");
        }
    }

    /// Sends it a signal by which it ends. Returns how it has ended. Asserts that the kernel has reported no defect.
    fn ends_by(mut self, signal: Signal) -> (ExitStatus, String) {
        kill(Pid::from_raw(self.pid()), signal).expect("a child that has not been waited for");
        let status = self.child.wait().expect("a child");
        self.log.assert_quiet();
        (status, self.output())
    }

    fn output(&self) -> String {
        fs::read_to_string(&self.output).expect("its output")
    }
}

fn huge_pages(when: &str) -> Setting {
    Setting::set("/sys/kernel/mm/transparent_hugepage/enabled", when)
}

/// The memory that stressapptest is given to test.
const MEMORY: u64 = 48 * MIB;

/// Checksums of each block, copied and inverted by several threads. After SIGINT it joins them and gives its usual verdict, with the
/// errors until then (src/sat.cc, `Sat::Run`): "Status: FAIL" and 1, if there were any.
fn stressapptest(name: &str, options: &str, counts: Counts) {
    let command = format!("stressapptest -A -M 48 -s 1000000 -m 1 -i 1 {options}");
    let mut stressor = Stressor::start(name, &command).grown(MEMORY);
    stressor.chase(counts, "");
    let (status, output) = stressor.ends_by(Signal::SIGINT);
    assert!(status.success() && output.contains("Status: PASS"), "{status}:\n{output}");
}

#[test]
fn stressapptest_on_base_pages() {
    let _never = huge_pages("never");
    stressapptest("sat", "", Counts { constant: MEMORY, pages: MEMORY / page_size() });
}

#[test]
fn stressapptest_on_transparent_huge_pages() {
    let _always = huge_pages("always");
    // Not all of its memory is aligned.
    stressapptest("sat-thp", "", Counts { constant: MEMORY, pages: MEMORY / page_size() / 2 });
}

/// A segment of System V from the pool of huge pages. Threads that wait for a page under migration hold a reference to it, and the kernel
/// gives up on such a page (mm/hugetlb.c, `hugetlb_fault`): under emulation some are left as pinned in most migrations.
#[test]
fn stressapptest_on_hugetlb_pages() {
    let _pools = both().map(|node| Setting::huge_pool(node, 32));
    stressapptest("sat-hugetlb", "-H 48", Counts { constant: 0, pages: MEMORY / HUGETLB_BYTES });
}

/// Patterns in locked memory. The bits of the mask are its tests; the omitted ones take minutes under emulation. It
/// goes through them again and again and is ended by the signal, so it has no last word: it says of each test that it
/// is ok when the test has ended, and of each wrong byte when it finds it.
#[test]
fn memtester_on_locked_memory() {
    const LOCKED: u64 = 24 * MIB;
    let command = "env MEMTESTER_TEST_MASK=0x5ff memtester 24M";
    let mut stressor = Stressor::start("memtester", command).grown(LOCKED);
    stressor.chase(Counts { constant: LOCKED, pages: LOCKED / page_size() }, "Loop 2:");
    let (status, output) = stressor.ends_by(Signal::SIGTERM);
    assert_eq!(status.signal(), Some(Signal::SIGTERM as i32), "{status}:\n{output}");
    assert!(!output.contains("FAILURE"), "{output}");
}

/// Many small stressors at a time, whose memory comes and goes: they verify, and `--verify` makes a wrong byte an error. After SIGINT they
/// leave off where they are, and its status is 2 if one of them had an error until then.
fn stress_ng(user: u32, name: &str, stressors: &str) {
    let command = format!("stress-ng --verify --oomable --timeout 0 --temp-path /tmp {stressors}");
    let mut stressor = Stressor::start_as(user, name, &command);
    stressor.chase(Counts { constant: 0, pages: 256 }, "");
    let (status, output) = stressor.ends_by(Signal::SIGINT);
    assert!(status.success() && !output.contains("fail:"), "{status}:\n{output}");
}

#[test]
fn stress_ng_on_anonymous_memory() {
    stress_ng(
        0,
        "stress-anon",
        "--vm 1 --vm-bytes 24M --mremap 1 --mremap-bytes 8M --fork 1 --userfaultfd 1 --userfaultfd-bytes 4M",
    );
}

#[test]
fn stress_ng_on_shared_memory() {
    stress_ng(
        0,
        "stress-shared",
        "--memfd 1 --memfd-bytes 16M --shm 1 --shm-bytes 8M --shm-sysv 1 --shm-sysv-bytes 8M --vm 1 --vm-bytes 16M --numa 1",
    );
}

/// As root, the stressor of madvise(2) has the kernel take pages for broken (MADV_HWPOISON), which it may then not move.
#[test]
fn stress_ng_on_advised_memory() {
    stress_ng(
        NOBODY,
        "stress-advised",
        "--madvise 1 --mmap 1 --mmap-bytes 8M --vm 1 --vm-bytes 16M",
    );
}
