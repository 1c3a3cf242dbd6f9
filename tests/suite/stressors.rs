//! Programs of others that write memory and check what they read back, while their memory follows their CPUs from node to node.
//! Their verdict says whether a byte was ever wrong; numa_maps says whether their memory really came along.

use crate::{
    app::until,
    cli::{NOBODY, code, numalocctl},
    kernel_log::KernelLog,
    service::proc_status,
    settings::{Cgroup, Setting, cpus_of},
    truth::{Nodes, Truth, off, vmstat},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    io::Write,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
};

const MIB: u64 = 1 << 20;
/// What the programs have besides the memory that they test, and what of that may be somebody else's: libraries, stacks, heaps.
const BESIDES: u64 = 8 * MIB;

/// A program in a cgroup of its own, whose CPUs are those of one node at a time.
struct Stressor {
    child: Child,
    cgroup: Cgroup,
    output: PathBuf,
    log: KernelLog,
    node: u32,
    _balancing: Setting,
}

/// What has happened to a program until it ended.
struct Chase {
    migrations: u32,
    migrated_pages: u64,
    output: String,
}

impl Stressor {
    /// Starts it as root on the CPUs of node 0.
    fn start(name: &str, command: &str) -> Self {
        Self::start_as(0, name, command)
    }

    /// Starts it as this user on the CPUs of node 0.
    fn start_as(user: u32, name: &str, command: &str) -> Self {
        let balancing = Setting::numa_balancing(false);
        let (log, cgroup) = (KernelLog::from_now(), Cgroup::new(name));
        cgroup.write("cpuset.cpus", &cpus_of(0));
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
        Self { child, cgroup, output, log, node: 0, _balancing: balancing }
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
        self.node = 1 - self.node;
        self.cgroup.write("cpuset.cpus", &cpus_of(self.node));
        let name = self.cgroup.path().file_name().expect("a name").to_string_lossy().into_owned();
        let output = numalocctl(&["migrate", "--cgroup", &format!("/{name}"), "--profile", "fast"]);
        println!("{}", String::from_utf8_lossy(&output.stdout));
        match code(&output) {
            // What it has freed, pinned or mapped meanwhile may be left.
            Some(0 | 6) => {}
            // A process that ends leaves its cgroup before its parent is notified (kernel/exit.c, `do_exit`).
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

    /// Follows it from node to node until it ends. Asserts that its memory, if it has `constant` bytes of it at any time between start
    /// and end, came along each time, that it found no wrong byte, and that the kernel has reported no defect.
    fn chase(mut self, constant: u64) -> Chase {
        let (mut migrations, mut seen, before) = (0, 0, vmstat("pgmigrate_success"));
        while self.end().is_none() {
            self.follow();
            migrations += 1;
            let nodes = if self.end().is_none() { self.nodes() } else { None };
            // It frees its memory before it ends.
            let Some(nodes) = nodes.filter(|nodes| nodes.values().sum::<u64>() >= constant) else {
                continue;
            };
            assert!(
                constant == 0 || off(&nodes, self.node) <= BESIDES,
                "node {}: {nodes:?}",
                self.node
            );
            seen += 1;
        }
        let output = fs::read_to_string(&self.output).expect("its output");
        let status = self.end().expect("it has ended");
        assert!(status.success(), "{status}:\n{output}");
        assert!(seen >= 2, "{migrations} migrations, {seen} seen in numa_maps:\n{output}");
        self.log.assert_quiet();
        Chase { migrations, migrated_pages: vmstat("pgmigrate_success") - before, output }
    }
}

impl Chase {
    /// Asserts that memory moved at least so often, as the kernel counts.
    fn assert_moved(&self, pages: u64) {
        assert!(self.migrations >= 2, "{} migrations", self.migrations);
        assert!(self.migrated_pages >= 2 * pages, "{} pages", self.migrated_pages);
    }
}

fn huge_pages(when: &str) -> Setting {
    Setting::set("/sys/kernel/mm/transparent_hugepage/enabled", when)
}

/// What stressapptest is given to test.
const MEMORY: u64 = 48 * MIB;

/// Checksums of each block, copied and inverted by several threads.
fn stressapptest(name: &str, options: &str, constant: u64, folio_pages: u64) {
    let command = format!("stressapptest -A -M 48 -s 12 -m 1 -i 1 {options}");
    let stressor = Stressor::start(name, &command).grown(MEMORY / 2);
    let chase = stressor.chase(constant);
    assert!(chase.output.contains("Status: PASS"), "{}", chase.output);
    chase.assert_moved(MEMORY / 4096 / folio_pages);
}

#[test]
fn stressapptest_on_base_pages() {
    let _never = huge_pages("never");
    stressapptest("sat", "", MEMORY, 1);
}

#[test]
fn stressapptest_on_transparent_huge_pages() {
    let _always = huge_pages("always");
    // Not all of its memory is aligned.
    stressapptest("sat-thp", "", MEMORY, 2);
}

/// A segment of System V from the pool of huge pages. Threads that wait for a page under migration hold a reference to it, and the kernel
/// gives up on such a page (mm/hugetlb.c, `hugetlb_fault`): under emulation some are left as pinned in most migrations.
#[test]
fn stressapptest_on_hugetlb_pages() {
    let _pools = [0, 1].map(|node| Setting::huge_pool(node, 32));
    stressapptest("sat-hugetlb", "-H 48", 0, 512);
}

/// Patterns in locked memory. The bits of the mask are its tests; those that are left out take minutes under emulation.
#[test]
fn memtester_on_locked_memory() {
    const LOCKED: u64 = 24 * MIB;
    let command = "env MEMTESTER_TEST_MASK=0x5ff memtester 24M 1";
    let stressor = Stressor::start("memtester", command).grown(LOCKED);
    let chase = stressor.chase(LOCKED);
    assert!(chase.output.contains("Done."), "{}", chase.output);
    assert!(!chase.output.contains("FAILURE"), "{}", chase.output);
    chase.assert_moved(LOCKED / 4096);
}

/// Many small stressors at a time, whose memory comes and goes: they verify, and `--verify` makes a wrong byte an error.
fn stress_ng(user: u32, name: &str, seconds: u32, stressors: &str) {
    let command =
        format!("stress-ng --verify --oomable --timeout {seconds} --temp-path /tmp {stressors}");
    let chase = Stressor::start_as(user, name, &command).chase(0);
    assert!(!chase.output.contains("fail:"), "{}", chase.output);
    chase.assert_moved(256);
}

#[test]
fn stress_ng_on_anonymous_memory() {
    stress_ng(
        0,
        "stress-anon",
        15,
        "--vm 1 --vm-bytes 24M --mremap 1 --mremap-bytes 8M --fork 1 --userfaultfd 1 --userfaultfd-bytes 4M",
    );
}

#[test]
fn stress_ng_on_shared_memory() {
    stress_ng(
        0,
        "stress-shared",
        15,
        "--memfd 1 --memfd-bytes 16M --shm 1 --shm-bytes 8M --shm-sysv 1 --shm-sysv-bytes 8M --vm 1 --vm-bytes 16M --numa 1",
    );
}

/// As root, the stressor of madvise(2) has the kernel take pages for broken (MADV_HWPOISON), which it may then not move.
#[test]
fn stress_ng_on_advised_memory() {
    stress_ng(
        NOBODY,
        "stress-advised",
        30,
        "--madvise 1 --mmap 1 --mmap-bytes 8M --vm 1 --vm-bytes 16M",
    );
}
