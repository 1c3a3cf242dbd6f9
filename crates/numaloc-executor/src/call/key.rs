//! What the folios of one call have in common.

use crate::limits::rooms::Pool;
use numaloc_core::{MakeRoom, NodeId, Options};
use numaloc_sys::MoveFlag;

/// What the folios of one call have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Index of the process whose thread id is passed to the call.
    pub process: usize,
    /// Which pages the call may move.
    pub flag: MoveFlag,
    /// The target node. One node for the whole call, because a change of target ends the kernel's page list.
    pub to: NodeId,
    /// Page size in bytes, if they are hugetlb pages: these come from a pool of their own.
    pub hugetlb_bytes: Option<u64>,
    /// What may be done there to make room.
    pub make_room: MakeRoom,
}

impl Key {
    /// The pool that the pages come from. Where hugetlb pages may also come from free memory, all count as free memory: the room
    /// may then be estimated too low while other workers put pages there, but never too high.
    pub fn pool(&self, options: &Options) -> Pool {
        let supply = options.supply(self.hugetlb_bytes);
        (self.to, self.hugetlb_bytes.filter(|_| !supply.free_memory))
    }
}
