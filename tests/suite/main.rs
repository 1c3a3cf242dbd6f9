//! The suites: real kernels, real processes, real nodes.
//!
//! Each test starts an application with a known layout of memory on a remote node, beside it an unmanaged control
//! process with the same layout, brings the application's memory home through the library or the command line, and
//! compares what numa_maps says with the account. Nothing here believes our own report.
//!
//! It runs as root on a machine with two nodes and changes its settings: `tests/vm/suite` runs it in a virtual one.
//! Tests that need another machine are in modules with its name (`sparse4`, `memonly`; `unit` and `service` need systemd, `mthp` a kernel from 6.8 on,
//! `gigantic` pools of 1 GiB pages), which
//! that script selects.
#![forbid(unsafe_code)]

mod app;
mod engine;
mod scene;
mod settings;
mod truth;

mod anon;
mod balancing;
mod cgroup;
mod cli;
mod crowd;
mod daemon;
mod family;
mod file;
mod gigantic;
mod heat;
mod homes;
mod huge;
mod lifecycle;
mod many;
mod memonly;
mod mthp;
mod orders;
mod pacing;
mod pinned;
mod policy;
mod pressure;
mod service;
mod shared;
mod sparse;
mod sparse4;
mod stale;
mod topology;
mod unit;
