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
//! | `hugetlb`, `mappers` | which mappings are hugetlb memory, and who maps it where page tables are shared |
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
mod read;
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
pub use changes::{dsa, heat, journal, node_room, numa_balancing, offload};
pub use containers::containers;
pub use cpu_use::CpuUse;
pub use cpuset::cpusets;
pub use crew::{Crew, Cut, Growth, Newcomers};
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
pub use survey::{Survey, survey, survey_growing, survey_unless};
pub use target::{Found, LeftOut, Resolved, Target, identify, resolve, resolve_each};
pub use unix_socket::{UnixSocket, unix_socket};
pub use used_files::{UsedFile, Whose, used_files};
pub use vmstat::{Migrations, Reclaimed, migrations, reclaimed};
pub use wait::wait;
