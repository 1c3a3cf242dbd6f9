//! Page cache of files.

use numaloc_core::NodeId;
use std::collections::BTreeMap;

/// The page cache of the files that a target names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachedFiles {
    /// Files of which something is in memory, the largest cache first.
    pub files: Vec<CachedFile>,
    /// How many files were looked at.
    pub count: u64,
    /// Files and directories that were not looked at, each with the reason, as text for people.
    pub left_out: Vec<(String, String)>,
}

/// The page cache of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachedFile {
    /// Its path.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Bytes in memory by node.
    pub nodes: BTreeMap<NodeId, u64>,
    /// Bytes of these that processes have mapped; `None`: not readable.
    pub mapped_bytes: Option<u64>,
    /// Bytes on other nodes than they belong on; `None`: no plan was asked for.
    pub move_bytes: Option<u64>,
    /// The memory policy of the tmpfs that it is on.
    pub mount_policy: Option<String>,
}
