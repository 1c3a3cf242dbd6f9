//! Room that a node makes on request: its files `reclaim` and `compact` in /sys/devices/system/node/nodeN, and the
//! lists of free blocks that say whether there is need for the latter. Both files can only be written, and only by root (mode
//! 0200); a sandbox may have mounted /sys read-only besides.

use crate::{Roots, files::read, nodes::tiers};
use numaloc_core::{NodeId, page_size, pmd_pages};
use numaloc_sys::Request;
use std::{ffi::CString, fs::File, io, os::unix::ffi::OsStringExt, path::PathBuf};

/// Whether a file may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The kernel does not have it.
    Absent,
    /// The file exists, and opening it for writing fails.
    Refused,
    /// The file can be opened for writing.
    Allowed,
}

/// The requests to a node that this process may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomRights {
    /// nodeN/reclaim, from Linux 6.17 on.
    pub reclaim: Permission,
    /// nodeN/compact, which kernels with CONFIG_COMPACTION have.
    pub compact: Permission,
    /// Whether the kernel demotes pages to slower nodes (/sys/kernel/mm/numa/demotion_enabled). Asked to reclaim, it then does
    /// that instead of dropping anything (mm/vmscan.c, `can_demote`).
    pub demotes: bool,
}

/// Finds out what this process may ask a node for, without asking.
pub fn rights(roots: &Roots, node: NodeId) -> RoomRights {
    let may = |name| match File::options().write(true).open(file(roots, node, name)) {
        Ok(_) => Permission::Allowed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Permission::Absent,
        Err(_) => Permission::Refused,
    };
    let demotes = tiers::has_demotion(roots);
    RoomRights { reclaim: may("reclaim"), compact: may("compact"), demotes }
}

/// Whether to use [`reclaim`]: this process may, and cache is dropped by it.
pub fn can_reclaim(roots: &Roots, node: NodeId) -> bool {
    let ways = rights(roots, node);
    ways.reclaim == Permission::Allowed && !ways.demotes
}

/// Whether this process may have a node's memory compacted.
pub fn can_compact(roots: &Roots, node: NodeId) -> bool {
    rights(roots, node).compact == Permission::Allowed
}

/// The call that has the kernel drop about `bytes` of a node's page cache, and no anonymous memory as long as there is cache (swappiness
/// 0). It returns when that is done (mm/vmscan.c, `user_proactive_reclaim`), so it is for a companion. Whatever is wrong, the kernel
/// returns EAGAIN: less was dropped, or another task reclaims on the node, or it cannot parse the words (`reclaim_store`). Some may have
/// been dropped nevertheless.
pub fn reclaim(roots: &Roots, node: NodeId, bytes: u64) -> Request {
    write(file(roots, node, "reclaim"), format!("{bytes} swappiness=0\n"))
}

/// The call that has the kernel move a node's pages together, so that its free memory comes in large blocks. It returns when the kernel
/// has gone through the whole node (mm/compaction.c, `compact_node`), which takes seconds where there is much memory; first it waits for
/// all CPUs, as a call that moves pages does (`lru_add_drain_all`). So it is for a companion. A fatal signal ends it.
pub fn compact(roots: &Roots, node: NodeId) -> Request {
    write(file(roots, node, "compact"), "1\n".to_owned())
}

/// Free bytes of a node in blocks that a huge page fits into, without regard to watermarks; `None` if the kernel does not show
/// them (/proc/buddyinfo; mm/vmstat.c, `frag_show_print`).
pub fn huge_free_bytes(roots: &Roots, node: NodeId) -> Option<u64> {
    huge_free(&read::text(&roots.proc.join("buddyinfo")).ok()?, node)
}

fn huge_free(text: &str, node: NodeId) -> Option<u64> {
    let first = pmd_pages().ilog2() as usize;
    let mut sum = None;
    for line in text.lines() {
        // `Node 0, zone   Normal    216     55 ...`: free blocks of 1, 2, 4 ... pages.
        let Some((id, zone)) = line.strip_prefix("Node ").and_then(|line| line.split_once(','))
        else {
            continue;
        };
        if id.parse() != Ok(node.0) {
            continue;
        }
        let counts = zone.split_whitespace().skip(2).map(|count| count.parse().unwrap_or(0u64));
        let blocks = counts.enumerate().skip(first);
        let bytes: u64 =
            blocks.map(|(order, count)| count.saturating_mul(page_size() << order)).sum();
        *sum.get_or_insert(0) += bytes;
    }
    sum
}

fn file(roots: &Roots, node: NodeId, name: &str) -> PathBuf {
    roots.sys.join(format!("devices/system/node/node{node}/{name}"))
}

/// In one call, because the kernel acts on each.
fn write(path: PathBuf, text: String) -> Request {
    // A path with a zero byte names no file: the write fails, as it does for the empty path.
    let path = CString::new(path.into_os_string().into_vec()).unwrap_or_default();
    Request::Write { path, text: text.into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use numaloc_core::pmd_size;
    use numaloc_sys::Companion;
    use std::time::Duration;

    const NODE: &str = "sys/devices/system/node/node3";

    fn made(request: Request) -> io::Result<u64> {
        let mut companion = Companion::start()?;
        companion.ask(request);
        companion.answer(Duration::from_secs(60)).expect("it returns").result
    }

    #[test]
    fn blocks_of_a_node_are_summed_over_its_zones() {
        let text = "\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      0      1      1
Node 3, zone    DMA32      9      8      7      6      5      4      3      2      1      2      3
Node 3, zone   Normal      1      1      1      1      1      1      1      1      1      0      1
";
        assert_eq!(huge_free(text, NodeId(3)), Some((2 + 2 * 4) * pmd_size()));
        assert_eq!(huge_free(text, NodeId(1)), None);
        assert_eq!(huge_free("Node 3, zone Normal 5\nnonsense\n", NodeId(3)), Some(0));
    }

    #[test]
    fn a_kernel_without_the_files_offers_nothing() {
        let roots = Fake::new().roots();
        let absent =
            RoomRights { reclaim: Permission::Absent, compact: Permission::Absent, demotes: false };
        assert_eq!(rights(&roots, NodeId(3)), absent);
        assert!(!can_reclaim(&roots, NodeId(3)) && !can_compact(&roots, NodeId(3)));
        assert_eq!(huge_free_bytes(&roots, NodeId(3)), None);
        let error = made(reclaim(&roots, NodeId(3), 1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn one_write_says_how_much_and_that_nothing_is_swapped() {
        let fake = Fake::new();
        let written = |name: &str| std::fs::read_to_string(fake.path(&format!("{NODE}/{name}")));
        fake.write(&format!("{NODE}/reclaim"), "");
        fake.write(&format!("{NODE}/compact"), "");
        assert!(can_reclaim(&fake.roots(), NodeId(3)));
        made(reclaim(&fake.roots(), NodeId(3), 4096)).unwrap();
        assert_eq!(written("reclaim").unwrap(), "4096 swappiness=0\n");
        made(compact(&fake.roots(), NodeId(3))).unwrap();
        assert_eq!(written("compact").unwrap(), "1\n");
        fake.write("sys/kernel/mm/numa/demotion_enabled", "true\n");
        assert!(!can_reclaim(&fake.roots(), NodeId(3)), "it would demote");
        fake.write("sys/kernel/mm/numa/demotion_enabled", "false\n");
        assert!(can_reclaim(&fake.roots(), NodeId(3)));
    }
}
