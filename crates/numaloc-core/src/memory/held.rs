//! Files in memory that processes have open and have not mapped.

/// A file in memory that a process has open and no process of the target has mapped: no page map shows its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldFile {
    /// The index of the process in the plan.
    pub process: usize,
    /// Descriptor of the file in that process.
    pub fd: i32,
    /// Its path as the kernel has it, or the name of a memfd (/proc/PID/fd).
    pub name: String,
    /// Bytes that are allocated for it, in memory or in swap.
    pub bytes: u64,
}
