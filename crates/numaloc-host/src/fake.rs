//! A fake host in a temporary directory, for tests and benchmarks.

mod crowd;
pub(crate) mod two_nodes;
mod vast;

pub use crowd::{Crowd, REMOTE, open_page_maps};
pub use vast::Vast;

use crate::{Roots, survey::space::AddressSpace};
use numaloc_core::{CpuSet, Identity, Process};
#[cfg(test)]
use numaloc_core::{Extent, Kind, Mappers, Mapping, Mempolicy, Pages, Residency};
use std::{fs, os::unix::fs::symlink, path::PathBuf, sync::Arc};

/// Anonymous memory of the first process alone, of which nothing is resident.
#[cfg(test)]
pub(crate) fn anonymous(start: u64, bytes: u64) -> Extent {
    Extent {
        mappings: vec![Mapping { process: 0, start }],
        pages: Pages::All,
        bytes,
        kind: Kind::Anonymous,
        policy: Mempolicy::Default,
        hugetlb_bytes: None,
        mappers: Mappers::default(),
        stripe: None,
        rule: None,
        name: "".into(),
        residency: Residency::default(),
    }
}

/// A tree with `proc`, `sys`, `cgroup`, `run`, `var` and `etc` in it.
pub struct Fake {
    directory: tempfile::TempDir,
}

