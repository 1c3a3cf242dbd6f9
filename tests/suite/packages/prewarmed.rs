//! PostgreSQL whose shared buffers were filled by a session that has ended: no process has them mapped, as behind a pooler and after
//! each restart with autoprewarm. The unit is pinned to the other node, and `numalocctl migrate --unit` has to find
//! them all. The nodes are read from the kernel's own counts: of the nodes, and of the unit's cgroup.

use super::{
    real::{Pinned, Session, postgresql, with_frames},
    *,
};
use crate::{settings::Setting, truth::node_bytes};
use std::path::PathBuf;

/// Rows of a kilobyte each.
const ROWS: u64 = 65_536;
/// Least part of the buffers that they fill.
const HELD: u64 = 64 * MIB;

/// The kind of PostgreSQL's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    /// Shared anonymous memory: the default.
    Mapped,
    SystemV,
    /// The same as by default, in huge pages.
    Huge,
}

/// Writes a file of settings for the cluster, which is removed when this value is dropped.
struct Configured(PathBuf);

impl Configured {
    fn new(segment: Segment) -> Self {
        let (version, _) = postgresql();
        let directory = PathBuf::from(format!("/etc/postgresql/{version}/main/conf.d"));
        let path = directory.join("numaloc.conf");
        let [kind, huge] = match segment {
            Segment::Mapped => ["mmap", "off"],
            Segment::SystemV => ["sysv", "off"],
            Segment::Huge => ["mmap", "on"],
        };
        // Nothing else is to read or write the table meanwhile.
        let settings = format!(
            "shared_buffers = 96MB\nshared_memory_type = {kind}\nhuge_pages = {huge}\nautovacuum = off\n"
        );
        fs::write(&path, settings).expect("writable");
        Self(path)
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

/// With the drop-ins for page frames and for files of other users, which it takes to look at memory that no process maps.
fn with_files() -> System {
    let system = with_frames();
    let pid = system.pid();
    std::os::unix::fs::symlink(
        "/usr/share/numaloc/numalocd-files.conf",
        format!("{DROP_INS}/files.conf"),
    )
    .expect("systemd's directory");
    systemctl(&["daemon-reload"]);
    systemctl(&["restart", "numalocd.service"]);
    system.comes_back(pid);
    system
}

/// A server on node 1 with the table in its buffers, and no session.
struct Prewarmed {
    server: Pinned,
    segment: Segment,
    /// Bytes on the nodes before.
    before: [u64; 2],
    sum: String,
}

const SUM: &str = "select count(*), sum(id), sum(length(words)) from held";

/// Shared memory of the nodes, or their huge pages in use.
fn counted(segment: Segment) -> [u64; 2] {
    [0, 1].map(|node| match segment {
        Segment::Huge => {
            let of = |field| node_bytes(node, field);
            // A number of pages, not of KiB.
            ((of("HugePages_Total:") - of("HugePages_Free:")) >> 10) * 2 * MIB
        }
        Segment::Mapped | Segment::SystemV => node_bytes(node, "Shmem:"),
    })
}

impl Prewarmed {
    fn start(segment: Segment) -> Self {
        let (_, unit) = postgresql();
        systemctl(&["stop", &unit]);
        let before = counted(segment);
        let server = Pinned::start(&unit, 1);
        until("it answers", || run("pg_isready", &["-q"]).status.success());
        let ask = |statement: &str| Session::new().ask(statement);
        ask("create extension if not exists pg_prewarm");
        ask("create unlogged table if not exists held (id integer, words text)");
        if ask("select count(*) from held") != ROWS.to_string() {
            let words = "repeat(md5(id::text), 30)";
            ask(&format!("insert into held select id, {words} from generate_series(1, {ROWS}) id"));
        }
        // A scan of a quarter of the buffers and more goes through few of them.
        ask("select pg_prewarm('held')");
        let sum = ask(SUM);
        let prewarmed = Self { server, segment, before, sum };
        prewarmed.assert_on(1);
        prewarmed
    }

    /// Bytes of it on each node.
    fn nodes(&self) -> [u64; 2] {
        let now = counted(self.segment);
        [0, 1].map(|node| now[node].saturating_sub(self.before[node]))
    }

    /// Shared memory of the unit's cgroup by node; its huge pages are those of the whole machine.
    fn of_unit(&self) -> [u64; 2] {
        if self.segment == Segment::Huge {
            return self.nodes();
        }
        let group = property(&self.server.unit, "ControlGroup");
        let text = fs::read_to_string(format!("/sys/fs/cgroup{group}/memory.numa_stat"));
        let text = text.expect("its memory is accounted");
        let line = text.lines().find_map(|line| line.strip_prefix("shmem ")).expect("the line");
        [0, 1].map(|node| {
            let prefix = format!("N{node}=");
            let value = line.split(' ').find_map(|word| word.strip_prefix(&prefix));
            value.and_then(|value| value.parse().ok()).expect("a number")
        })
    }

    /// At most a hundredth is elsewhere.
    fn assert_on(&self, node: usize) {
        for (by, all) in [("the nodes", self.nodes()), ("the unit", self.of_unit())] {
            let sum = all[0] + all[1];
            assert!(sum >= HELD, "{by}: {all:?}");
            assert!(all[1 - node] <= sum / 100, "{by}: {all:?}, all of it belongs on node {node}");
        }
    }

    fn ask(&self, command: &str, more: &[&str]) -> Value {
        let asked = [&[command, "--unit", &self.server.unit, "-o", "json"], more].concat();
        serde_json::from_str(&ctl(&asked)).expect("JSON")
    }

    /// Before it moves, each command reports the amount that the kernel counts.
    fn assert_agreement(&self) {
        let truth = self.nodes()[1];
        let is_right = |bytes: u64| bytes >= truth - truth / 50 && bytes <= truth + truth / 2;
        for standalone in [&[][..], &["--standalone"]] {
            let located = &self.ask("locality", standalone)["locality"];
            let on_node = |list: &Value| {
                let list = list.as_array().cloned().unwrap_or_default();
                let on = list.iter().find(|on| on["node_id"] == 1);
                on.and_then(|on| on["bytes"].as_u64()).unwrap_or(0)
            };
            assert!(is_right(on_node(&located["total"]["nodes"])), "{truth}: {located}");
            assert!(on_node(&located["unmapped"]) >= HELD / 2, "{truth}: {located}");
            let plan = &self.ask("plan", standalone)["plan"];
            let expected = plan["expected_bytes"].as_u64().unwrap_or(0);
            assert!(is_right(expected), "{truth}: {plan}");
            assert_eq!(plan["unseen_bytes"].as_u64().unwrap_or(0), 0, "{plan}");
        }
        // No cgroup counts huge pages by node in what these read.
        if self.segment != Segment::Huge {
            let advice = &self.ask("advise", &["--seconds", "3", "--min-bytes", "16M"])["advice"];
            let findings = advice["findings"].as_array().cloned().unwrap_or_default();
            let bytes = |finding: &Value| finding["bytes"].as_u64().unwrap_or(0);
            assert!(findings.iter().map(bytes).any(is_right), "{truth}: {advice}");
            let shown = ctl(&[
                "top",
                "-b",
                "-n",
                "1",
                "-d",
                "5s",
                "--cpu-budget",
                "100",
                "-o",
                "json",
                "--standalone",
            ]);
            let shown: Value =
                serde_json::from_str(shown.lines().last().expect("a line")).expect("JSON");
            let workloads = shown["workloads"].as_array().cloned().unwrap_or_default();
            let is_ours = |row: &&Value| {
                row["cgroup"].as_str().is_some_and(|path| path.ends_with(&self.server.unit))
            };
            let row = workloads.iter().find(is_ours).expect("the unit");
            assert!(is_right(row["remote_bytes"].as_u64().unwrap_or(0)), "{truth}: {row}");
        }
    }

    fn comes_to(&self, node: usize) {
        let output = run("/usr/bin/numalocctl", &["migrate", "--unit", &self.server.unit]);
        // Memory that it shares with processes beside it may be left.
        assert!(matches!(output.status.code(), Some(0 | 6)), "{output:?}");
        println!(
            "{:?}: {:?}\n{}",
            self.segment,
            self.nodes(),
            String::from_utf8_lossy(&output.stdout)
        );
        self.assert_on(node);
    }
}

fn comes_home_whole(segment: Segment) {
    let _balancing = Setting::numa_balancing(false);
    let _pools =
        (segment == Segment::Huge).then(|| [0, 1].map(|node| Setting::huge_pool(node, 80)));
    let _system = with_files();
    let _configured = Configured::new(segment);
    let prewarmed = Prewarmed::start(segment);
    prewarmed.server.pin(0);
    prewarmed.assert_agreement();
    prewarmed.comes_to(0);
    assert_eq!(Session::new().ask(SUM), prewarmed.sum);
    // And back, with a session that has some of it mapped.
    let mut session = Session::new();
    session.ask("select sum(id) from held where id < 1000");
    prewarmed.server.pin(1);
    prewarmed.comes_to(1);
    assert_eq!(session.ask(SUM), prewarmed.sum);
}

#[test]
fn shared_memory_comes_home_whole() {
    comes_home_whole(Segment::Mapped);
}

#[test]
fn a_system_v_segment_comes_home_whole() {
    comes_home_whole(Segment::SystemV);
}

#[test]
fn huge_pages_come_home_whole() {
    comes_home_whole(Segment::Huge);
}
