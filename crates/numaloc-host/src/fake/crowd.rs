//! A fake host with as many processes as are wanted, each with a little memory on the wrong node.

use super::Fake;
use crate::{OpenFiles, Roots, Target};
use numaloc_core::{Node, NodeId, NodeMemory, Topology};
use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, symlink},
};

/// The first pid. No process of this machine has such a pid (include/linux/threads.h, PID_MAX_LIMIT).
const FIRST: usize = 5_000_000;

/// What each process maps: private memory on node 1 and on node 0, and a library that all of them map.
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

    /// Ends the process with this number.
    pub fn end(&self, number: usize) {
        self.fake.remove((FIRST + number) as i32);
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
        let memory = NodeMemory { total_bytes: 1 << 40, free_bytes: 1 << 39, ..Default::default() };
        let node = |id, cpus: &str| Node {
            id: NodeId(id),
            cpus: cpus.parse().expect("a list"),
            memory: memory.clone(),
        };
        Topology::new([node(0, "0-3"), node(1, "4-7")], [])
    }

    /// Two nodes with one block of memory each, and this process, which may see page frames.
    fn host(&self) {
        let fake = &self.fake;
        fake.write("sys/devices/system/node/online", "0-1\n");
        fake.write("sys/devices/system/memory/block_size_bytes", "8000000\n");
        for node in [0, 1] {
            let block = format!("sys/devices/system/node/node{node}/memory{node}");
            fs::create_dir_all(fake.path(&block)).expect("a directory");
            let meminfo =
                format!("Node {node} MemTotal: 1048576 kB\nNode {node} MemFree: 524288 kB\n");
            fake.write(&format!("sys/devices/system/node/node{node}/meminfo"), &meminfo);
        }
        fake.write("proc/stat", "");
        fake.write("proc/zoneinfo", "");
        fake.write("proc/self/status", "Mems_allowed_list:\t0-1\n");
        let local = 0u8;
        let here = std::hint::black_box(&raw const local) as u64 / 4096;
        self.pagemap("proc/self/pagemap", &[(here - 256, 512, 1)]);
        fake.write("proc/all/maps", MAPS);
        fake.write("proc/all/numa_maps", NUMA_MAPS);
        fake.write("proc/all/cgroup", "0::/crowd\n");
        let on = |node: u64| (node << 15) + 64;
        self.pagemap(
            "proc/all/pagemap",
            &[(0x10, 8, on(1)), (0x20, 4, on(0)), (0x40, 4, on(0) + 4)],
        );
    }

    /// Writes a page map with pages that are present and that no other process maps. Each run is the first page, the number
    /// of pages, and the first frame.
    fn pagemap(&self, path: &str, runs: &[(u64, u64, u64)]) {
        const PRESENT_EXCLUSIVE: u64 = 1 << 63 | 1 << 56;
        let file = File::create(self.fake.path(path)).expect("a file");
        for &(page, count, frame) in runs {
            let entry = |index: u64| (PRESENT_EXCLUSIVE | (frame + index)).to_ne_bytes();
            let bytes: Vec<u8> = (0..count).flat_map(entry).collect();
            file.write_all_at(&bytes, page * 8).expect("room for a sparse file");
        }
    }

    fn process(&self, pid: usize) {
        let directory = format!("proc/{pid}");
        let code = pid << 12;
        let memory = format!("{pid} 4096 1 0 {code} {} 140000000000000", code + 1);
        self.fake.write_stat(&directory, pid as i32, "crowd", ('S', 0), &memory);
        self.fake.status(&directory, pid as i32, pid as i32, "0-3", true);
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

/// How many page maps this process has open.
pub fn open_page_maps() -> usize {
    let open = fs::read_dir("/proc/self/fd").expect("/proc").flatten();
    let names = open.filter_map(|file| fs::read_link(file.path()).ok());
    names.filter(|name| name.ends_with("pagemap")).count()
}
