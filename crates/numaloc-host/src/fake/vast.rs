//! A fake host with one process that has as much memory as is wanted, two pages on one node and two on the other in turns.

use super::{Fake, two_nodes};
use crate::{Roots, Target};
use numaloc_core::{Topology, number, page_size};
use std::{fs::File, os::unix::fs::FileExt};

/// No process of this machine has such a pid (include/linux/threads.h, PID_MAX_LIMIT).
const PID: i32 = 5_000_000;
/// First address of its memory.
const BEGIN: u64 = 0x4000_0000;
/// Pages that are written at a time. Their frames begin again each time.
const PERIOD: u64 = 1 << 15;

/// A process on the CPUs of two nodes, with private memory.
pub struct Vast {
    fake: Fake,
}

impl Vast {
    /// `bytes`, of which the first two pages are on node 1, the next two on node 0, and so on: so half of them fit any beginning of an
    /// interleaved mapping. The page map takes 1/512 of them.
    pub fn new(bytes: u64) -> Self {
        let vast = Self { fake: Fake::in_memory() };
        two_nodes::write(&vast.fake);
        vast.fake.process(PID, "vast", &["0-7"]);
        let (directory, end) = (format!("proc/{PID}"), BEGIN + bytes);
        let write = |name: &str, text: &str| vast.fake.write(&format!("{directory}/{name}"), text);
        let status =
            format!("Name:\tvast\nTgid:\t{PID}\nPid:\t{PID}\nVmSize:\t{} kB\n", bytes / 1024);
        write("status", &format!("{status}Cpus_allowed_list:\t0-7\nMems_allowed_list:\t0-1\n"));
        write("cgroup", "0::/\n");
        write("maps", &format!("{BEGIN:x}-{end:x} rw-p 00000000 00:00 0\n"));
        let (pages, half) = (bytes / page_size(), bytes / page_size() / 2);
        let counts = format!("anon={pages} dirty={pages} N0={half} N1={half} kernelpagesize_kB=4");
        write("numa_maps", &format!("{BEGIN:x} default {counts}\n"));
        vast.pagemap(&format!("{directory}/pagemap"), pages);
        vast
    }

    fn pagemap(&self, path: &str, pages: u64) {
        let frame = |page: u64| {
            two_nodes::frame(1 - page / 2 % 2) + (page / 4 * 2 + page % 2) % (PERIOD / 2)
        };
        let period: Vec<u8> = (0..PERIOD).flat_map(|page| two_nodes::entry(frame(page))).collect();
        let file = File::create(self.fake.path(path)).expect("a file");
        for page in (0..pages).step_by(number::index(PERIOD)) {
            let bytes = number::index((pages - page).min(PERIOD)) * 8;
            let at = (BEGIN / page_size() + page) * 8;
            file.write_all_at(&period[..bytes], at).expect("room for the page map");
        }
    }

    /// The process with this memory, as a target.
    pub fn target() -> Target {
        Target::Pid(PID)
    }

    /// Where the host's files are read.
    pub fn roots(&self) -> Roots {
        self.fake.roots()
    }

    /// Two nodes of four CPUs each, with 4 TiB free on either.
    pub fn topology() -> Topology {
        two_nodes::topology(4 << 40)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Surveyor, resolve};
    use numaloc_core::{Options, Placement};

    #[test]
    fn of_pages_that_take_turns_in_pairs_half_move() {
        const BYTES: u64 = 256 << 20;
        let vast = Vast::new(BYTES);
        let (roots, topology) = (vast.roots(), Vast::topology());
        let look = |placement| {
            let options = Options { placement, ..Options::default() };
            let found = resolve(&roots, &[Vast::target()], &topology).expect("it is there");
            let surveyor = Surveyor::new(&roots, &topology, &options);
            let (_, seen) = surveyor.survey(found.processes, None).expect("it can be read");
            let plan = seen.plan(&topology, &options);
            plan.moves.iter().map(numaloc_core::Move::remote_bytes).sum::<u64>()
        };
        assert_eq!(look(Placement::Interleave("0-1".parse().ok())), BYTES / 2);
        assert_eq!(look(Placement::Interleave(None)), BYTES / 2);
        assert_eq!(look(Placement::Home), 0, "both are its nodes");
    }
}
