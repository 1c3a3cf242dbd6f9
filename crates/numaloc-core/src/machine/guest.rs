//! Guests with NUMA nodes of their own: which memory and which vCPUs of a virtual machine make each of them.
//!
//! The program that runs a guest maps the memory of each node of the guest and has a thread for each vCPU. The memory
//! that a vCPU uses is, for an operating system that knows NUMA, mostly the memory of its own node. The nodes of a
//! guest are called cells here, as libvirt does.

use crate::machine::{ids::CpuSet, threads::Threads};

/// The properties of a guest that its program got on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Its cells, in the order in which they were given.
    pub cells: Vec<GuestCell>,
    /// Its memory, in the order in which the program maps it.
    pub memory: Vec<GuestMemory>,
}

/// A NUMA node of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestCell {
    /// Its number in the guest.
    pub id: u32,
    /// CPUs of the host that at least one of its vCPU threads may run on; none if no such thread is known.
    pub cpus: CpuSet,
    /// The threads that run its vCPUs, with their CPUs.
    pub threads: Vec<Threads>,
}

/// A part of a guest's memory that the program maps in one piece (a memory backend of QEMU).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestMemory {
    /// Its name on the command line.
    pub id: String,
    /// Its length in bytes; `None` if it is not known.
    pub bytes: Option<u64>,
    /// The kind of mapping that backs it.
    pub backing: Backing,
    /// The cell that it belongs to, by its index in [`Guest::cells`].
    pub cell: Option<usize>,
}

/// Kind of mapping that backs a part of a guest's memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backing {
    /// Private anonymous memory (memory-backend-ram, share=off).
    Anonymous,
    /// Shared anonymous memory (memory-backend-ram, share=on).
    SharedAnonymous,
    /// A memfd (memory-backend-memfd).
    Memfd,
    /// A file with this path, or one in the directory with this path.
    File(String),
    /// Any other backend.
    Other,
}

impl Guest {
    /// The names of the memory of a cell.
    pub fn memory_of(&self, cell: usize) -> impl Iterator<Item = &str> {
        let of_cell = self.memory.iter().filter(move |memory| memory.cell == Some(cell));
        of_cell.map(|memory| &*memory.id)
    }
}
