//! Subjects that reports and goals know by name, and what they are compared with.

use crate::figure::Figure;

/// A subject of `throughput`: move_pages(2) by a program that knows all addresses beforehand.
pub const BARE: &str = "bare calls";
/// A subject of `little`: the least work that finds and moves the pages. The others are compared with it.
pub const LEAST: &str = "bare pass, bare move";
/// A subject of `little`: the command under measurement.
pub const OURS: &str = "numalocctl fast";
/// Behind the name of a subject of ours, for another build.
pub const ANOTHER_BUILD: &str = " of another build";
/// A subject of `many`: the least that has to be read for a look. The looks are compared with it, and moves with [`LEAST`].
pub const LEAST_LOOK: &str = "bare reads";
/// A subject of `many`: what programs do between start and output, in this process, for two nodes that do not exist.
pub const PLANNED_HERE: &str = "a plan, half away";
/// A subject of `reader`: a move to a node with room.
pub const TO_EMPTY: &str = "balanced, to an empty node";
/// A subject of `reader`: the same move to a node that is full of page cache.
pub const TO_FULL: &str = "balanced, to a full node";
/// A subject of `reader`: the cache that is read moves itself.
pub const THE_FILE: &str = "balanced, the file itself";
/// A subject of `reread`: page cache was dropped to make room.
pub const DROPPED: &str = "balanced, cache dropped";
/// A subject of `reread`: it went to the other node.
pub const MOVED: &str = "balanced, cache moved";
/// A subject of `spread`: the process moves its memory itself.
pub const ITSELF: &str = "mbind by the process";
/// A subject of `spread`: DAMON's scheme with several destinations.
pub const DAMOS_DESTS: &str = "DAMOS with dests";
/// A subject of `pressure`: the kernel measures the pressure of the target's cgroup. The others are compared with it.
pub const WITH_PSI: &str = "with PSI";
/// A subject of `pressure`: not for this cgroup, which its file `cgroup.pressure` says.
pub const CGROUP_OFF: &str = "cgroup.pressure off";
/// A subject of `pressure`: the kernel was booted without PSI.
pub const PSI_OFF: &str = "psi=0";
/// A subject of `pressure`: cgroup v1, which has no pressure by cgroup.
pub const ON_V1: &str = "cgroup v1";
/// A subject of `families`.
pub const ONE: &str = "one process of them";
/// A subject of `families`.
pub const FAMILY: &str = "all of them";
/// A subject of `families`: the time for all if each process after the first cost what it costs among a tenth of them.
pub const LINEAR: &str = "a tenth of them, continued linearly";
/// A subject of `families`.
pub const ADDED: &str = "what the shared memory adds";
/// A subject of `writing`: the least work that stores a change. The others are compared with it.
pub const STORED: &str = "write and fdatasync";

/// A subject of `tiers`: the command under measurement.
pub const OURS_TIERS: &str = "numalocctl --tiers";
/// A subject of `tiers`: DAMON's schemes for both directions.
pub const DAMOS_TIERS: &str = "DAMOS migrate_hot and migrate_cold";
/// A subject of `tiers`: demotion under pressure, and kernel.numa_balancing=2.
pub const BY_KERNEL: &str = "kernel, demotion and promotion";
/// A subject of `tiers`: the bytes that are on the wrong node, less the allowance.
pub const LEAST_MOVED: &str = "least possible";

/// The subject that a figure is compared with.
pub fn base(figure: &Figure) -> Option<&'static str> {
    match (figure.bench.as_str(), figure.case.as_str()) {
        // It is a ratio already.
        _ if figure.unit.starts_with("share of") => None,
        ("stall", "Redis") | ("neighbour" | "looked", _) => Some("idle"),
        ("throughput" | "stall" | "soonest", _) => Some("migratepages"),
        ("scan", _) => Some("bare pagemap, looked up"),
        ("reader", _) => Some(TO_EMPTY),
        ("reread", _) => Some(DROPPED),
        ("pressure", _) => Some(WITH_PSI),
        ("little", _) => Some(LEAST),
        ("families", _) if figure.subject == FAMILY => Some(LINEAR),
        ("families", _) => Some(ONE),
        ("writing", _) => Some(STORED),
        ("many", "4 MiB") => match figure.subject.as_str() {
            "numalocctl locality" => Some("numalocctl locality of another build"),
            "numalocctl plan" => Some("numalocctl plan of another build"),
            "numalocctl migrate" => Some("numalocctl migrate of another build"),
            OURS => Some("numalocctl fast of another build"),
            _ => None,
        },
        ("many", _) if figure.subject.starts_with("numalocctl migrate") => Some(LEAST),
        ("many", _) if figure.subject.starts_with(OURS) => Some(LEAST),
        ("many", _) => Some(LEAST_LOOK),
        ("spread", _) if figure.metric == "99% in place" => Some(DAMOS_DESTS),
        ("spread", _) => Some(ITSELF),
        ("tiers", _) if figure.metric == "moved" && figure.case.ends_with("is below") => {
            Some(LEAST_MOVED)
        }
        ("half_way", _) => Some("address order"),
        _ => None,
    }
}
