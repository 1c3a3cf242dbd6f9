//! Pages of files, moved by a process that maps them itself.

use nix::libc::{EACCES, ENODEV, EPERM};
use numaloc_core::{NodeId, NodeSet};
use numaloc_sys::{MoveFlag, UNWRITTEN, move_pages};
use std::io;

/// Calls that move page cache.
#[derive(Debug, Default)]
pub struct CacheCalls {
    /// Pages that others map, too, are left where they are: this process may not move them.
    own_only: bool,
    /// Nodes where this process may put nothing.
    pub refused: NodeSet,
}

impl CacheCalls {
    /// Calls that move no pages that others map.
    pub fn own_only() -> Self {
        Self { own_only: true, ..Self::default() }
    }

    /// Moves pages that this process maps. Returns what the kernel says of each.
    ///
    /// # Errors
    /// Those of move_pages(2). If this process may put nothing on the node, that is one of the `refused` from then on.
    pub fn call(&mut self, addresses: &[u64], to: NodeId) -> io::Result<Vec<i32>> {
        let mut statuses = vec![UNWRITTEN; addresses.len()];
        // The pages are reached through this process's own mapping.
        let mut call = |flag| move_pages(0, addresses, to.0, &mut statuses, flag).map(drop);
        let result = match self.own_only {
            true => call(MoveFlag::Own),
            false => match call(MoveFlag::All) {
                // Without CAP_SYS_NICE.
                Err(error) if error.raw_os_error() == Some(EPERM) => {
                    self.own_only = true;
                    call(MoveFlag::Own)
                }
                result => result,
            },
        };
        if let Err(error) = &result {
            tracing::debug!(to = to.0, %error, "page cache");
            // It is outside of the cpuset of this process.
            if let Some(EACCES | ENODEV) = error.raw_os_error() {
                self.refused.insert(to);
            }
        }
        result.map(|()| statuses)
    }
}
