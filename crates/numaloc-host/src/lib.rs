//! The edge to the host: what /proc, /sys, cgroups and hwloc say, as core values. It only reads; all that
//! writes to the host is in [`changes`].
//!
//! Every root directory is passed in, so that the same code runs on a recorded tree. Something that vanishes while it
//! is read gives `None` or is left out. It is not an error, because processes end all the time.
//!
//! | modules | what they do |
//! |---|---|
//! | `target`, `process`, `thread`, `cgroup`, `containers`, `unit`, `owner` | from what a request names to processes |
//! | [`topology`](mod@topology), `tiers`, `node_memory`, `protected`, `cpuset` | nodes: CPUs, distances, memory, who may use it |
//! | `maps`, `numa_maps`, `pagemap`, `frames`, `zoneinfo`, `kpage` | one kernel file each, read and parsed |
//! | `hugetlb`, `mappers`, `merged` | which mappings are hugetlb memory, and who maps it where page tables are shared; pages that KSM has merged |
//! | `extents`, `placement`, `scan`, `residency`, `sight` | cut VMAs to extents, find their pages, and sum up where these are |
//! | `survey` | all of this together: the first look at a target |
//! | `picture` | where the memory of a few processes is, by address, for pictures |
//! | `look` | one look at everybody on the host, for advice |
//! | `space`, `open_files`, `answering` | the memory of processes, held so that it is never another's; how many page maps are open; whether they can be read now |
//! | `pressure`, `cpu_use`, `vmstat` | what is read again and again during a run |
//! | `used_files` | files that processes use, whose page cache may move |
//! | [`changes`] | all that writes to the host |
//! | [`live`] | nodes, workloads and processes, looked at in rotation |
//! | [`facts`], [`probe`], `movers`, `capabilities`, `page_size` | what this host allows, who else moves pages |
//! | `unix_socket` | who listens where |
//! | `read`, `wait`, `roots`, `error`, `own_process` | what the others share |
//!
//! ## How the host is read
//!
//! **Pages that the target shares with itself are its own.** The scanner reads the mappings of an extent one after the other, part by
//! part, and joins what they show in a table of frames: a frame that as many of them show as the kernel counts mappings
//! (/proc/kpagecount) belongs to the target alone, and is counted and moved once. A page with more mappings is shared with strangers.
//! The survey compares samples of shared memory in this way, and reads the rest until each page has been seen once, so a segment of 200
//! processes costs about as much as one of two. The executor compares each page that it moves.
//!
//! **A target that names a cgroup or unit grows.** A process that is forked into it during a run belongs to it. Where a page has more
//! mappings than are known, survey and executor look up which processes have joined (`arrivals`, `crew`; at most 1,024 processes a look)
//! and count their mappings, if another process of the target has the same claim.
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
//! `locality` does not read them, so bound memory counts there as movable. Of each extent the survey keeps which chunks have a remote
//! page, and windows are cut of these alone.
//!
//! **A live view has a budget, not a period.** To read even the stat files of ten thousand processes costs more than a view may use.
//! `numaloc_core::rotation` chooses what is read next, by size, CPU use and age, and [`live`] continues until the budget is spent. The
//! page map of a large process is read in windows. Everything that is shown has the age of its reading.
#![forbid(unsafe_code)]

mod answering;
mod arrivals;
mod capabilities;
mod cgroup;
pub mod changes;
mod containers;
mod cpu_use;
mod cpuset;
mod crew;
#[cfg(test)]
mod crowd_tests;
mod error;
mod extents;
pub mod facts;
#[cfg(any(test, feature = "fake"))]
#[cfg_attr(not(test), allow(dead_code))]
pub mod fake;
mod frames;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod hugetlb;
mod kpage;
pub mod live;
mod look;
mod mappers;
mod maps;
mod merged;
mod movers;
mod node_memory;
mod numa_maps;
mod open_files;
mod own_process;
mod owner;
mod page_size;
mod pagemap;
mod picture;
mod placement;
mod pressure;
pub mod probe;
mod process;
mod protected;
pub mod read;
mod residency;
mod roots;
mod scan;
mod sight;
mod space;
mod survey;
mod target;
mod thread;
mod tiers;
pub mod topology;
mod unit;
mod unix_socket;
mod used_files;
mod vmas;
mod vmstat;
mod wait;
mod zoneinfo;

pub use answering::Answering;
pub use arrivals::{Arrivals, Groups};
pub use cgroup::numa_stat;
#[cfg(any(test, feature = "fake"))]
pub use changes::killed;
pub use changes::{heat, journal, node_room, numa_balancing};
pub use containers::containers;
pub use cpu_use::CpuUse;
pub use cpuset::{cpusets, exclusive_cpus};
pub use crew::{Crew, Cut, Newcomers};
pub use error::{Error, ErrorKind};
pub use facts::HostFacts;
pub use frames::FrameNodes;
pub use kpage::{COMPOUND_HEAD, COMPOUND_TAIL, FrameFile};
pub use look::{Begun, Looked, Wanted, look};
pub use movers::{Mover, movers};
pub use node_memory::NodeMemoryReader;
pub use open_files::OpenFiles;
pub use own_process::OwnProcess;
pub use owner::{Owner, owner};
pub use page_size::check_page_size;
pub use pagemap::{Entries, Entry};
pub use picture::Viewer;
pub use placement::{Known, Policies};
pub use pressure::{Pressure, Resource, Scope};
pub use read::boot_id;
pub use roots::Roots;
pub use scan::{Ownership, PageRun, Place, Precision, Scanned, Scanner};
pub use sight::{Sight, Source};
pub use space::{AddressSpace, allow_files};
pub use survey::{Survey, Surveyor};
pub use target::{Found, LeftOut, Resolved, Target, identify, resolve, resolve_each};
pub use unix_socket::{UnixSocket, unix_socket};
pub use used_files::{UsedFile, Whose, used_files};
pub use vmstat::{Migrations, Reclaimed, migrations, reclaimed};
pub use wait::wait;
