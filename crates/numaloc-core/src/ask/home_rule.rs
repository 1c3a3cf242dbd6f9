//! The property of a process that decides where its memory belongs.

/// The rule that decides the home of a process: the CPUs of its threads, or the devices that it uses.
///
/// By default the CPU affinity of all threads decides. Affinity was chosen for the process, and a
/// thread that sleeps now may work later. But one thread that is not pinned (a runtime's helper, a signal handler)
/// makes all nodes home. For such processes, threads can be weighed by the CPU time that they have used since they
/// started. This time is known at once for all threads and changes little from one reading to the next. Sampling would
/// take time, and samples would differ.
///
/// Memory that a GPU or a network adapter reads and writes belongs on the node of the device, whatever CPUs the process has: what workers of
/// LLM servers stage for their GPU crosses the link between nodes twice otherwise. Which devices those are follows from the files that the
/// process has open, and which node from sysfs. Neither says how much a device is used, nor which memory it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HomeRule {
    /// The CPUs of all threads.
    #[default]
    Cpus,
    /// The CPUs of the busy threads. Threads that together have used at most [`IDLE_PERCENT`] of the process's CPU time
    /// are left out, and threads that would add most nodes first. All threads count if the process has used
    /// no CPU time.
    Busy,
    /// The nodes that the devices are attached to which the process has open: GPUs, VFIO, InfiniBand, accelerators. As [`Self::Cpus`] for a process that has
    /// none open, or whose devices sysfs has on no node.
    Devices,
    /// The CPUs of all threads, and besides their nodes all near nodes ([`crate::Options::near_distance`]). For hosts
    /// that divide a socket into many nodes (NPS, SNC, a node for each L3 cache), where the node of one cache is
    /// often full and its neighbours are nearly as fast.
    Near,
}

/// The distance up to which a node is near to a home node, in the unit of SLIT (10 is the own node), where a request names none: neighbours
/// on a socket have 11 or 12, those on another one 20 and more.
pub const NEAR: u64 = 12;

/// The distances that a request may name: beyond the own node (LOCAL_DISTANCE), and below what stands for unreachable (ACPI 6.5, 5.2.17).
pub const NEAR_BOUNDS: std::ops::RangeInclusive<u64> = 11..=254;

/// Share of a process's CPU time whose threads [`HomeRule::Busy`] may leave out, in percent.
pub const IDLE_PERCENT: u32 = 5;

impl HomeRule {
    /// All rules, the default first.
    pub const ALL: [HomeRule; 4] = [Self::Cpus, Self::Busy, Self::Devices, Self::Near];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpus => "cpus",
            Self::Busy => "busy",
            Self::Devices => "devices",
            Self::Near => "near",
        }
    }
}
