//! Ways to make room on a full node.

use super::Findings;
use crate::doc::Check;
use numaloc_host::node_room::{Permission, RoomRights};

/// The way page cache is dropped, the owners whose files' cache may move, and whether memory can be compacted for huge
/// pages.
pub fn make_room(found: &Findings) -> Check {
    const NAME: &str = "make_room";
    let Some(RoomRights { reclaim, compact, demotes }) = found.ways else {
        return Check::ok(NAME, "by kswapd; no node has files to ask for more");
    };
    let dropped = match (reclaim, demotes) {
        (Permission::Absent, _) => "page cache by kswapd (nodeN/reclaim: not in this kernel)",
        (_, true) => "page cache by kswapd (nodeN/reclaim would demote it)",
        (Permission::Allowed, _) => "page cache by nodeN/reclaim, else by kswapd",
        (Permission::Refused, _) => "page cache by kswapd (nodeN/reclaim: not allowed)",
    };
    let blocks = match compact {
        Permission::Absent => "only free huge pages (nodeN/compact: not in this kernel)",
        Permission::Allowed => "huge pages by nodeN/compact",
        Permission::Refused => "only free huge pages (nodeN/compact: not allowed)",
    };
    let moved = match found.facts.capabilities.fowner {
        true => "move-cache: all files",
        false => "move-cache: only your own files (no CAP_FOWNER)",
    };
    let text = format!("{dropped}; {blocks}; {moved}");
    if [reclaim, compact].contains(&Permission::Refused) {
        return Check::warning(
            NAME,
            text,
            "run as root, where /sys can be written; for the daemon there is a drop-in, numalocd-room.conf (see /usr/share/doc/numaloc/daemon.md)",
        );
    }
    Check::ok(NAME, text)
}
