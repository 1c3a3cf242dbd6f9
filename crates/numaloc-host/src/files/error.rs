//! Errors: what failed, on which thing, and what to do next.

use numaloc_core::{BadTiers, NodeId};
use std::{io, path::PathBuf};

/// Errors of reading the host.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum Error {
    /// No process has this pid.
    #[error(
        "no process {pid}: check the pid, and that this process sees it (/proc mounted with hidepid hides processes of other users)"
    )]
    NoProcess { pid: i32 },
    /// No process has this name.
    #[error("no process is named {name}: {}", did_you_mean(similar))]
    NoProcessNamed { name: String, similar: Vec<String> },
    /// The process that was meant has ended: another process has its pid now, or the machine has been rebooted since.
    #[error(
        "the process that had pid {pid} has ended, and another process may have this pid now: name the process again"
    )]
    OtherProcess {
        /// The pid that it had.
        pid: i32,
    },
    /// The process has ended, and its parent has not yet been told.
    #[error("process {pid} ({comm}) has ended (a zombie): it has no memory to move")]
    Ended { pid: i32, comm: String },
    /// A kernel thread has no memory of its own.
    #[error("process {pid} ({comm}) is a kernel thread: it has no memory to move")]
    KernelThread { pid: i32, comm: String },
    /// The caller may not look into the process.
    #[error(
        "no right to read {what} of process {pid} ({comm}): run as its user, or with CAP_SYS_PTRACE in its user namespace; a \
         security module may still forbid it"
    )]
    NoRights {
        pid: i32,
        comm: String,
        /// The file that could not be opened.
        what: String,
    },
    /// The process exists, but its pages cannot be read.
    #[error(
        "cannot see the pages of process {pid} ({comm}): {how} failed: {source}; try again, and see the kernel's log if it fails again"
    )]
    Pages { pid: i32, comm: String, how: &'static str, source: io::Error },
    /// The memory of the process can neither be read nor moved now: one of its threads holds the mmap_lock.
    #[error(
        "the memory of process {pid} ({comm}) cannot be read now: one of its threads holds the lock of its address space \
         (mmap_lock) and does not give it back, which a file system that does not answer can cause; see /proc/{pid}/task/*/stack, \
         and try again once it runs"
    )]
    Silent { pid: i32, comm: String },
    /// The cost of memory could not be measured.
    #[error(
        "cannot measure memory of node {memory_node} on the CPUs of node {cpu_node}: {what} failed: {source}; try again on an idle host, \
         or with less memory (--size)"
    )]
    Measure {
        cpu_node: NodeId,
        memory_node: NodeId,
        /// The system call, or what else.
        what: String,
        source: io::Error,
    },
    /// The cost of a file could not be measured.
    #[error(
        "cannot measure storage in {directory}: {what} failed: {source}; try again on an idle host, or with a smaller file (--size)"
    )]
    MeasureStorage {
        directory: PathBuf,
        /// The system call, or what else.
        what: &'static str,
        source: io::Error,
    },
    /// Files in a directory are not measured.
    #[error("cannot measure storage in {directory}: {reason}")]
    StorageRefused { directory: PathBuf, reason: String },
    /// The process maps the same memory so often that its mappings cannot be compared.
    #[error(
        "process {pid} ({comm}) maps {name} {mappings} times, and these mappings overlap too much to be compared: name a \
         target without this process"
    )]
    Overlaps {
        pid: i32,
        comm: String,
        name: String,
        /// Number of mappings of it.
        mappings: usize,
    },
    /// No such cgroup in any mounted hierarchy.
    #[error("no cgroup {path}: give its path below {root}, as in /proc/PID/cgroup")]
    NoCgroup { path: String, root: PathBuf },
    /// No cgroup has the name of this container.
    #[error(
        "no cgroup of container {id} below {root}: give the full id while it runs, or its cgroup"
    )]
    NoContainer { id: String, root: PathBuf },
    /// Several cgroups have the name of this container, pod or virtual machine.
    #[error("{target} may be {} and {}: name its cgroup", cgroups[0], cgroups[1])]
    SeveralCgroups { target: String, cgroups: [String; 2] },
    /// No container, pod or virtual machine of this name runs.
    #[error("no running {target}: {reason}")]
    NotRunning { target: String, reason: String },
    /// There are too many cgroups to look through.
    #[error("below {root} are more than {most} cgroups: name the cgroup of the container")]
    ManyCgroups {
        root: PathBuf,
        /// Largest number that is looked at.
        most: usize,
    },
    /// A cgroup path that leaves the cgroup file system.
    #[error("cgroup path {path} leads outside {root}: give a path below it, without ..")]
    CgroupOutside {
        path: String,
        /// The directory that it has to be in.
        root: PathBuf,
    },
    /// systemd knows no such unit, or it does not run, or there is no systemd.
    #[error("no running unit {unit}: {reason}; see systemctl status {unit}")]
    NoUnit { unit: String, reason: String },
    /// systemd is running but could not be asked.
    #[error(
        "cannot ask systemd for unit {unit}: {reason}; give its cgroup instead, or see systemctl status"
    )]
    Systemd { unit: String, reason: String },
    /// A property of a unit could neither be read nor set.
    #[error("cannot set {name} of unit {unit}: {reason}; see systemctl status {unit}")]
    UnitProperty {
        unit: String,
        /// The property, as in systemd.resource-control(5).
        name: String,
        reason: String,
    },
    /// The unit that has a cgroup's name is another one.
    #[error(
        "unit {unit} has {has}, and not the expected cgroup {cgroup}: nothing was changed; the manager of that cgroup has to set it"
    )]
    OtherUnit {
        unit: String,
        /// Its cgroup, or that it has none.
        has: String,
        /// The path of the cgroup that is meant, below the mount point.
        cgroup: String,
    },
    /// The CPUs of a thread could not be set.
    #[error("cannot set the CPUs of thread {tid}: {source}; run as its user or with CAP_SYS_NICE")]
    Affinity { tid: i32, source: io::Error },
    /// Another process carries advice out, or takes it back.
    #[error("another advise --apply or --undo is running: wait for its end")]
    AdviceTaken,
    /// Another process switches kernel.numa_balancing.
    #[error("{by} has switched kernel.numa_balancing for now: wait for its end")]
    BalancingTaken {
        /// The program that has switched it.
        by: &'static str,
    },
    /// The target has no process.
    #[error("{target} has no processes")]
    Empty { target: String },
    /// hwloc could not read the machine.
    #[error(
        "hwloc could not read this machine's topology: {reason}; compare with lstopo, and see that /sys is mounted"
    )]
    Hwloc { reason: String },
    /// The node does not exist, is offline or has no memory.
    #[error("node {node} {reason}; nodes with memory: {available}")]
    BadNode {
        node: u32,
        /// The reason why it is not valid.
        reason: &'static str,
        available: String,
    },
    /// A node cannot be relieved as requested.
    #[error(transparent)]
    BadRelief(#[from] numaloc_core::BadRelief),
    /// A device is not there, or nothing says which node it is attached to.
    #[error("{device}: {reason}")]
    BadDevice { device: String, reason: String },
    /// The bandwidth of nodes is not known, and weights were to follow from it.
    #[error(
        "the bandwidth of node {nodes} is not known: this kernel has no weights, HMAT has no value, and numalocctl bench has not \
         measured it; give numbers, on the command line for example --weights 0=3,1=1"
    )]
    NoBandwidth { nodes: String },
    /// A node is to be relieved by its traffic, and nothing counts that.
    #[error(
        "nothing counts how much node {node} is used: that takes memory bandwidth monitoring of the processors (resctrl, mounted at          /sys/fs/resctrl), and CPUs on each node with memory; relieve the node by its free memory"
    )]
    NotCounted { node: u32 },
    /// A placement on several nodes has only one.
    #[error(
        "the placement {placement} needs two nodes or more, and this target has node {nodes} alone: name them, on the command line with \
         --nodes or --map PATTERN={placement}:NODES"
    )]
    NarrowPlacement { placement: &'static str, nodes: String },
    /// A rule for single mappings matches none.
    #[error(
        "no mapping of the target matches '{pattern}': see the names and sizes in /proc/PID/maps, and what a pattern may be in \
         numalocctl migrate --help (--map)"
    )]
    NoMapping { pattern: String },
    /// No file has this path.
    #[error("no file {path}: check the path")]
    NoFile { path: PathBuf },
    /// The page cache of a file cannot be moved.
    #[error("the page cache of {path} cannot be moved: {reason}")]
    FileRefused { path: PathBuf, reason: String },
    /// A request does not say where the cache of files belongs.
    #[error(transparent)]
    BadGoal(#[from] numaloc_core::BadGoal),
    /// Only the owner of a file may see and move its page cache.
    #[error(
        "no right to the page cache of {path}: run as the owner of the file, or as root (CAP_FOWNER)"
    )]
    FileRights { path: PathBuf },
    /// The cpuset of a process does not allow a node that the placement names.
    #[error(
        "process {pid} ({comm}) may not have memory on node {nodes}: its cpuset allows {allowed} (cpuset.mems); name other nodes"
    )]
    NodesForbidden {
        pid: i32,
        comm: String,
        /// Nodes that it does not allow.
        nodes: String,
        /// Nodes that it allows.
        allowed: String,
    },
    /// The placement depends on page frames, which are hidden.
    #[error(
        "the placement {placement} has to see which pages are huge, and the kernel hides page frames from this process: run it as \
         root or with CAP_SYS_ADMIN, or by the daemon"
    )]
    FramesHidden { placement: &'static str },
    /// Only one node of the machine has memory.
    #[error(
        "this machine has one NUMA node with memory (node {node}): there is nowhere to move memory to"
    )]
    OneNode { node: String },
    /// The caller's `stop` returned true before the end.
    #[error("stopped on request before all memory was scanned")]
    Stopped,
    /// Memory cannot be on two tiers of this machine as the request says.
    #[error(transparent)]
    BadTiers(#[from] BadTiers),
    /// The kernel moves memory between tiers itself, and the request refuses that.
    #[error(
        "the kernel moves memory between tiers itself ({settings}): switch that off, or allow both with beside_kernel=warn"
    )]
    KernelTiers { settings: String },
    /// DAMON cannot be used to find the most used memory.
    #[error("DAMON cannot be used: {reason}; ask for another order, such as probed")]
    NoDamon { reason: String },
    /// A kernel file could not be written, or the file that notes what was changed.
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    /// A setting of the host could not be changed.
    #[error(
        "cannot change {path}: {source}; it takes root's user id, CAP_SYS_ADMIN, and a sandbox that lets it be written"
    )]
    Setting { path: PathBuf, source: io::Error },
    /// A file says something that this version does not understand.
    #[error("cannot parse {path}: {reason}; please report it with the file's content")]
    Parse { path: PathBuf, reason: String },
}