impl Fake {
    /// A host whose /proc and /sys have no files yet.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory") }
    }
    /// In memory where /dev/shm exists, for a tree of very many files.
    fn in_memory() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self { directory: directory.expect("a temporary directory") }
    }
    /// Where a file of the tree is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }
    /// Roots of its tree.
    pub fn roots(&self) -> Roots {
        let path = |name| self.path(name);
        Roots {
            proc: path("proc"),
            sys: path("sys"),
            cgroup: path("cgroup"),
            run: path("run"),
            var: path("var"),
            etc: path("etc"),
            ..Roots::default()
        }
    }
    /// Writes a file and the directories above it.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    }
    /// Makes a link to another place of the tree, and the directories above it.
    #[cfg(test)]
    pub(crate) fn link(&self, at: &str, to: &str) {
        let at = self.path(at);
        fs::create_dir_all(at.parent().expect("a parent")).expect("directories");
        symlink(self.path(to), at).expect("a link");
    }
    /// A process with one thread per list of CPUs; the first thread is the leader. It maps nothing.
    pub(crate) fn process(&self, pid: i32, comm: &str, threads: &[&str]) {
        for (tid, cpus) in (pid..).zip(threads) {
            let directory = if tid == pid { format!("{pid}") } else { format!("{pid}/task/{tid}") };
            self.stat(&format!("proc/{directory}"), tid, comm, 'S', 0x40_0000);
            self.status(&format!("proc/{directory}"), pid, tid, cpus, true);
            self.write(&format!("proc/{directory}/maps"), "");
            // One entry: only the pagemap of an address space that has ended is empty.
            self.write(&format!("proc/{directory}/pagemap"), "\0\0\0\0\0\0\0\0");
            let [link, to] = if tid == pid {
                [format!("proc/{pid}/task/{tid}"), format!("../../{pid}")]
            } else {
                [format!("proc/{tid}"), directory]
            };
            fs::create_dir_all(self.path(&format!("proc/{pid}/task"))).expect("directories");
            let _ = fs::remove_file(self.path(&link)); // of the process as it was before
            symlink(to, self.path(&link)).expect("a link");
        }
    }
    /// The memory of a process that is there.
    pub(crate) fn space(&self, pid: i32) -> AddressSpace {
        let identity = Identity { pid, start_time: 1000 + u64::from(pid.unsigned_abs()) };
        let (comm, mems_allowed) = ("app".into(), Default::default());
        let (cpus, threads, device_nodes) = (CpuSet::new(), Vec::new(), Default::default());
        let process = Process {
            identity,
            comm,
            cpus,
            threads,
            mems_allowed,
            device_nodes,
            swap_bytes: 0,
            page_table_bytes: 0,
            guest: None,
        };
        let space = AddressSpace::open(&Arc::new(self.roots()), process);
        space.expect("it can be opened").expect("it is there")
    }
    /// Ends a thread. The first thread of a process stays as a zombie, as it does while other threads live.
    pub(crate) fn end(&self, pid: i32, tid: i32) {
        let directory = format!("proc/{pid}/task/{tid}");
        if tid == pid {
            self.write_stat(&directory, tid, "ended", ('Z', 0), &format!("{} 0 0", 1000 + pid));
            self.status(&directory, pid, tid, "0-3", false);
        } else {
            fs::remove_file(self.path(&format!("proc/{tid}"))).expect("a link");
            fs::remove_dir_all(self.path(&directory)).expect("a thread");
        }
    }
    /// Changes the nodes that the cpuset of a thread allows.
    pub(crate) fn mems(&self, pid: i32, tid: i32, nodes: &str) {
        let path = format!("proc/{pid}/task/{tid}/status");
        let status = fs::read_to_string(self.path(&path)).expect("a status file");
        let kept = status.lines().filter(|line| !line.starts_with("Mems_allowed_list"));
        let kept: String = kept.map(|line| format!("{line}\n")).collect();
        self.write(&path, &format!("{kept}Mems_allowed_list:\t{nodes}\n"));
    }
    pub(crate) fn remove(&self, pid: i32) {
        fs::remove_dir_all(self.path(&format!("proc/{pid}"))).expect("a process");
    }
    /// The process executes another program.
    pub(crate) fn exec(&self, pid: i32) {
        let memory = format!("{} {} 0 0 1 2 3", 1000 + pid, 4096);
        self.write_stat(&format!("proc/{pid}"), pid, "new", ('S', 0), &memory);
    }
    /// A stat file of a thread that has memory and started at tick 1000 + pid.
    pub(crate) fn stat(&self, directory: &str, pid: i32, comm: &str, state: char, flags: u32) {
        self.stat_at(directory, pid, comm, (state, flags), 1000 + pid);
    }
    /// As [`Self::stat`], with another start time.
    pub(crate) fn stat_at(
        &self,
        directory: &str,
        pid: i32,
        comm: &str,
        (state, flags): (char, u32),
        start_time: i32,
    ) {
        let memory = format!("{start_time} 4096 1 0 4194304 4198400 140000000000000");
        self.write_stat(directory, pid, comm, (state, flags), &memory);
    }
    /// The fields from `starttime` on are `memory`, followed by zeros.
    fn write_stat(
        &self,
        directory: &str,
        pid: i32,
        comm: &str,
        (state, flags): (char, u32),
        memory: &str,
    ) {
        self.write_work(directory, pid, comm, (state, flags, 0), memory);
    }
    /// The stat file of a thread that has used this number of clock ticks of CPU time.
    pub(crate) fn worked(&self, pid: i32, tid: i32, comm: &str, ticks: u64) {
        let memory = format!("{} 4096 1 0 4194304 4198400 140000000000000", 1000 + tid);
        let directory = format!("proc/{pid}/task/{tid}");
        self.write_work(&directory, tid, comm, ('S', 0x40_0000, ticks), &memory);
    }
    fn write_work(
        &self,
        directory: &str,
        pid: i32,
        comm: &str,
        (state, flags, ticks): (char, u32, u64),
        memory: &str,
    ) {
        let zeros = " 0".repeat(52 - 21 - memory.split(' ').count());
        let text = format!(
            "{pid} ({comm}) {state} 1 1 1 0 -1 {flags} 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {memory}{zeros}"
        );
        self.write(&format!("{directory}/stat"), &text);
    }
    /// A status file with the fields that are read.
    pub(crate) fn status(&self, directory: &str, tgid: i32, tid: i32, cpus: &str, memory: bool) {
        let memory = if memory {
            "VmSize:\t    3060 kB\nRssAnon:\t      48 kB\nVmPTE:\t      44 kB\nVmSwap:\t      12 kB\n"
        } else {
            ""
        };
        let text = format!(
            "Name:\tx\nTgid:\t{tgid}\nPid:\t{tid}\n{memory}Cpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0,64\n"
        );
        self.write(&format!("{directory}/status"), &text);
    }
}
