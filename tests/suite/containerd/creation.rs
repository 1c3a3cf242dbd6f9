//! Memory policies that containers are created with. Needs two nodes, and knows both kinds of runtimes: runtimes that
//! pass the policy on (`tests/vm/suite --containerd 2.4`), and runtimes that create the container without it
//! (`--containerd 2`).

use super::{
    cri::{Container, Pod},
    plugin::Plugin,
    redis::Redis,
    rig::{Containerd, Running},
};
use crate::{
    app::until,
    cpus::cpus_of,
    daemon::Daemon,
    settings::Setting,
    truth::{off, on},
};
use std::{fs, time::Duration};

const POLICY: &str = "numaloc.io/memory-policy";
const BALANCING: &str = "numaloc.io/numa-balancing";
const MIB: u64 = 1 << 20;
/// Bytes of the values of each server.
const DATA: u64 = 48 * MIB;

struct Host {
    plugin: Plugin,
    _daemon: Daemon,
    containerd: Containerd,
    /// Whether the runtime passes policies on.
    is_new: bool,
    _balancing: Setting,
}

impl Host {
    fn start(balancing: bool) -> Self {
        let balancing = Setting::numa_balancing(balancing);
        let (containerd, daemon) = (Containerd::start(), Daemon::start());
        let allowed = r#"memory_policies = ["preferred", "interleave", "exempt"]"#;
        let plugin = Plugin::configured(&containerd, &daemon, allowed);
        let version = containerd.expect("a version", containerd.cri().version()).runtime_version;
        let version = ::containerd::version(&version).expect("two numbers");
        let is_new = version >= ::containerd::WITH_MEMORY_POLICIES;
        until("the plugin knows the nodes", || {
            std::thread::sleep(Duration::from_millis(100));
            plugin.log().contains("numalocd knows all containers")
        });
        Self { plugin, _daemon: daemon, containerd, is_new, _balancing: balancing }
    }

    /// A server that waits for data, in a pod of its own.
    fn redis(&self, pod: &Pod, port: u16, cpus: &str) -> Redis {
        let sandbox = self.containerd.pod(pod);
        let container = Container::redis(&pod.name, port).on_cpus(cpus);
        Redis::listening(self.containerd.container(&sandbox, &container), port)
    }

    fn assert_policy(&self, container: &Running, expected: &str) {
        let expected = if self.is_new { expected } else { "default" };
        let maps =
            fs::read_to_string(format!("/proc/{}/numa_maps", container.pid)).expect("it runs");
        // Memory without a policy of its own shows that of the process.
        let stack = maps.lines().find(|line| line.contains(" stack ")).expect("it has a stack");
        assert!(stack.contains(&format!(" {expected} ")), "{maps}\n{}", self.plugin.log());
    }
}

/// Bytes of a server's memory on both nodes.
fn halves(redis: &Redis) -> [u64; 2] {
    let nodes = redis.nodes();
    [on(&nodes, 0), on(&nodes, 1)]
}

#[test]
fn new_memory_follows_the_policy_that_the_pod_asks_for() {
    let host = Host::start(false);
    let spread = host.redis(&Pod::new("spread").annotated(POLICY, "interleave"), 7101, "");
    host.assert_policy(&spread.container, "interleave:0-1");
    let spread = spread.populated();
    let [first, second] = halves(&spread);
    assert!(first + second >= DATA, "{first} {second}");
    // By folios, of which those of 2 MiB are few. Without the policy, whatever CPU it runs on decides.
    assert!(!host.is_new || first.min(second) >= DATA / 3, "{first} {second}");
    // They are created with CPUs of node 1, run on those of node 0 from then on, and allocate there.
    let own = |name: &str, port| {
        let pod = Pod::new(name);
        let pod = if name == "asks" { pod.annotated(POLICY, "preferred") } else { pod };
        let redis = host.redis(&pod, port, &cpus_of(1));
        redis.pin(&host.containerd, 0);
        redis
    };
    let (asks, control) = (own("asks", 7102), own("control", 7103));
    host.assert_policy(&asks.container, "prefer (many):1");
    host.assert_policy(&control.container, "default");
    let (asks, control) = (asks.populated(), control.populated());
    let expected = u32::from(host.is_new);
    assert!(on(&asks.nodes(), expected) >= DATA, "{:?}", asks.nodes());
    assert!(on(&control.nodes(), 0) >= DATA && off(&control.nodes(), 0) < 8 * MIB);
    let log = host.plugin.log();
    assert!(log.contains("created with a memory policy"), "{log}");
    assert_eq!(!host.is_new, log.contains("does not support memory policies"), "{log}");
}

#[test]
fn a_policy_that_does_not_fit_is_left_out_and_the_container_runs() {
    let host = Host::start(false);
    for (name, value, cpus, why) in [
        ("one-node", "interleave", cpus_of(1), "it has only one node: 1"),
        ("unpinned", "preferred", String::new(), "not pinned to CPUs"),
        ("bound", "bind", cpus_of(0), "which is not known"),
        ("not-allowed", "weighted", String::new(), "memory_policies in nri.toml does not have it"),
    ] {
        let sandbox = host.containerd.pod(&Pod::new(name).annotated(POLICY, value));
        let container = host.containerd.container(&sandbox, &Container::new(name).on_cpus(&cpus));
        host.assert_policy(&container, "default");
        until(why, || {
            std::thread::sleep(Duration::from_millis(50));
            host.plugin.log().contains(why)
        });
    }
}

/// Hint faults that the kernel has counted of a process (kernel/sched/debug.c, `sched_show_numa`).
fn hint_faults(container: &Running) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/sched", container.pid)).expect("it runs");
    let line = text.lines().find(|line| line.starts_with("total_numa_faults"));
    let value = line.and_then(|line| line.rsplit([' ', ':']).next());
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// Page table entries of a container that the scan has changed, where the kernel counts them by cgroup (Linux 6.8 and later).
fn scanned(container: &Running) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/cgroup", container.pid)).expect("it runs");
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let stat = fs::read_to_string(format!("/sys/fs/cgroup{path}/memory.stat")).ok()?;
    let value = stat.lines().find_map(|line| line.strip_prefix("numa_pte_updates "));
    value.map(|value| value.parse().expect("a number"))
}

#[test]
fn one_container_is_exempt_from_numa_balancing() {
    let host = Host::start(true);
    let server = |pod: Pod, port, node| {
        let redis = host.redis(&pod, port, &cpus_of(node)).populated();
        // Threads on the wrong node, so that there is a reason to scan.
        redis.pin(&host.containerd, 1 - node);
        redis
    };
    let exempt = server(Pod::new("exempt").annotated(BALANCING, "exempt"), 7111, 1);
    let control = server(Pod::new("scanned"), 7112, 1);
    host.assert_policy(&exempt.container, "local");
    host.assert_policy(&control.container, "default");
    // The scan is done by the threads themselves, by the CPU time that they use.
    until("the kernel balances what it may", || {
        for redis in [&exempt, &control] {
            redis.reads_all();
        }
        let is_scanned = |redis: &Redis| hint_faults(&redis.container) > 1000;
        is_scanned(&control) && (host.is_new || is_scanned(&exempt))
    });
    let faults = hint_faults(&exempt.container);
    assert_eq!(faults == 0, host.is_new, "{faults}");
    if let (Some(exempt), Some(control)) = (scanned(&exempt.container), scanned(&control.container))
    {
        assert!(control > 1000 && (exempt == 0) == host.is_new, "{exempt} {control}");
    }
    if host.is_new {
        assert!(on(&exempt.nodes(), 1) >= DATA, "{:?}", exempt.nodes());
    }
}