/// The class of an error. It decides the exit code and the gRPC status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request makes no sense on this machine.
    Usage,
    /// The thing named does not exist.
    NotFound,
    /// The file exists, and this process lacks a capability or ownership.
    Permission,
    /// Anything else, for example a file of the kernel that does not parse.
    Failure,
}

impl Error {
    /// The kernel's error, if a file could not be read.
    pub(crate) fn read(&self) -> Option<&io::Error> {
        match self {
            Self::Read { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The class of this error; see [`ErrorKind`].
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoProcess { .. }
            | Self::NoProcessNamed { .. }
            | Self::OtherProcess { .. }
            | Self::Ended { .. }
            | Self::NoCgroup { .. }
            | Self::NoContainer { .. }
            | Self::NotRunning { .. }
            | Self::NoUnit { .. }
            | Self::NoFile { .. }
            | Self::Empty { .. } => ErrorKind::NotFound,
            Self::NoRights { .. } | Self::FramesHidden { .. } | Self::FileRights { .. } => {
                ErrorKind::Permission
            }
            Self::Read { source, .. } | Self::Write { source, .. } | Self::Pages { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                ErrorKind::Permission
            }
            Self::Setting { source, .. }
                if matches!(
                    source.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                ErrorKind::Permission
            }
            Self::Affinity { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                ErrorKind::Permission
            }
            Self::KernelThread { .. }
            | Self::CgroupOutside { .. }
            | Self::SeveralCgroups { .. }
            | Self::BadNode { .. }
            | Self::BadDevice { .. }
            | Self::NarrowPlacement { .. }
            | Self::NoMapping { .. }
            | Self::FileRefused { .. }
            | Self::StorageRefused { .. }
            | Self::BadGoal(_)
            | Self::BadRelief(_)
            | Self::NoBandwidth { .. }
            | Self::NotCounted { .. }
            | Self::NodesForbidden { .. }
            | Self::BadTiers(_)
            | Self::KernelTiers { .. }
            | Self::NoDamon { .. } => ErrorKind::Usage,
            Self::Systemd { .. }
            | Self::UnitProperty { .. }
            | Self::OtherUnit { .. }
            | Self::Affinity { .. }
            | Self::AdviceTaken
            | Self::BalancingTaken { .. }
            | Self::Hwloc { .. }
            | Self::OneNode { .. }
            | Self::Stopped
            | Self::ManyCgroups { .. }
            | Self::Silent { .. }
            | Self::Overlaps { .. }
            | Self::Measure { .. }
            | Self::MeasureStorage { .. }
            | Self::Read { .. }
            | Self::Pages { .. }
            | Self::Setting { .. }
            | Self::Write { .. }
            | Self::Parse { .. } => ErrorKind::Failure,
        }
    }
}

/// What to do about a name that no process has.
fn did_you_mean(similar: &[String]) -> String {
    match similar {
        [] => "see `ps -eo pid,comm` for names; a service is named with --unit, a container with --container".to_owned(),
        names => format!("did you mean {}?", names.join(", ")),
    }
}
