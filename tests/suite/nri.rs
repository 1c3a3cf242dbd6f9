//! The real `numaloc-nri` between the real numalocd and the runtime side of NRI (`tests/nri/runtime`) in several versions: containers
//! exist only there, so all is about what the three say to each other. `tests/nri/run` runs these tests on this machine.

use crate::{
    app::until,
    containerd::plugin::{Plugin, until_known},
    cpus::cpus_of,
    daemon::Daemon,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use numaloc_sys::fixture::skipped;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

/// A runtime with containers that exist only in its memory. It is killed when this value is dropped.
struct Runtime {
    socket: PathBuf,
    process: Option<(Child, BufReader<ChildStdout>)>,
    /// The containers that run, with their CPUs. Containers outlive their runtime.
    containers: BTreeMap<String, String>,
}

impl Runtime {
    fn start(socket: &Path) -> Self {
        let mut runtime =
            Self { socket: socket.to_owned(), process: None, containers: BTreeMap::new() };
        runtime.spawn();
        runtime
    }

    /// Starts it again, with the containers that there are.
    fn spawn(&mut self) {
        let program = env::var_os("NUMALOC_NRI_RUNTIME").unwrap_or_else(|| "nri-runtime".into());
        let log = fs::File::options().create(true).append(true).open(self.log_file());
        let mut child = Command::new(program)
            .arg(&self.socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.expect("a log"))
            .spawn()
            .expect("nri-runtime starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        self.process = Some((child, output));
        for (id, cpus) in self.containers.clone() {
            self.expect(&json!({"do": "have", "id": id, "cpus": cpus}));
        }
        self.expect(&json!({"do": "listen"}));
    }

    fn kill(&mut self) {
        if let Some((mut child, _)) = self.process.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    fn log_file(&self) -> PathBuf {
        self.socket.with_file_name("runtime.log")
    }

    fn ask(&mut self, command: &Value) -> Value {
        let (child, output) = self.process.as_mut().expect("it runs");
        let input = child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{command}").expect("it reads");
        let mut line = String::new();
        output.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{command}: {error}: '{line}'"))
    }

    fn expect(&mut self, command: &Value) -> Value {
        let answer = self.ask(command);
        assert_eq!(answer["error"], "", "{command}");
        answer
    }

    /// Creates and starts a container. Returns what it has after all plugins.
    fn create(&mut self, id: &str, cpus: &str) -> Value {
        self.containers.insert(id.to_owned(), cpus.to_owned());
        self.expect(&json!({"do": "create", "id": id, "cpus": cpus}))
    }

    fn remove(&mut self, id: &str) {
        self.containers.remove(id);
        self.expect(&json!({"do": "remove", "id": id}));
    }

    /// Waits until the daemon knows all containers and no others.
    fn until_known(&self, daemon: &Daemon) {
        until_known(daemon, self.containers.keys().map(String::as_str));
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.log_file()).unwrap_or_default();
            eprintln!("the log of the runtime:\n{log}");
        }
    }
}

/// All three, connected: a first container is known.
struct Trio {
    plugin: Plugin,
    runtime: Runtime,
    daemon: Daemon,
}

impl Trio {
    /// The plugin has these lines in its configuration.
    fn start(config: &str) -> Self {
        let daemon = Daemon::start();
        let mut runtime = Runtime::start(&daemon.dir.join("nri.sock"));
        runtime.containers.insert("first".to_owned(), "0".to_owned());
        runtime.expect(&json!({"do": "have", "id": "first", "cpus": "0"}));
        let file = daemon.dir.join("nri.toml");
        fs::write(&file, format!("user = \"root\"\n{config}")).expect("a configuration");
        let [file, socket] = [&file, &runtime.socket].map(|path| path.display().to_string());
        let arguments = [
            ["--source", "nri"],
            ["--nri-socket", &socket],
            ["--endpoint", &daemon.endpoint()],
            ["--config", &file],
        ];
        let arguments = arguments.as_flattened().iter().map(|&word| word.to_owned()).collect();
        let plugin = Plugin::with(arguments, &daemon);
        let trio = Self { plugin, runtime, daemon };
        trio.until_known();
        trio
    }

    fn until_known(&self) {
        self.runtime.until_known(&self.daemon);
    }

    /// Number of times that the plugin got the list of all containers.
    fn synchronizations(&self) -> usize {
        self.plugin.log().matches("synchronized containers").count()
    }
}

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid as i32), signal).expect("it runs");
}

#[test]
fn containers_come_change_and_go() {
    let mut trio = Trio::start("");
    let made = trio.runtime.create("a", "0");
    assert_eq!((&made["mems"], &made["shares"]), (&json!(""), &json!(0)));
    trio.runtime.create("b", "0");
    trio.until_known();
    trio.runtime.expect(&json!({"do": "update", "id": "a", "cpus": "1"}));
    trio.runtime.remove("b");
    trio.until_known();
    assert_eq!(trio.synchronizations(), 1, "{}", trio.plugin.log());
}

/// Containers outlive it, and change while it is away.
#[test]
fn a_runtime_that_is_killed_is_caught_up_with() {
    let mut trio = Trio::start("");
    for round in 0..4 {
        let [goes, stays] = ["goes", "stays"].map(|name| format!("{name}{round}"));
        trio.runtime.create(&goes, "0");
        trio.runtime.create(&stays, "0");
        trio.until_known();
        trio.runtime.kill();
        trio.runtime.containers.remove(&goes);
        trio.runtime.containers.insert(format!("comes{round}"), "0".to_owned());
        trio.runtime.spawn();
        trio.until_known();
    }
}

