//! Movers: tools that bring a process's memory to another node, as they are installed, and simple programs of this crate.

pub mod bare;
mod cpuset;

use crate::{
    hold::{Holder, Pages},
    subject::{ANOTHER_BUILD, BARE},
};
use anyhow::{Context, Result, bail, ensure};
use bare::Calls;
use nix::{
    sys::{
        resource::{UsageWho, getrusage},
        time::TimeValLike,
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};
use numaloc_tests::cpus::pinned;
use serde_json::Value;
use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

/// The node to which all benchmarks bring memory. The target's CPUs are on it.
pub const HOME: u32 = 0;
/// The node from which the memory comes.
pub const AWAY: u32 = 1;

/// The program under measurement, looked up on PATH.
pub const OURS: &str = "numalocctl";

/// The exit code of numalocctl when something has not moved. Whether that is so is read from numa_maps.
const PARTLY: i32 = 6;

/// Checks that this machine has these nodes.
///
/// # Errors
/// A node is missing, or has no CPUs.
pub fn ensure_nodes(nodes: &[u32]) -> Result<()> {
    for node in nodes {
        let path = format!("/sys/devices/system/node/node{node}/cpulist");
        let cpus = fs::read_to_string(&path).with_context(|| {
            format!(
                "{path}: nodes {nodes:?} are needed; without --native there is a machine with them"
            )
        })?;
        ensure!(!cpus.trim().is_empty(), "node {node} has no CPUs");
    }
    Ok(())
}

#[derive(Clone, Debug, PartialEq)]
pub struct Mover {
    pub name: String,
    how: How,
}

#[derive(Clone, Debug, PartialEq)]
enum How {
    Nothing(Duration),
    Migratepages,
    Cpuset,
    Bare { subpages: bool, calls: Calls },
    Numalocctl { program: PathBuf, options: Vec<String> },
}

/// The cost of one move.
#[derive(Clone, Debug)]
pub struct Turn {
    /// From the start of the program to its end.
    pub wall: Duration,
    /// User and system time of the program; `None` if kernel threads do the work.
    pub cpu: Option<Duration>,
    /// Bytes that the program has read of files; `None`: it is not known.
    pub read_bytes: Option<u64>,
    /// The JSON output of numalocctl.
    pub report: Option<Value>,
}

impl Mover {
    /// Moves nothing for this long.
    pub fn nothing(time: Duration) -> Self {
        Self { name: "idle".into(), how: How::Nothing(time) }
    }

    /// migratepages(8): migrate_pages(2) for the whole process.
    pub fn migratepages() -> Self {
        Self { name: "migratepages".into(), how: How::Migratepages }
    }

    /// A write to cpuset.mems of a cgroup v2 that contains the process.
    pub fn cpuset() -> Self {
        Self { name: "cpuset.mems".into(), how: How::Cpuset }
    }

    /// One page in each call of move_pages(2).
    pub fn one_page_a_call() -> Self {
        Self::bare("one page a call", false, Calls { batch: 1, pause_us: 0, threads: 1 })
    }

    /// All pages in one call of move_pages(2).
    pub fn all_in_one_call() -> Self {
        Self::bare("all in one call", false, Calls { batch: u64::MAX, pause_us: 0, threads: 1 })
    }

    /// 512 addresses in each call, one for each base page even inside of huge pages, and 2 ms of sleep after each call.
    pub fn paced() -> Self {
        let calls = Calls { batch: 512, pause_us: 2000, threads: 1 };
        Self::bare("512 a call, 2 ms between", true, calls)
    }

    /// Knows the addresses of all pages that have to move, and passes at most 65,536 of them a call from two threads.
    pub fn bare_calls() -> Self {
        Self::bare(BARE, false, Calls { batch: 65_536, pause_us: 0, threads: 2 })
    }

    fn bare(name: &str, subpages: bool, calls: Calls) -> Self {
        Self { name: name.into(), how: How::Bare { subpages, calls } }
    }

    /// `numalocctl migrate` with these options.
    pub fn numalocctl(name: &str, options: &str) -> Self {
        let options = options.split_whitespace().map(str::to_owned).collect();
        let how = How::Numalocctl { program: OURS.into(), options };
        Self { name: format!("numalocctl {name}"), how }
    }

    /// The same with another build of numalocctl.
    pub fn by(mut self, another: &Path) -> Self {
        if let How::Numalocctl { program, .. } = &mut self.how {
            *program = another.into();
            self.name = format!("{}{ANOTHER_BUILD}", self.name);
        }
        self
    }

    /// Adds the same with `program`, another build of numalocctl, for each mover that is numalocctl.
    pub fn add_another_build(movers: &mut Vec<Self>, program: Option<&Path>) {
        let is_ours = |mover: &&Self| matches!(mover.how, How::Numalocctl { .. });
        let ours: Vec<Self> = movers.iter().filter(is_ours).cloned().collect();
        movers.extend(
            program.iter().flat_map(|program| ours.iter().map(|mover| mover.clone().by(program))),
        );
    }

    /// numalocctl with a profile. If the installed numalocctl has no profiles yet, the nearest options stand for `fast`, and the
    /// defaults for the others.
    pub fn profile(profile: &str) -> Result<Self> {
        let options = match (has_profiles()?, profile) {
            (true, _) => format!("--profile={profile}"),
            (false, "fast") => "--workers=2 --batch-bytes=16M".to_owned(),
            (false, _) => String::new(),
        };
        Ok(Self::numalocctl(profile, &options))
    }

    /// The same with this many workers.
    pub fn with_workers(mut self, workers: u32) -> Self {
        if let How::Numalocctl { options, .. } = &mut self.how {
            options.retain(|option| !option.starts_with("--workers"));
            options.push(format!("--workers={workers}"));
            let s = if workers == 1 { "" } else { "s" };
            self.name = format!("{}, {workers} worker{s}", self.name);
        }
        self
    }

    /// Whether its name contains one of these words; also true without words.
    pub fn is_one_of(&self, words: &[String]) -> bool {
        words.is_empty() || words.iter().any(|word| self.name.contains(word))
    }

    pub fn is_numalocctl(&self) -> bool {
        matches!(self.how, How::Numalocctl { .. })
    }

    pub fn moves(&self) -> bool {
        !matches!(self.how, How::Nothing(_))
    }

    /// The node that all memory is on once it has run. `None`: on several, as its options place it.
    pub fn destination(&self) -> Option<u32> {
        let is_place = |option: &String| option.starts_with("--place");
        match &self.how {
            How::Numalocctl { options, .. } if options.iter().any(is_place) => None,
            _ => Some(if self.moves() { HOME } else { AWAY }),
        }
    }

    /// Brings all of a process's memory home. With `aside` the program runs on the other node's CPUs, unless it chooses its CPUs
    /// itself.
    pub fn turn(&self, holder: &Holder, aside: bool) -> Result<Turn> {
        match &self.how {
            How::Cpuset => cpuset::turn(holder),
            How::Bare { subpages, calls } => {
                let pages = if *subpages { Pages::Base } else { holder.args().pages };
                run(bare::command(holder, pages.bytes(), *calls)?, aside)
            }
            _ => self.turn_of(holder.pid(), aside),
        }
    }

    /// The same for a process of which only the pid is known.
    pub fn turn_of(&self, pid: i32, aside: bool) -> Result<Turn> {
        let pid = pid.to_string();
        match &self.how {
            How::Nothing(time) => {
                std::thread::sleep(*time);
                Ok(Turn { wall: *time, cpu: None, read_bytes: None, report: None })
            }
            How::Migratepages => {
                let mut command = Command::new("migratepages");
                command.args([pid, AWAY.to_string(), HOME.to_string()]);
                run(command, aside)
            }
            How::Numalocctl { program, options } => {
                let mut command = Command::new(program);
                command.arg("migrate");
                command.arg("--standalone");
                command.args(["--no-progress", "-o", "json", "--pid"]);
                command.arg(pid).args(options);
                run(command, aside && !has_profiles()?)
            }
            How::Cpuset | How::Bare { .. } => bail!("{} needs more than a pid", self.name),
        }
    }
}

/// Moves the page cache of a file to a node by `numalocctl migrate --file`.
///
/// # Errors
/// It fails. Its left-over is printed.
pub fn move_file(path: &Path, node: u32) -> Result<Turn> {
    let mut command = Command::new(OURS);
    command.args(["migrate", "--no-progress", "-o", "json", "--to", &node.to_string(), "--file"]);
    command.arg(path);
    run(command, false)
}

/// Runs a command of numalocctl that only looks at a process.
///
/// # Errors
/// It fails.
pub fn look(program: &Path, command: &str, pid: i32) -> Result<()> {
    let mut command_line = Command::new(program);
    command_line.args([command, "--standalone", "--pid"]).arg(pid.to_string());
    let status = command_line.stdout(Stdio::null()).status().context("numalocctl")?;
    ensure!(status.success(), "{command_line:?}: {status}");
    Ok(())
}

/// Whether the installed numalocctl has profiles. Since it has them, it also chooses its CPUs itself.
fn has_profiles() -> Result<bool> {
    static HELP: OnceLock<bool> = OnceLock::new();
    if let Some(&known) = HELP.get() {
        return Ok(known);
    }
    let output = Command::new(OURS).args(["migrate", "--help"]).output();
    let output = output.context("numalocctl is not on the path")?;
    Ok(*HELP.get_or_init(|| String::from_utf8_lossy(&output.stdout).contains("--profile")))
}

/// Runs a program to its end; with `aside` on the other node's CPUs.
fn run(mut command: Command, aside: bool) -> Result<Turn> {
    let used = children()?;
    let begin = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut ended = || {
        let mut child = command.spawn()?;
        let pid = child.id();
        let mut said = Vec::new();
        // What it writes fits into the pipes, or it is read here.
        child.stdout.take().map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut said))?;
        let read_bytes = read_by(pid);
        let output = child.wait_with_output()?;
        Ok::<_, io::Error>((Output { stdout: said, ..output }, read_bytes))
    };
    let ended = if aside { pinned(AWAY, ended) } else { ended() };
    let wall = begin.elapsed();
    let (output, read_bytes) = ended.with_context(|| format!("{command:?}"))?;
    let said = [&output.stdout, &output.stderr].map(|of| String::from_utf8_lossy(of).into_owned());
    let report: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    if output.status.code() == Some(PARTLY) {
        let why = |path| report.as_ref().and_then(|report| report.pointer(path));
        let (left, stop) = (why("/outcome/account/left"), why("/outcome/calls/cache_stop"));
        println!("says that a part is left, {left:?}, cache {stop:?}: {command:?}");
    } else {
        ensure!(output.status.success(), "{command:?}: {}\n{}", output.status, said.concat());
    }
    Ok(Turn { wall, cpu: Some(children()?.saturating_sub(used)), read_bytes, report })
}

/// Bytes that a child process has read of all files once it has ended, and before it is waited for (/proc/PID/io, `rchar`). `None`: the
/// kernel does not count them.
fn read_by(pid: u32) -> Option<u64> {
    let child = Pid::from_raw(i32::try_from(pid).ok()?);
    waitid(Id::Pid(child), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).ok()?;
    let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
}

/// User and system time of all child processes that have ended and were waited for.
pub fn children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = usage.user_time() + usage.system_time();
    Ok(Duration::from_micros(time.num_microseconds().try_into()?))
}
