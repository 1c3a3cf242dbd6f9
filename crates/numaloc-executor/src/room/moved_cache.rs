//! What a run knows of page cache that moves away from its targets: how much has left, and which files are still to be looked at.

use numaloc_core::{
    CacheStop, NodeId, NodeMemory, NodeSet, Topology, cache_move::others, exchange::Balance,
};
use numaloc_host::UsedFile;
use numaloc_sys::{MoveFlag, move_pages};
use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io,
    sync::{Mutex, MutexGuard},
};

/// As long as less than this has become free and more can, calls wait for more: each has a price.
const ENOUGH: u64 = 16 << 20;

/// The page cache that a run moves away from its targets.
#[derive(Debug)]
pub struct MovedCache {
    /// Nodes that it may go to.
    pub others: NodeSet,
    numbers: Mutex<BTreeMap<NodeId, Numbers>>,
    /// Files still to be looked at. One worker at a time has them, for longer than others may wait.
    pub walks: Mutex<BTreeMap<NodeId, Walk>>,
}

/// What has left a node, and what has come there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// In bytes.
    pub balance: Balance,
    /// Why no more is available, if so.
    pub stop: Option<CacheStop>,
}

impl Numbers {
    /// What the node can take of the memory for which cache has left it, if `wanted` are to be moved and `free` may be taken.
    fn room(&self, wanted: u64, free: u64) -> u64 {
        let bytes = self.balance.vacated_bytes().min(free);
        if self.stop.is_some() || bytes >= wanted.min(ENOUGH) { bytes } else { 0 }
    }
}

impl MovedCache {
    /// Nothing has moved yet. `targets`: those of the run.
    pub fn new(topology: &Topology, targets: &NodeSet) -> Self {
        let others = others(topology, targets);
        Self { others, numbers: Mutex::default(), walks: Mutex::default() }
    }

    /// What a node can take of the memory for which cache has left it, with this memory there, if `wanted` bytes are to be moved.
    /// Its reserve does not count: as much is free afterwards as before. But its kswapd is not to be woken.
    pub fn room(&self, node: NodeId, memory: &NodeMemory, wanted: u64) -> u64 {
        let free = memory.free_bytes.saturating_sub(memory.low_watermark_bytes);
        self.of(node).room(wanted, free)
    }

    /// So many bytes have come to a node in place of cache.
    pub fn came(&self, node: NodeId, bytes: u64) {
        self.numbers().entry(node).or_default().balance.in_bytes += bytes;
    }

    /// So many bytes of cache have left a node.
    pub fn left(&self, node: NodeId, bytes: u64) {
        self.numbers().entry(node).or_default().balance.out_bytes += bytes;
    }

    /// No more is available on a node.
    pub fn end(&self, node: NodeId, stop: CacheStop) {
        self.numbers().entry(node).or_default().stop.get_or_insert(stop);
    }

    /// What has left a node, and what has come there.
    pub fn of(&self, node: NodeId) -> Numbers {
        self.numbers().get(&node).copied().unwrap_or_default()
    }

    fn numbers(&self) -> MutexGuard<'_, BTreeMap<NodeId, Numbers>> {
        self.numbers.lock().expect("no worker panics while it holds this")
    }
}

/// The files of a node, and how far they have been looked at.
#[derive(Debug, Default)]
pub struct Walk {
    /// `None`: they have not been looked for yet.
    pub files: Option<VecDeque<UsedFile>>,
    /// The file in hand.
    pub open: Option<Open>,
    /// Pages that others map, too, are left where they are: this process may not move them.
    own_only: bool,
    /// Nodes where this process may put nothing.
    pub refused: NodeSet,
}

/// A file that is open.
#[derive(Debug)]
pub struct Open {
    /// For reading.
    pub file: File,
    /// Its length.
    pub bytes: u64,
    /// How far it has been looked at, in bytes.
    pub offset: u64,
    /// Nodes that its users may have memory on.
    pub mems_allowed: NodeSet,
}

impl Walk {
    /// Moves pages that this process maps.
    ///
    /// # Errors
    /// Those of move_pages(2).
    pub fn call(&mut self, addresses: &[u64], to: NodeId) -> io::Result<()> {
        let mut status = vec![0; addresses.len()];
        // The pages are reached through this process's own mapping.
        let mut call = |flag| move_pages(0, addresses, to.0, &mut status, flag);
        if !self.own_only {
            match call(MoveFlag::All) {
                // Without CAP_SYS_NICE.
                Err(error) if error.raw_os_error() == Some(nix::libc::EPERM) => {
                    self.own_only = true
                }
                result => return result.map(drop),
            }
        }
        call(MoveFlag::Own).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::Node;

    const NODE: NodeId = NodeId(0);
    const MIB: u64 = 1 << 20;

    fn moved_cache() -> MovedCache {
        let node = |id| Node {
            id: NodeId(id),
            cpus: id.to_string().parse().expect("a list"),
            memory: NodeMemory { total_bytes: 1 << 30, ..NodeMemory::default() },
        };
        MovedCache::new(&Topology::new([node(0), node(1)], []), &[NODE].into_iter().collect())
    }

    fn memory(free_bytes: u64) -> NodeMemory {
        NodeMemory { free_bytes, low_watermark_bytes: 2 * MIB, ..NodeMemory::default() }
    }

    #[test]
    fn what_has_left_is_room_until_as_much_has_come() {
        let moved = moved_cache();
        assert_eq!(moved.others, [NodeId(1)].into_iter().collect());
        assert_eq!(moved.room(NODE, &memory(90 * MIB), MIB), 0);
        moved.left(NODE, 24 * MIB);
        assert_eq!(moved.room(NODE, &memory(90 * MIB), 64 * MIB), 24 * MIB);
        assert_eq!(moved.room(NodeId(1), &memory(90 * MIB), MIB), 0, "that is of node 0");
        moved.came(NODE, 20 * MIB);
        assert_eq!(moved.room(NODE, &memory(90 * MIB), MIB), 4 * MIB);
        moved.came(NODE, 4 * MIB);
        assert_eq!(moved.room(NODE, &memory(90 * MIB), MIB), 0);
    }

    #[test]
    fn kswapd_is_not_woken() {
        let moved = moved_cache();
        moved.left(NODE, 24 * MIB);
        assert_eq!(moved.room(NODE, &memory(20 * MIB), 64 * MIB), 18 * MIB);
        assert_eq!(moved.room(NODE, &memory(2 * MIB), MIB), 0);
    }

    #[test]
    fn little_is_room_only_when_no_more_can_come() {
        let moved = moved_cache();
        moved.left(NODE, 5 * MIB);
        assert_eq!(moved.room(NODE, &memory(90 * MIB), 8 * MIB), 0);
        assert_eq!(moved.room(NODE, &memory(90 * MIB), 4 * MIB), 5 * MIB);
        moved.end(NODE, CacheStop::NoFiles);
        moved.end(NODE, CacheStop::Stuck);
        assert_eq!(moved.room(NODE, &memory(90 * MIB), 8 * MIB), 5 * MIB);
        assert_eq!(moved.of(NODE).stop, Some(CacheStop::NoFiles), "the first reason counts");
    }
}
