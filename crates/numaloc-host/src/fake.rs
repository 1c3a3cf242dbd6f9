//! A fake host in a temporary directory, for tests.

use crate::Roots;
use std::{fs, path::PathBuf};

/// A tree with `proc`, `sys`, `cgroup` and `run` in it.
pub(crate) struct Fake {
    directory: tempfile::TempDir,
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }
    pub(crate) fn roots(&self) -> Roots {
        let path = |name| self.path(name);
        Roots { proc: path("proc"), sys: path("sys"), cgroup: path("cgroup"), run: path("run") }
    }
    /// Writes a file and the directories above it.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    }
    /// A process with one thread per list of CPUs; the first thread is the leader.
    pub(crate) fn process(&self, pid: i32, comm: &str, threads: &[&str]) {
        self.write(&format!("proc/{pid}/maps"), "");
        self.stat(&format!("proc/{pid}"), pid, comm, 'S', 0x40_0000);
        self.status(&format!("proc/{pid}"), pid, pid, threads[0], true);
        for (tid, cpus) in (pid..).zip(threads) {
            self.stat(&format!("proc/{pid}/task/{tid}"), tid, comm, 'S', 0x40_0000);
            self.status(&format!("proc/{pid}/task/{tid}"), pid, tid, cpus, true);
            if tid != pid {
                self.status(&format!("proc/{tid}"), pid, tid, cpus, true);
            }
        }
    }
    /// A stat file, started at tick 1000 + pid.
    pub(crate) fn stat(&self, directory: &str, pid: i32, comm: &str, state: char, flags: u32) {
        let start_time = 1000 + pid;
        let zeros = "0 ".repeat(30);
        let text = format!(
            "{pid} ({comm}) {state} 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {start_time} {zeros}\n"
        );
        self.write(&format!("{directory}/stat"), text.trim_end_matches(" \n"));
    }
    /// A status file with what is read of it.
    pub(crate) fn status(&self, directory: &str, tgid: i32, tid: i32, cpus: &str, memory: bool) {
        let memory = if memory { "VmSize:\t    3060 kB\n" } else { "" };
        let text = format!(
            "Name:\tx\nTgid:\t{tgid}\nPid:\t{tid}\n{memory}Cpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0,64\n"
        );
        self.write(&format!("{directory}/status"), &text);
    }
}
