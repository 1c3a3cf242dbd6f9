//! The edge to the host: what /proc, /sys, cgroups and hwloc say, as core values. It only reads; the code that
//! writes to the host is in [`changes`].
//!
//! Every root directory is passed in, so that the same code runs on a recorded tree. Something that vanishes while it
//! is read gives `None` or is left out. It is not an error, because processes end all the time.
//!
//! | room | what happens there |
//! |---|---|
//! | `files` | one kernel file each, read and parsed, below roots that are passed in; how many page maps are open, and whether they can be read now |
//! | `limits` | what this host allows: capabilities, PAGEMAP_SCAN, the size of pages, the number of tasks |
//! | `nodes` | NUMA nodes: CPUs, distances, tiers, which devices are attached to them, what firmware, kernel and `numalocctl bench` say of their speed, free memory, and cache that cgroups protect |
//! | `processes` | from what a request names to processes, their owners, cpusets, pressure and CPU use |
//! | `survey` | the first look at a target: VMAs are cut to extents, and their pages are found; policies, file systems of mappings, merged and remapped pages, who joins meanwhile |
//! | [`changes`] | writes to the host |
//! | `views` | looks that move nothing: the page cache of files (`looked_files`), the host for advice (`look`), [`live`], pictures, [`facts`], who else moves pages, what memory of a node costs ([`speed`]) and a file on persistent memory ([`OwnStorage`]), what placements cost ([`spread`]), memory bandwidth ([`traffic`]) |
//! | `fake`, `fuzz` | trees of files for tests |
//!
//! ## How the host is read
//!
//! **Pages that the target shares with itself are its own.** The scanner reads the mappings of an extent one after the other, part by
//! part, and joins what they show in a table of frames: a frame that is shown by the number of mappings that the
//! kernel counts (/proc/kpagecount) belongs to the target alone, and is counted and moved once. A page with more
//! mappings is shared with strangers. The survey compares samples of shared memory in this way, and reads the rest
//! until each page has been seen once, so a segment of 200 processes costs about as much as one of two. The executor
//! compares each page that it moves.
//!
//! **A target that names a cgroup or unit grows.** A process that is forked into it during a run belongs to it. Where a page has more
//! mappings than are known, survey and executor look up which processes have joined (`arrivals`, `crew`; at most 1,024 processes a look)
//! and count their mappings, if another process of the target has the same claim.
//!
//! **Attached memory is the target's whole.** Pages of a shared object that no process maps are found through the object and a mapping of
//! this process (`survey::attached`), if no process outside the target has attached it, and are an extent of their own.
//!
//! **Memory is not a process.** It outlives the first thread of a process, whose id is the pid: calls get the id of a thread that lives.
//! Processes that share memory (vfork, CLONE_VM) are one address space, which lives as long as one of them has it. A page map stays bound
//! to the memory that it was opened on, and is opened again only for the same.
//!
//! **Descriptors do not grow with the target.** Of very many processes only some have their page maps open at a time (`open_files`). CPU
//! time of more than 64 processes is read of their cgroups.
//!
//! **Reading costs as little as the kernel allows.** A base page costs one pagemap entry. Where a stretch is empty or huge, PAGEMAP_SCAN
//! passes over it; a fruitless scan is not repeated soon. The nodes of huge pages are asked for in one call, and ownership is read of a
//! sample. Policies and page sizes come from numa_maps, for which the kernel walks each page of a VMA in one go while the application
//! waits (`placement`): they are read only of processes that have something to move, and once. A migration reads them before it moves,
//! and the look afterwards reuses them. A plan reads them as long as no mapping on the way is large, and reports for how much it has not.
//! `locality` does not read them, so bound memory counts there as movable. For each extent the survey keeps which
//! chunks have a remote page, and windows are cut of these alone.
//!
//! **A live view has a budget, not a period.** To read even the stat files of ten thousand processes costs more than a view may use.
//! `numaloc_core::rotation` chooses what is read next, by size, CPU use and age, and [`live`] continues until the budget is spent. The
//! page map of a large process is read in windows. Everything that is shown has the age of its reading.
#![forbid(unsafe_code)]
// What counts pages must not wrap around: conversions are those of `numaloc_core::number`, or argued for one by one.
#![cfg_attr(
    not(test),
    warn(
        clippy::cast_lossless,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]
#![warn(missing_docs)]

pub mod changes;
#[cfg(any(test, feature = "fake"))]
#[cfg_attr(not(test), allow(dead_code))]
pub mod fake;
mod files;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod limits;
mod nodes;
mod processes;
mod survey;
mod views;

pub use changes::{
    advised, balancing_trial, heat, journal, node_room, numa_balancing, resctrl, tiering,
};
pub use files::{
    answering::{Answering, PAGE_MAP_THREADS},
    cache_search::CacheSearch,
    cached_file::{CachedFile, FileId, FileOwner, file_owner},
    cached_piece::{CachedPiece, nodes_of},
    error::{Error, ErrorKind},
    frames::FrameNodes,
    kpage::{COMPOUND_HEAD, COMPOUND_TAIL, FrameFile},
    mapped_pages::MappedPages,
    named_files::named_paths,
    open_files::OpenFiles,
    pagemap::{Entries, Entry},
    read::{self, boot_id},
    roots::Roots,
    unix_socket::{UnixSocket, unix_socket},
    vmstat::{Migrations, Reclaimed, migrations, reclaimed},
    wait::wait,
};
pub use limits::{
    probe,
    tasks::{TaskLimit, task_limit},
};
pub use nodes::{
    devices::Device,
    hmat, measured,
    node_memory::{NodeMemoryReader, node_free_bytes},
    topology,
};
pub use processes::{
    FoundProcesses, LeftOut, Resolved, Target,
    by_name::{NamedProcess, named_processes, names_like, processes_named},
    cgroup::numa_stat,
    containers::containers,
    cpu_use::CpuUse,
    cpuset::{cpusets, exclusive_cpus},
    devices::open_devices,
    found::{Found, Meant, NamedKind},
    identify,
    labelled::labelled,
    own_process::OwnProcess,
    owner::{Owner, owner},
    pressure::{MemoryTrigger, Pressure, Resource, Scope},
    real_time::{RealTimeHog, RealTimePolicy, real_time_hogs},
    resolve, resolve_each,
    run_delay::RunDelay,
};
pub use survey::{
    Survey, Surveyor,
    arrivals::{Arrivals, Groups},
    attached::{AttachedFile, AttachedFiles},
    crew::{Crew, Cut},
    folios::{FolioPart, Folios},
    neighbours::Neighbours,
    newcomers::Newcomers,
    outsiders::RuledOut,
    page_access::{PageAccess, Source},
    placement::{KnownHost, Policies},
    scan::{Ownership, PageLocation, PageRun, Precision, Scanned, Scanner},
    seen::{SeenPages, SeenStretch},
    space::{AddressSpace, allow_files},
    used_files::{UsedFile, Whose, used_files},
};
pub use views::{
    contents::contents,
    facts::{self, HostFacts},
    host_memory, live,
    look::{Begun, LookRequest, Looked, look},
    looked_files::{FileLook, LookedFile, LookedFiles, cache_goal},
    movers::{PageMover, movers},
    obstacles::{Obstacle, obstacles},
    picture::Viewer,
    sight::sight,
    speed, spread,
    storage_speed::OwnStorage,
    traffic,
};

#[cfg(any(test, feature = "fake"))]
pub use changes::killed;
