//! Starts the application under test and talks to it.

pub use numaloc_tests::{run, until};

use crate::place;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Write},
    ops::Range,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

/// An option of regions that are to stay where they are: eight words, spread over each page, tell their pages apart. To write and check
/// all words of a full node takes longer than most tests.
pub const FEW_WORDS: &str = "every=64";

/// Processes that keep the CPUs of the home node busy and do nothing else. `place` may change their layout.
pub fn spinners(count: usize, place: impl FnOnce(Layout) -> Layout) -> Vec<App> {
    let spinner = place(Layout::remote(&["anon:64K"]).load("spin"));
    (0..count).map(|number| spinner.start(&format!("spinner{number}"))).collect()
}

/// The regions, CPUs and nodes of an application.
#[derive(Clone, Debug)]
pub struct Layout {
    pub cpu_nodes: Option<String>,
    pub mem_node: u32,
    /// Its memory comes from wherever the kernel takes it by default, instead of `mem_node`.
    pub is_fresh: bool,
    /// Nodes that memory comes from in turn, instead of `mem_node`, and whether the host's weights count.
    pub interleave: Option<(String, bool)>,
    pub copy_node: Option<u32>,
    pub load: &'static str,
    pub user: Option<u32>,
    pub cgroup: Option<PathBuf>,
    pub ipc: Option<String>,
    pub helper: bool,
    /// As numaloc-target takes them. `{}` stands for a name that each process has for itself.
    pub regions: Vec<String>,
}

impl Layout {
    /// Memory on one node and CPUs on another (see [`crate::place`]). All memory is rewritten and checked over and over.
    pub fn remote(regions: &[&str]) -> Self {
        let regions = regions.iter().map(|&region| region.to_owned()).collect();
        Self {
            cpu_nodes: Some(place::cpus().to_string()),
            mem_node: place::away(),
            is_fresh: false,
            interleave: None,
            copy_node: None,
            load: "write",
            user: None,
            cgroup: None,
            ipc: None,
            helper: false,
            regions,
        }
    }
    /// Runs on the CPUs of these nodes; on all CPUs if the list is empty.
    pub fn on(mut self, nodes: impl ToString) -> Self {
        self.cpu_nodes = Some(nodes.to_string()).filter(|nodes| !nodes.is_empty());
        self
    }
    /// Has its memory on this node.
    pub fn memory_on(mut self, node: u32) -> Self {
        self.mem_node = node;
        self
    }
    /// Has its memory where the kernel puts it by default.
    pub fn fresh(mut self) -> Self {
        self.is_fresh = true;
        self
    }
    /// Has its memory on these nodes in turn, with the host's weights if `weighted`.
    pub fn interleaved(mut self, nodes: &str, weighted: bool) -> Self {
        self.interleave = Some((nodes.to_owned(), weighted));
        self
    }
    /// Has its own copies of pages that a child shares on this node.
    pub fn copies_on(mut self, node: u32) -> Self {
        self.copy_node = Some(node);
        self
    }
    /// Has another load in the second thread: `spin` or `idle`.
    pub fn load(mut self, load: &'static str) -> Self {
        self.load = load;
        self
    }
    pub fn owned_by(mut self, uid: u32) -> Self {
        self.user = Some(uid);
        self
    }
    /// Has a thread that may run on all CPUs and sleeps.
    pub fn with_helper(mut self) -> Self {
        self.helper = true;
        self
    }
    /// Enters this cgroup before it maps anything.
    pub fn within(mut self, cgroup: impl Into<PathBuf>) -> Self {
        self.cgroup = Some(cgroup.into());
        self
    }

    /// Is in an IPC namespace of its own.
    pub fn in_new_ipc(mut self) -> Self {
        self.ipc = Some("new".into());
        self
    }
    /// Is in the IPC namespace of another application.
    pub fn in_ipc_of(mut self, app: &App) -> Self {
        self.ipc = Some(app.pid().to_string());
        self
    }

