//! Services of Debian as an operator has them: systemd starts them and pins them, part of their memory is on the wrong node, and
//! `numalocctl migrate --unit` has the packaged daemon bring it home while they serve. Afterwards their data is the same.

use super::*;
use crate::{
    cpus::cpus_of,
    settings::Setting,
    truth::{Nodes, Truth, off},
};
use std::{
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

/// Memory that is found on the wrong node at least.
const REMOTE: u64 = 20 * MIB;
/// The class that tests/vm/debian-root has compiled.
const HELD: &str = "/usr/local/share/held";
/// The file with its output, and its unit.
pub const HELD_SAYS: &str = "/run/held";
const HELD_UNIT: &str = "/etc/systemd/system/held.service";

/// A service whose processes may run on the CPUs of one node. It is stopped when this value is dropped.
#[derive(Debug)]
pub struct Pinned {
    pub unit: String,
}

impl Pinned {
    /// Starts a service on a node, so that its memory comes from there.
    pub fn start(unit: &str, node: u32) -> Self {
        let pinned = Self { unit: unit.to_owned() };
        pinned.pin(node);
        systemctl(&["restart", unit]);
        pinned
    }

    /// Pins it to the CPUs of a node, from now on and after a reboot. Its memory stays where it is.
    pub fn pin(&self, node: u32) {
        self.pin_to(&cpus_of(node));
    }

    /// Pins it to these CPUs.
    pub fn pin_to(&self, cpus: &str) {
        systemctl(&["set-property", &self.unit, &format!("AllowedCPUs={cpus}")]);
    }

    pub fn pid(&self) -> i32 {
        property(&self.unit, "MainPID").parse().expect("a pid")
    }

    /// Brings it home by its name. It is looked at one of its processes, and of this at the memory that `nodes` picks.
    fn comes_home(&self, pid: i32, nodes: impl Fn(&Truth) -> Nodes) {
        let before = nodes(&Truth::of(pid));
        assert!(off(&before, 0) >= REMOTE, "{}: {before:?}", self.unit);
        let output = run("/usr/bin/numalocctl", &["migrate", "--unit", &self.unit]);
        // Memory that it shares with processes beside it may be left. The moved bytes are checked below.
        assert!(matches!(output.status.code(), Some(0 | 6)), "{}: {output:?}", self.unit);
        let after = nodes(&Truth::of(pid));
        assert!(
            off(&after, 0) <= off(&before, 0) / 8,
            "{}: {before:?}, then {after:?}: {output:?}",
            self.unit
        );
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = run("journalctl", &["--no-pager", "-n", "30", "-u", &self.unit]);
            eprintln!("{}", String::from_utf8_lossy(&output.stdout));
        }
        // No panic here: the test may be panicking already.
        run("systemctl", &["stop", &self.unit]);
        run("systemctl", &["set-property", &self.unit, "AllowedCPUs="]);
    }
}

/// Bytes by node of all mappings but those of files.
fn own(truth: &Truth) -> Nodes {
    truth.without_files().all()
}

/// With the drop-in for page frames: PostgreSQL's processes share their buffers.
pub fn with_frames() -> System {
    let system = System::new();
    fs::write("/tmp/answers", "numaloc numaloc/frames boolean true\n").expect("written");
    done("debconf-set-selections", &["/tmp/answers"]);
    system.install(1, &["numaloc"]);
    system
}

/// Asks the Redis server, and returns its answer.
pub fn redis(words: &[&str]) -> String {
    done("redis-cli", words).trim().to_owned()
}

/// A Redis server on a node with data, which is on the disk, too.
pub fn redis_on(node: u32) -> Pinned {
    let path = "/etc/redis/redis.conf";
    let config = fs::read_to_string(path).expect("its configuration");
    let line = "enable-debug-command local\n";
    if !config.contains(line) {
        fs::write(path, config + "\n" + line).expect("written");
    }
    let server = Pinned::start("redis-server.service", node);
    assert_eq!(redis(&["flushall"]), "OK");
    redis_takes("first");
    server
}

fn redis_takes(prefix: &str) {
    assert_eq!(redis(&["debug", "populate", "24576", prefix, "1024"]), "OK");
    assert_eq!(redis(&["save"]), "OK");
}

