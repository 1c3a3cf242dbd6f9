//! A fake host with any number of processes, each with a little memory on the wrong node.

use super::{Fake, two_nodes};
use crate::{OpenFiles, Roots, Target};
use numaloc_core::Topology;
use std::{fs, ops::Range, os::unix::fs::symlink};

/// The first pid. No process of this machine has such a pid (include/linux/threads.h, PID_MAX_LIMIT).
const FIRST: usize = 5_000_000;

/// The mappings of each process: private memory on node 1 and on node 0, and a library that all of them map.
const MAPS: &str = "\
10000-18000 rw-p 00000000 00:00 0
20000-24000 rw-p 00000000 00:00 0
40000-44000 r-xp 00000000 fe:01 7 /usr/lib/library.so
";
const NUMA_MAPS: &str = "\
10000 default anon=8 dirty=8 N1=8 kernelpagesize_kB=4
20000 default anon=4 dirty=4 N0=4 kernelpagesize_kB=4
40000 default file=/usr/lib/library.so mapped=4 N0=4 kernelpagesize_kB=4
";
/// Bytes of each process that are remote.
pub const REMOTE: u64 = 0x8000;

/// A host of two nodes with a cgroup of many processes on the CPUs of node 0.
pub struct Crowd {
    fake: Fake,
}

impl Crowd {
    /// Makes a host with this number of processes.
    pub fn new(processes: usize) -> Self {
        let crowd = Self { fake: Fake::in_memory() };
        crowd.host();
        let pids: Vec<usize> = (FIRST..FIRST + processes).collect();
        let lines: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        crowd.fake.write("cgroup/cgroup.procs", "");
        crowd.fake.write("cgroup/crowd/cgroup.procs", &lines);
        pids.into_iter().for_each(|pid| crowd.process(pid));
        crowd
    }

    /// Starts processes with these numbers, beside the first one, which are then all in the cgroup.
    pub fn start(&self, numbers: Range<usize>) {
        let pids = numbers.clone().map(|number| FIRST + number);
        let lines: String =
            std::iter::once(FIRST).chain(pids).map(|pid| format!("{pid}\n")).collect();
        numbers.for_each(|number| self.process(FIRST + number));
        self.fake.write("cgroup/crowd/cgroup.procs", &lines);
    }

    /// Ends the process with this number.
    pub fn end(&self, number: usize) {
        self.fake.remove(signed(FIRST + number));
    }

    /// Writes a file of the host.
    pub fn write(&self, path: &str, text: &str) {
        self.fake.write(path, text);
    }

    /// The cgroup that all are in.
    pub fn target() -> Target {
        Target::Cgroup("/crowd".into())
    }

    /// Its root directories. At most `open_files` page maps are open at a time.
    pub fn roots(&self, open_files: usize) -> Roots {
        Roots { open_files: OpenFiles::at_most(open_files), ..self.fake.roots() }
    }

    /// Two nodes of four CPUs each, with 512 GiB free on either.
    pub fn topology() -> Topology {
        two_nodes::topology(1 << 39)
    }

    /// Files that all processes have in common.
    fn host(&self) {
        let fake = &self.fake;
        two_nodes::write(fake);
        fake.write("proc/all/maps", MAPS);
        fake.write("proc/all/numa_maps", NUMA_MAPS);
        fake.write("proc/all/cgroup", "0::/crowd\n");
        let [home, away] = [0, 1].map(two_nodes::frame);
        let runs = [(0x10, 8, away), (0x20, 4, home), (0x40, 4, home + 4)];
        two_nodes::pagemap(fake, "proc/all/pagemap", &runs);
    }

    fn process(&self, pid: usize) {
        let directory = format!("proc/{pid}");
        let code = pid << 12;
        let memory = format!("{pid} 4096 1 0 {code} {} 140000000000000", code + 1);
        self.fake.write_stat(&directory, signed(pid), "crowd", ('S', 0), &memory);
        self.fake.status(&directory, signed(pid), signed(pid), "0-3", true);
        fs::create_dir(self.fake.path(&format!("{directory}/task"))).expect("a directory");
        let link = |to: String, name: &str| {
            symlink(to, self.fake.path(&format!("{directory}/{name}"))).expect("a link");
        };
        link(format!("../../{pid}"), &format!("task/{pid}"));
        for name in ["maps", "numa_maps", "pagemap", "cgroup"] {
            link(format!("../all/{name}"), name);
        }
    }
}

/// Number of page maps that this process has open.
pub fn open_page_maps() -> usize {
    let open = fs::read_dir("/proc/self/fd").expect("/proc").flatten();
    let names = open.filter_map(|file| fs::read_link(file.path()).ok());
    names.filter(|name| name.ends_with("pagemap")).count()
}

fn signed(pid: usize) -> i32 {
    i32::try_from(pid).expect("a pid")
}
