//! The page cache of files, and what has moved of it.

use super::NodeBytes;
use serde::Serialize;

/// The document of `locality --file`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FilesDoc {
    /// Files of which something is cached, those with most first.
    pub files: Vec<FileDoc>,
    /// How many files have been looked at.
    pub file_count: u64,
    /// What is cached of all of them.
    pub cached: Vec<NodeBytes>,
    /// Files below a directory that have not been looked at.
    pub left_out: Vec<LeftOutFileDoc>,
}

/// The page cache of a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileDoc {
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// What of it is in memory, by node.
    pub cached: Vec<NodeBytes>,
    /// How much of that processes have mapped; null without CAP_SYS_ADMIN.
    pub mapped_bytes: Option<u64>,
    /// What of it is on other nodes than it belongs on; null if nothing was asked for.
    pub bytes_to_move: Option<u64>,
    /// The memory policy of the tmpfs that it is on, which decides where its new pages go; null without one.
    pub mount_policy: Option<String>,
}

/// A file that has not been looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOutFileDoc {
    pub path: String,
    pub reason: String,
}

/// The document of `migrate --file`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FilesMovedDoc {
    /// All files afterwards; `None` if the look was interrupted.
    pub after: Option<FilesDoc>,
    /// What was on other nodes than it belongs on when the run came to it.
    pub found_bytes: u64,
    pub moved_bytes: u64,
    /// What was truncated or dropped meanwhile.
    pub vanished_bytes: u64,
    /// What has not moved, by reason.
    pub left: Vec<LeftBytesDoc>,
    /// What moved, from node to node.
    pub flows: Vec<FlowDoc>,
    pub elapsed_seconds: f64,
    /// How often move_pages(2) was called, and how long the longest call took.
    pub calls: u64,
    pub longest_call_seconds: f64,
}

/// Bytes that have not moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftBytesDoc {
    /// As [`numaloc_core::Reason`] names it.
    pub reason: &'static str,
    pub bytes: u64,
}

/// Bytes that have moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlowDoc {
    pub from_node: u32,
    pub to_node: u32,
    pub bytes: u64,
}