/// A JVM on a node whose heap has a known content.
pub fn jvm_on(node: u32) -> Pinned {
    let java = "/usr/bin/java -Xms96m -Xmx96m -XX:+UseSerialGC -XX:+AlwaysPreTouch";
    let unit = format!(
        "[Service]\nExecStart={java} -cp {HELD} Held 48 {HELD_SAYS}\n[Install]\nWantedBy=multi-user.target\n"
    );
    fs::write(HELD_UNIT, unit).expect("written");
    systemctl(&["daemon-reload"]);
    fs::remove_file(HELD_SAYS).ok();
    let jvm = Pinned::start("held.service", node);
    jvm_goes_round();
    jvm
}

/// Waits until the program has compared its heap once more from the beginning, and asserts that it was right.
pub fn jvm_goes_round() {
    let rounds = || {
        let said = fs::read_to_string(HELD_SAYS).unwrap_or_default();
        assert!(!said.starts_with("wrong"), "the heap is not what it was: {said}");
        said.strip_prefix("ok ").and_then(|round| round.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let before = rounds();
    // The next one may have begun before.
    until("the JVM has looked at its heap", || rounds() >= before + 2);
}

/// Version and unit of Debian's cluster of PostgreSQL.
pub fn postgresql() -> (String, String) {
    let clusters = done("pg_lsclusters", &["-h"]);
    let version = clusters.split_whitespace().next().expect("a cluster");
    (version.to_owned(), format!("postgresql@{version}-main.service"))
}

/// Debian's cluster of PostgreSQL, on a node.
pub fn postgresql_on(node: u32) -> Pinned {
    let (_, unit) = postgresql();
    let server = Pinned::start(&unit, node);
    until("it answers", || run("pg_isready", &["-q"]).status.success());
    server
}

/// A client of PostgreSQL that stays connected, so that the process that serves it stays as well.
#[derive(Debug)]
pub struct Session {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Session {
    pub fn new() -> Self {
        // Line by line, also into a pipe.
        let psql = ["stdbuf", "-oL", "psql", "-q", "-A", "-t", "-X"];
        let arguments = [&["-u", "postgres", "--"][..], &psql].concat();
        let mut command = Command::new("runuser");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, input, output }
    }

    /// Runs one statement and returns what it gives.
    pub fn ask(&mut self, statement: &str) -> String {
        writeln!(self.input, "{statement};\n\\echo done").expect("it listens");
        let lines = self.output.by_ref().map(|line| line.expect("text"));
        let lines: Vec<_> = lines.take_while(|line| line != "done").collect();
        lines.join("\n")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn redis_comes_home_with_its_data() {
    let _balancing = Setting::numa_balancing(false);
    let _system = with_frames();
    let server = redis_on(1);
    server.pin(0);
    redis_takes("second");
    let digest = redis(&["debug", "digest"]);
    server.comes_home(server.pid(), own);
    assert_eq!(redis(&["debug", "digest"]), digest);
    assert_eq!(redis(&["dbsize"]), "49152");
}

#[test]
fn postgresql_comes_home_with_its_data() {
    let _balancing = Setting::numa_balancing(false);
    let _system = with_frames();
    let server = postgresql_on(1);
    let mut session = Session::new();
    session.ask("drop table if exists kept");
    session.ask("create table kept (id integer, words text)");
    let rows = |from: u32, to: u32| {
        format!(
            "insert into kept select id, repeat(md5(id::text), 8) from generate_series({from}, {to}) id"
        )
    };
    session.ask(&rows(1, 100_000));
    server.pin(0);
    session.ask(&rows(100_001, 140_000));
    let sum = "select count(*), sum(hashtext(words)::bigint) from kept";
    let before = session.ask(sum);
    assert!(before.starts_with("140000|"), "{before}");
    // The buffers are shared by all of its processes. This one has used them.
    let pid = session.ask("select pg_backend_pid()").parse().expect("a pid");
    server.comes_home(pid, Truth::segments);
    assert_eq!(session.ask(sum), before);
    session.ask("drop table kept");
}

/// A program that uses a service, outside of its unit. It ends when this value is dropped.
#[derive(Debug)]
pub struct Load(Child);

impl Load {
    pub fn new(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        let command = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap_or_else(|error| panic!("{program}: {error}")))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn assert_runs(&mut self) {
        assert_eq!(self.0.try_wait().expect("a child"), None, "the load has ended");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Processes that were forked since the machine has started.
fn forks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("readable");
    let line = stat.lines().find_map(|line| line.strip_prefix("processes "));
    line.and_then(|count| count.parse().ok()).expect("a number")
}

/// Brings a server home that forks all the time, and asserts that at most 1 % of the memory that `nodes` picks of
/// this process stays.
fn comes_home_while_it_forks(
    server: &Pinned,
    load: &mut Load,
    pid: i32,
    nodes: impl Fn(&Truth) -> Nodes,
) {
    let begun = forks();
    until("the server forks", || forks() >= begun + 8);
    let before = nodes(&Truth::of(pid));
    assert!(off(&before, 0) >= REMOTE, "{}: {before:?}", server.unit);
    let output = run("/usr/bin/numalocctl", &["migrate", "--unit", &server.unit]);
    load.assert_runs();
    let after = nodes(&Truth::of(pid));
    println!("{}: {before:?}, then {after:?}, {} forks", server.unit, forks() - begun);
    let all: u64 = after.values().sum();
    assert!(off(&after, 0) <= all / 100, "{}: {before:?}, then {after:?}: {output:?}", server.unit);
}

/// The command line of pgbench as the user of the cluster, for runuser.
pub fn pgbench<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["-u", "postgres", "--", "pgbench"], arguments, &["postgres"]].concat()
}

/// PostgreSQL on a node with the tables of pgbench in its buffers, a session, and the process that serves this.
pub fn pgbench_on(node: u32) -> (Pinned, Session, i32) {
    let server = postgresql_on(node);
    done("runuser", &pgbench(&["-i", "-q", "-s", "3"]));
    let mut session = Session::new();
    session.ask("create extension if not exists pg_prewarm");
    session.ask("select pg_prewarm('pgbench_accounts')");
    let pid = session.ask("select pg_backend_pid()").parse().expect("a pid");
    (server, session, pid)
}

/// A backend for each transaction maps the shared buffers.
#[test]
fn postgresql_that_forks_for_each_transaction_comes_home() {
    let _balancing = Setting::numa_balancing(false);
    let _system = with_frames();
    let (server, mut session, pid) = pgbench_on(1);
    server.pin(0);
    let mut load = Load::new("runuser", &pgbench(&["-S", "-C", "-n", "-c", "3", "-T", "3600"]));
    comes_home_while_it_forks(&server, &mut load, pid, Truth::segments);
    assert_eq!(session.ask("select count(*) from pgbench_accounts"), "300000");
}

/// The memory of the first process is shared with each child by fork(2).
#[test]
fn apache_that_forks_for_each_connection_comes_home() {
    const AVAILABLE: &str = "/etc/apache2/conf-available/numaloc.conf";
    let _balancing = Setting::numa_balancing(false);
    let _system = with_frames();
    // Patterns that no request meets fill the heap that the children share. (Each `Alias` would be compared with all before it.)
    let aliases = (0..40_000).map(|number| format!("AliasMatch ^/unused/{number}$ /var/www\n"));
    let limits = "MaxConnectionsPerChild 1\nKeepAlive Off\n";
    let unused =
        format!("<VirtualHost 127.0.0.1:81>\n{}</VirtualHost>\n", aliases.collect::<String>());
    fs::write(AVAILABLE, format!("{limits}{unused}")).expect("written");
    done("a2dismod", &["-f", "-q", "mpm_event"]);
    done("a2enmod", &["-q", "mpm_prefork"]);
    done("a2enconf", &["-q", "numaloc"]);
    let server = Pinned::start("apache2.service", 1);
    server.pin(0);
    let mut load = Load::new("ab", &["-q", "-r", "-c", "3", "-n", "10000000", "http://127.0.0.1/"]);
    comes_home_while_it_forks(&server, &mut load, server.pid(), own);
}

#[test]
fn a_jvm_comes_home_with_its_heap() {
    let _balancing = Setting::numa_balancing(false);
    let _system = with_frames();
    let jvm = jvm_on(1);
    jvm.pin(0);
    jvm.comes_home(jvm.pid(), own);
    jvm_goes_round();
}
