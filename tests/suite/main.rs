//! The suites: they run on real kernels, with real processes, on (emulated) nodes.
//!
//! Each test starts an application with a known layout of memory on a remote node, and beside it an unmanaged control process
//! with the same layout. It brings the application's memory home through the library or the command line. Then it compares the
//! account with what numa_maps says: no test trusts numaloc's own report alone.
//!
//! The suites run as root on a machine with two nodes and change its settings: `tests/vm/suite` runs them in a virtual machine.
//! Tests that need another machine are in modules with its name, which that script selects: `sparse4`, `memonly`, `nps`, `split`, `l3`, `hbm`, `dax`; `unit` and
//! `service` need systemd, `packages` a Debian system, `containerd` needs containerd, `nri` needs a runtime side of NRI, `mthp` needs a kernel from 6.8 on, `gigantic` needs pools of 1 GiB pages,
//! `stressors` needs programs that are not ours.
#![forbid(unsafe_code)]

use numaloc_tests::{cpus, disk, place, settings, truth};

mod app;
mod engine;
mod hog;
mod kernel_log;
mod page;
mod scene;

mod advise;
mod anon;
mod attached;
mod balancing;
mod benefit;
mod cached_files;
mod cgroup;
mod cli;
mod containerd;
mod crowd;
mod daemon;
mod dax;
mod exchange;
mod family;
mod file;
mod filled;
mod fixed;
mod folios;
mod forks;
mod gigantic;
mod hbm;
mod heat;
mod homes;
mod huge;
mod hugetlb;
mod ksm;
mod l3;
mod lifecycle;
mod many;
mod map;
mod memonly;
mod mthp;
mod nps;
mod nri;
mod numastat;
mod objects;
mod offload;
mod orders;
mod pacing;
mod packages;
mod pinned;
mod poison;
mod policy;
mod pressure;
mod relieve;
mod room;
mod served;
mod service;
mod shared;
mod sparse;
mod sparse4;
mod split;
mod spread;
mod stale;
mod stressors;
mod stuck;
mod sysv;
mod top;
mod topology;
mod traced;
mod unit;
mod zeros;
