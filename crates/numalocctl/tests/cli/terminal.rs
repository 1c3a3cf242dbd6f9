//! `top`: on a real terminal, which tmux gives, and for scripts.

use crate::{
    answers::live,
    fake::{Fake, Script},
    run::{DEADLINE, fails, interrupt, json, numalocctl, program, text, until},
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tonic::Status;

/// Most screens that are looked at for words. A live view has a new one each second, with its time.
const CHANGES_MAX: usize = 300;

/// A tmux server of its own with one window.
struct Window {
    directory: tempfile::TempDir,
}

impl Window {
    /// A window of 100 columns and 30 lines, in which a shell runs this line. `$TOP` is `numalocctl top` without a
    /// daemon.
    fn open(line: &str) -> Self {
        let window = Self { directory: tempfile::tempdir().unwrap() };
        let top = format!("TOP={} top --standalone", env!("CARGO_BIN_EXE_numalocctl"));
        let size = ["-x", "100", "-y", "30"];
        let shell = ["env", &top, "sh", "-c", line];
        let mut command = window.command(&["-f", "/dev/null", "new-session", "-d"]);
        command.args(size).args(shell);
        let output = command.output().expect("tmux is there: setup.sh installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        window
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("tmux")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.socket()).args(arguments);
        command.env_remove("NUMALOC_ENDPOINT").env("HOME", "/nonexistent").env_remove("TMUX");
        command.env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8");
        command
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("tmux");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Sends keys as tmux names them.
    fn keys(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"][..], keys].concat());
    }

    fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    /// Waits until the screen has this on it; returns the screen. It fails when the screen stays as it is for long, or
    /// has changed many times without that: on a busy host the program takes its time, so how long it runs says
    /// nothing.
    fn shows(&self, words: &str) -> String {
        let (mut last, mut since, mut changes) = (String::new(), Instant::now(), 0);
        loop {
            let screen = self.screen();
            if screen.contains(words) {
                return screen;
            }
            if screen != last {
                (last, since, changes) = (screen.clone(), Instant::now(), changes + 1);
            }
            let is_alive = since.elapsed() < DEADLINE && changes < CHANGES_MAX;
            assert!(is_alive, "no '{words}' on {changes} screens, the last one:\n{screen}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether the program has the other screen, and the mouse.
    fn taken_over(&self) -> String {
        self.ask(&["display-message", "-p", "#{alternate_on}#{mouse_any_flag}"]).trim().to_owned()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.ask(&["kill-server"]);
    }
}

/// A process to look at, with a name that no other on this host has, nor one of the same test in another run. It is
/// killed when this value is dropped.
struct Sleeper {
    child: Child,
    name: String,
    _directory: tempfile::TempDir,
}

impl Sleeper {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let name = format!("zz-top-{}", std::process::id());
        let program = directory.path().join(&name);
        // The name of a process is that of the file that it was started by.
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let child = Command::new(program)
            .arg("600")
            .env("LC_ALL", "C")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, name, _directory: directory }
    }
    fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
fn a_session_on_a_terminal() {
    let mut sleeper = Sleeper::start();
    let pid = sleeper.child.id().to_string();
    let window = Window::open("$TOP -d 200ms --cpu-budget 100; echo ended $?; exec cat");
    let screen = window.shows("workloads:");
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[0].starts_with("numalocctl top"), "{screen}");
    assert!(lines[1].contains("NODE") && lines[1].contains("CACHE"), "{screen}");
    assert!(lines[2].trim_start().starts_with('0'), "node 0: {screen}");
    assert_eq!(window.taken_over(), "11");

    window.keys(&["p"]);
    window.shows("processes:");
    window.keys(&["/"]);
    window.keys(&["-l", &sleeper.name]);
    window.keys(&["Enter"]);
    until("the process is listed and selected", || {
        let is_its = |line: &str| line.starts_with('>') && line.contains(&pid);
        window.screen().lines().any(is_its)
    });
    window.keys(&["Enter"]);
    window.shows("threads and mappings");
    // A window cannot be scrolled beyond the existing rows.
    window.shows("[heap]");
    window.keys(&["End"]);
    let screen = window.shows("[stack]");
    assert!(screen.contains("ADDRESS"), "{screen}");
    window.keys(&["Home"]);
    window.shows("TID");
    window.keys(&["Escape"]);
    window.shows("filter: ");

    window.keys(&["?"]);
    window.shows("j k PgUp PgDn, too");
    window.keys(&["?"]);
    window.keys(&["m"]);
    // On a machine of one node there is nothing to migrate to; elsewhere it asks.
    until("a migration is planned", || {
        let screen = window.screen();
        screen.contains("not migrated:") || screen.contains("y migrate")
    });
    let is_asked = window.screen().contains("y migrate");
    window.keys(&[if is_asked { "n" } else { "Enter" }]);
    until("the popup is closed", || !window.screen().contains("+--"));

    window.ask(&["resize-window", "-x", "60", "-y", "20"]);
    until("the picture is as large as the window", || {
        window.screen().lines().nth(19).is_some_and(|line| line.contains("? help"))
    });
    sleeper.kill();
    let screen = window.shows("nothing matches");
    assert!(screen.contains(&format!("process {pid} has ended")), "{screen}");

    window.keys(&["q"]);
    window.shows("ended 0");
    assert_eq!(window.taken_over(), "00", "the terminal is as before");
}

/// The process with this name in a window.
fn child_of(window: &Window) -> Option<i32> {
    let shell = window.ask(&["display-message", "-p", "#{pane_pid}"]);
    let children = format!("/proc/{0}/task/{0}/children", shell.trim());
    std::fs::read_to_string(children).ok()?.split_whitespace().next()?.parse().ok()
}

fn kill(signal: &str, pid: i32) {
    let line = format!("kill -{signal} {pid}");
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let window = Window::open("$TOP; echo ended $?; exec cat");
    window.shows("numalocctl top");
    kill("TERM", child_of(&window).expect("it runs"));
    window.shows("ended 0");
    assert_eq!(window.taken_over(), "00");
}

#[test]
fn a_panic_gives_the_terminal_back() {
    // The thread of a migration gets a stack that this program may not have by then, so what starts it panics: in the
    // thread that draws.
    let line = format!("RUST_MIN_STACK={} $TOP -d 200ms; echo ended $?; exec cat", 256 << 20);
    let window = Window::open(&line);
    let is_selected = || window.screen().lines().any(|line| line.starts_with('>'));
    until("a row is selected", is_selected);
    assert_eq!(window.taken_over(), "11");
    let pid = child_of(&window).expect("it runs");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.strip_suffix(" kB"));
    let kib: u64 = size.unwrap().trim().parse().unwrap();
    let most = format!("--as={}", (kib << 10) + (64 << 20));
    let limited = Command::new("prlimit").args(["--pid", &pid.to_string(), &most]).status();
    assert!(limited.unwrap().success());
    window.keys(&["m"]);
    let screen = window.shows("ended 101");
    assert!(screen.contains("panicked") && screen.contains("failed to spawn thread"), "{screen}");
    assert_eq!(window.taken_over(), "00", "the terminal is as before");
}

#[test]
fn a_terminal_that_goes_away_ends_it() {
    let window = Window::open("$TOP; exec cat");
    window.shows("numalocctl top");
    let pid = child_of(&window).expect("it runs");
    let runs = || Path::new(&format!("/proc/{pid}")).exists();
    assert!(runs());
    window.ask(&["kill-server"]);
    until("it ends with its terminal", || !runs());
}

#[test]
fn colours_may_be_unwanted() {
    let window = Window::open("NO_COLOR=1 $TOP -d 200ms -p");
    window.shows("processes:");
    let coloured = window.ask(&["capture-pane", "-p", "-e"]);
    for colour in ["\x1b[31m", "\x1b[33m", "\x1b[36m"] {
        assert!(!coloured.contains(colour), "{coloured:?}");
    }
    assert!(coloured.contains("7m"), "bars are inverted: {coloured:?}");
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    fails("top --standalone", 2, "-b prints");
    fails("top --standalone -o json", 2, "give -b, too");
    fails("top --columns name,rss", 2, "there are PID, NAME, HOME, MEM");
    fails("top --cpu-budget 0", 2, "expected a share of a CPU above 0 %");
}

/// The lines of JSON of a run, read as they come.
struct Lines {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Lines {
    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The first document from now on whose row of this process fits, with that row.
    fn with(&mut self, pid: u32, fits: impl Fn(&Value) -> bool) -> (Value, Value) {
        let start = Instant::now();
        loop {
            let line = self.lines.next().unwrap().unwrap();
            assert!(start.elapsed() < DEADLINE, "it did not come about: {line}");
            let document: Value = serde_json::from_str(&line).unwrap();
            let rows = document["processes"].as_array().unwrap();
            if let Some(row) = rows.iter().find(|row| row["pid"] == pid && fits(row)) {
                return (document.clone(), row.clone());
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The daemon reports the rows that a job works on, for any kind of target.
#[test]
fn the_daemons_jobs_are_on_their_rows_as_long_as_it_answers() {
    let mut fake = Fake::start(Script { live: Some(live()), ..Script::default() });
    let mut command = fake.command("top -b -d 100ms -o json");
    command.stderr(Stdio::null());
    let mut lines = Lines::of(command);
    let (document, row) = lines.with(4711, |row| !row["job"].is_null());
    let job =
        |row: &Value| (row["job"].clone(), row["held_back"].clone(), row["moved_bytes"].clone());
    let (name, why) = ("jobs/nri-5 50 %", "node 0 is busy");
    assert_eq!(job(&row), (name.into(), why.into(), (300 << 20).into()));
    assert_eq!(job(&document["workloads"][0]), (name.into(), why.into(), (500 << 20).into()));
    let (_, other) = lines.with(4712, |_| true);
    assert_eq!(job(&other), (Value::Null, Value::Null, 0.into()));
    fake.stop();
    let (_, row) = lines.with(4711, |row| row["job"].is_null());
    assert_eq!(row["moved_bytes"], 300 << 20, "what was moved stays so");
    assert!(fake.seen("ListJobs").is_empty(), "nothing is matched here");
}

#[test]
fn the_daemon_looks_where_one_is_reached() {
    let fake = Fake::start(Script { live: Some(live()), ..Script::default() });
    let output = fake.run("top -b -n 1 -d 100ms -o json");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let document = json(&output, 0);
    assert_eq!(document["source"], "daemon");
    let node = &document["nodes"][0];
    assert_eq!(node["reclaimable_bytes"], 2_u64 << 30, "{node}");
    assert_eq!(node["tier"], 4, "{node}");
    let bound = (&node["traffic_bytes_per_second"], &node["traffic_is_lower_bound"]);
    assert_eq!(bound, (&81_000_000_000_u64.into(), &true.into()), "{node}");
    let traffic = &document["traffic"];
    assert_eq!(traffic["local_bytes_per_second"], 80_400_000_000_u64, "{traffic}");
    assert_eq!(traffic["remote_bytes_per_second"], 1_200_000_000_u64, "{traffic}");
    let workload = &document["workloads"][0];
    assert_eq!(workload["traffic_bytes_per_second"], 5_000_000, "{workload}");
    assert_eq!(workload["remote_traffic_bytes_per_second"], 2_000_000, "{workload}");
    let row = &document["processes"][0];
    assert_eq!(row["pid"], 4711, "{row}");
    assert_eq!(row["cgroup"], "/redis", "{row}");
    assert_eq!(row["local_percent"], 40.0, "{row}");
    assert_eq!(row["age_seconds"], 3.0, "{row}");
    assert_eq!(row["kernel_migrated_pages"], 7, "{row}");
    assert_eq!(row["cpu_percent"], 12.5, "{row}");
    let hidden = &document["processes"][1];
    assert_eq!(hidden["is_hidden"], true, "{hidden}");
    assert!(hidden["cgroup"].is_null() && hidden["local_percent"].is_null(), "{hidden}");
    assert_eq!(document["workloads"][0]["remote_bytes"], 610_u64 << 20);
    for (name, count) in [("hidden_count", 1), ("left_out_count", 5), ("unseen_count", 0)] {
        assert_eq!(document[name], count, "{name}");
    }
    assert_eq!(document["cpu_used_percent"], 1.9);
    let output = fake.run("top -b -n 1 -d 100ms");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\ntraffic 76.0 GiB/s, remote 1.1 GiB/s\n"), "{text}");
    assert!(text.contains(" TRAFFIC ") && text.contains(" >75G "), "{text}");
}

#[test]
fn a_daemon_that_does_not_tell_is_named_and_this_program_looks_itself() {
    let denied = Status::permission_denied("you have no role");
    for (script, why) in [
        (Script::default(), "it is older than this numalocctl"),
        (Script { refuse: Some(denied), ..Script::default() }, "you have no role"),
    ] {
        let fake = Fake::start(script);
        let output = fake.run("top -b -n 1 -d 100ms -o json");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("looks itself") && said.contains(why), "{said}");
        assert_eq!(json(&output, 0)["source"], "standalone");
    }
    // An address by TCP may be another host, which cannot be read in its place. Nothing listens on port 1.
    fails(
        "top -b -n 1 --endpoint http://127.0.0.1:1",
        5,
        "cannot reach numalocd at http://127.0.0.1:1",
    );
}

#[test]
fn a_daemon_that_goes_away_beneath_the_view_is_told() {
    let mut fake = Fake::start(Script { live: Some(live()), ..Script::default() });
    let endpoint = &fake.endpoint;
    let line = format!("NUMALOC_ENDPOINT={endpoint} ${{TOP% --standalone}} -p -d 200ms; exec cat");
    let window = Window::open(&line);
    window.shows("processes:");
    window.shows("Z  daemon  by ");
    window.shows("redis-server");
    window.keys(&["Enter"]);
    window.shows("bio_close");
    window.shows("[heap]");
    let asked = fake.seen("GetLiveView");
    assert!(asked.iter().any(|request| request.contains("pid: 4711")), "{asked:?}");
    window.keys(&["Escape"]);
    fake.stop();
    let screen = window.shows("the daemon does not answer");
    assert!(screen.contains("redis-server"), "what it said last is still there: {screen}");
    window.keys(&["q"]);
    until("it ends", || window.taken_over() == "00");
}

#[test]
fn scripts_get_tables_csv_and_json() {
    let pid = std::process::id();
    let mut command = program();
    let arguments = "top --standalone -b -d 200ms --cpu-budget 100 -o json --filter";
    command.args(arguments.split(' ')).arg(pid.to_string());
    let is_full = |row: &Value| row["age_seconds"].is_f64() && row["cpu_percent"].is_number();
    let (document, row) = Lines::of(command).with(pid, is_full);
    assert!(!row["by_node"].as_array().unwrap().is_empty(), "{row}");
    assert!(!row["home_nodes"].as_array().unwrap().is_empty(), "{row}");
    assert!(document["nodes"][0]["total_bytes"].as_u64() > Some(0), "{document}");
    assert!(document["nodes"][0]["cpu_percent"].is_number(), "{document}");
    let base = "top --standalone -b -p -n 1 -d 1s --cpu-budget 100 --filter";
    let csv = text(&numalocctl(&format!("{base} {pid} -o csv --columns pid,n%l")), 0);
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(lines[0], "TIME,PID,LOCAL%,AGE");
    let nothing = text(&numalocctl(&format!("{base} no-such-process-at-all")), 0);
    assert!(nothing.contains("no rows") && nothing.contains("NODE"), "{nothing}");
}

#[test]
fn lines_come_until_ctrl_c() {
    let mut command = program();
    let arguments =
        ["top", "--standalone", "-b", "-d", "100ms", "-o", "json", "--filter", "nobody-has-this"];
    let mut child = command.args(arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        let line = lines.next().unwrap().unwrap();
        assert!(serde_json::from_str::<Value>(&line).is_ok(), "{line}");
    }
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_picture_is_as_wide_as_the_terminal() {
    let line = format!(
        "env -u COLUMNS ${{TOP%% *}} locality --standalone --draw --pid {}; sleep 600",
        std::process::id()
    );
    let window = Window::open(&line);
    let screen = window.shows("|");
    let widest = |screen: &str| screen.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!((81..=100).contains(&widest(&screen)), "{screen}");
}