    /// The command that starts it. `name` replaces `{}`.
    pub fn command(&self, name: &str) -> Command {
        let target = env::var_os("NUMALOC_TARGET").unwrap_or_else(|| "numaloc-target".into());
        let mut command = Command::new(target);
        if let Some(nodes) = &self.cpu_nodes {
            command.args(["--cpu-nodes", nodes]);
        }
        if let Some(uid) = self.user {
            command.uid(uid).gid(uid);
        }
        match &self.interleave {
            Some((nodes, weighted)) => {
                command.args(["--interleave", nodes]);
                command.args(weighted.then_some("--weighted"));
            }
            None if self.is_fresh => {}
            None => {
                command.args(["--mem-node", &self.mem_node.to_string()]);
            }
        }
        command.args(["--load", self.load]);
        if let Some(node) = self.copy_node {
            command.args(["--copy-node", &node.to_string()]);
        }
        if let Some(cgroup) = &self.cgroup {
            command.arg("--cgroup").arg(cgroup);
        }
        if let Some(ipc) = &self.ipc {
            command.args(["--ipc", ipc]);
        }
        if self.helper {
            command.arg("--helper");
        }
        command.args(self.regions.iter().map(|region| region.replace("{}", name)));
        command
    }

    /// Starts it; [`App::ready`] waits until its memory is there.
    pub fn spawn(&self, name: &str) -> App {
        App::spawn(self.command(name))
    }

    /// Starts it as a control process: idle, in no cgroup. It has answered once, so that it allocates nothing more.
    pub fn control(&self) -> App {
        let regions = self.regions.iter().map(|region| format!("{region}:{FEW_WORDS}")).collect();
        let layout = Self { regions, cgroup: None, load: "idle", ..self.clone() };
        let mut app = layout.start("control");
        app.check();
        app
    }

    /// Starts it and waits until its memory is there.
    pub fn start(&self, name: &str) -> App {
        let mut app = self.spawn(name);
        app.ready();
        app
    }
}

/// A running application. It is killed when this value is dropped.
#[derive(Debug)]
pub struct App {
    child: Child,
    input: ChildStdin,
    output: Receiver<String>,
    ranges: BTreeMap<String, Range<u64>>,
}

impl App {
    fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = child.stdin.take().expect("piped");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (sender, output) = channel();
        thread::spawn(move || {
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line)).ok();
        });
        Self { child, input, output, ranges: BTreeMap::new() }
    }

    /// Waits until it has printed its regions. To be called after `exec`, too.
    pub fn ready(&mut self) {
        self.ranges.clear();
        loop {
            let line = self.line();
            if line == "ready" {
                return;
            }
            let mut words = line.split_whitespace().skip(1);
            let (name, range) = (words.next().expect("a name"), words.next().expect("a range"));
            self.ranges.insert(name.to_owned(), addresses(range));
        }
    }

    /// Has it move a region to other addresses (mremap(2)), an odd number of pages away.
    pub fn remap(&mut self, name: &str) {
        let range = addresses(&self.ask(&format!("remap {name}")));
        self.ranges.insert(name.to_owned(), range);
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn range(&self, name: &str) -> Range<u64> {
        self.ranges.get(name).unwrap_or_else(|| panic!("no region {name}")).clone()
    }

    pub fn ranges(&self) -> impl Iterator<Item = (&str, Range<u64>)> {
        self.ranges.iter().map(|(name, range)| (name.as_str(), range.clone()))
    }

    /// Sends a command without waiting for its answer.
    pub fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the application listens");
    }

    /// Sends a command and returns its answer.
    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.line()
    }

    /// Makes it check every byte. Returns how many pages it has checked so far.
    pub fn check(&mut self) -> u64 {
        let answer = self.ask("check");
        let pages = answer.strip_prefix("ok ").and_then(|pages| pages.parse().ok());
        pages.unwrap_or_else(|| panic!("wrong bytes in process {}: {answer}", self.pid()))
    }

    /// Stops it (SIGSTOP), or lets it continue (SIGCONT).
    pub fn hold(&self, held: bool) {
        let signal = if held { Signal::SIGSTOP } else { Signal::SIGCONT };
        kill(Pid::from_raw(self.pid()), signal).expect("a child that has not been waited for");
    }

    /// Kills it and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }

    fn line(&mut self) -> String {
        self.output.recv_timeout(numaloc_tests::DEADLINE).unwrap_or_else(|_| {
            panic!("process {} is silent; its end: {:?}", self.pid(), self.child.try_wait())
        })
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `START-END` in hexadecimal numbers.
fn addresses(range: &str) -> Range<u64> {
    let (start, end) = range.split_once('-').expect("two addresses");
    let hex = |text| u64::from_str_radix(text, 16).expect("an address");
    hex(start)..hex(end)
}