/// The runtime gives a plugin two seconds for each call, and continues without it.
#[test]
fn a_plugin_that_hangs_lets_containers_start() {
    let mut trio = Trio::start("align_mems = \"preferred\"\n");
    signal(trio.plugin.pid(), Signal::SIGSTOP);
    trio.runtime.create("meanwhile", "0");
    trio.runtime.create("after", "0");
    trio.runtime.remove("first");
    signal(trio.plugin.pid(), Signal::SIGCONT);
    trio.until_known();
    assert!(trio.synchronizations() >= 2, "{}", trio.plugin.log());
}

/// While numalocd does not answer, the plugin does: the runtime drops none that answers in time.
#[test]
fn handlers_do_not_wait_for_the_daemon() {
    let mut trio = Trio::start("align_mems = \"preferred\"\n");
    signal(trio.daemon.pid(), Signal::SIGSTOP);
    for number in 0..20 {
        trio.runtime.create(&format!("c{number}"), "0");
    }
    trio.runtime.remove("c7");
    signal(trio.daemon.pid(), Signal::SIGCONT);
    trio.until_known();
    assert_eq!(trio.synchronizations(), 1, "{}", trio.plugin.log());
}

/// More than fits into one message (4 MiB). From 0.7 on the runtime sends it in several; before, it cannot have so
/// many.
#[test]
fn a_long_list_comes_in_several_messages() {
    const CONTAINERS: usize = 600;
    let mut trio = Trio::start("");
    trio.plugin.kill();
    for number in 0..CONTAINERS {
        let id = format!("c{number}");
        let have = json!({"do": "have", "id": id, "cpus": "0", "bytes": 16 << 10});
        trio.runtime.expect(&have);
        trio.runtime.containers.insert(id, "0".to_owned());
    }
    trio.plugin.spawn();
    trio.until_known();
}

/// The runtime drops the one that takes too long, and this one is asked all the same.
#[test]
fn a_slow_plugin_beside_it_takes_nothing_away() {
    let mut trio = Trio::start("");
    trio.runtime.expect(&json!({"do": "beside", "index": "10", "milliseconds": 60_000}));
    trio.runtime.create("a", "0");
    trio.runtime.create("b", "0");
    trio.until_known();
    assert_eq!(trio.synchronizations(), 1, "{}", trio.plugin.log());
}

/// Whether there is a second node. Without, no container is bound to memory.
fn has_two_nodes() -> bool {
    let has = Path::new("/sys/devices/system/node/node1").exists();
    if !has {
        skipped("this machine has one node");
    }
    has
}

/// Creates containers until the plugin has learned the nodes from the daemon.
fn until_aligned(trio: &mut Trio) {
    let mut number = 0;
    until("a container is bound to node 1", || {
        number += 1;
        trio.runtime.create(&format!("early{number}"), &cpus_of(1))["mems"] == "1"
    });
}

#[test]
fn its_adjustments_stand_beside_those_of_others() {
    if !has_two_nodes() {
        return;
    }
    // Before it and after it.
    for index in ["10", "95"] {
        let mut trio = Trio::start("align_mems = \"preferred\"\n");
        until_aligned(&mut trio);
        trio.runtime.expect(&json!({"do": "beside", "index": index, "shares": 512}));
        let made = trio.runtime.create("both", &cpus_of(0));
        assert_eq!((&made["mems"], &made["shares"]), (&json!("0"), &json!(512)), "{index}");
        trio.until_known();
    }
}

#[test]
fn nodes_that_an_earlier_plugin_has_chosen_stay() {
    if !has_two_nodes() {
        return;
    }
    let mut trio = Trio::start("align_mems = \"preferred\"\n");
    until_aligned(&mut trio);
    trio.runtime.expect(&json!({"do": "beside", "index": "10", "mems": "0-1"}));
    assert_eq!(trio.runtime.create("chosen", &cpus_of(0))["mems"], "0-1");
    trio.until_known();
}

/// NRI lets one plugin alone set a value. The runtime refuses such a container, and says who has set it.
#[test]
fn a_later_plugin_that_chooses_nodes_conflicts() {
    if !has_two_nodes() {
        return;
    }
    let mut trio = Trio::start("align_mems = \"preferred\"\n");
    until_aligned(&mut trio);
    trio.runtime.expect(&json!({"do": "beside", "index": "95", "mems": "0-1"}));
    let answer = trio.runtime.ask(&json!({"do": "create", "id": "x", "cpus": cpus_of(0)}));
    let error = answer["error"].as_str().expect("a text");
    assert!(error.contains("numaloc-nri") && error.contains("beside"), "{error}");
    trio.until_known();
}

#[test]
fn other_cpus_end_the_binding_to_the_first_nodes() {
    if !has_two_nodes() {
        return;
    }
    let mut trio = Trio::start("align_mems = \"preferred\"\n");
    until_aligned(&mut trio);
    assert_eq!(trio.runtime.create("a", &cpus_of(0))["mems"], "0");
    let update = json!({"do": "update", "id": "a", "cpus": cpus_of(1)});
    assert_eq!(trio.runtime.expect(&update)["mems"], "0-1");
    trio.until_known();
}
