//! System calls that nix and libc do not wrap. The only crate with `unsafe`; it decides nothing.
//!
//! | system call or interface | functions |
//! |---|---|
//! | move_pages(2) | [`move_pages()`] moves pages, [`query_pages`] asks where they are |
//! | clone(2), futex(2), close_range(2) | [`Companion`]: a process beside this one that makes calls which may never return |
//! | PAGEMAP_SCAN, an ioctl of /proc/PID/pagemap | [`pagemap_scan()`] finds ranges of pages |
//! | mmap(2), mincore(2), MADV_POPULATE_READ, statx(2) | [`FilePages`]: the page cache of a piece of a file, [`is_dax`] whether there is any |
//! | userfaultfd(2) | [`Userfault`]: a look at pages of a hugetlb file that makes none |
//! | cachestat(2), lseek(2) | [`cached_pages`], [`next_data`] and [`next_hole`]: which parts of a file can have page cache |
//! | pidfd_open(2), kcmp(2) | [`pidfd_open()`] holds a process, [`kcmp_vm`] compares the memory of two |
//! | sched_setscheduler(2), setpriority(2) | [`sched_batch`], [`set_nice`] |
//! | mmap(2), madvise(2), mbind(2) | [`Scratch`]: memory of one's own to measure with |
//! | mmap(2) with MAP_SYNC, movnti or dc cvac, msync(2) | [`StorageFile`]: a file on persistent memory; [`store_through`] and [`write_back`] write to it |
//! | sysconf(3) | [`page_shift`], [`page_bytes`], [`pmd_shift`] and [`pmd_bytes`]: sizes of pages of this kernel |
//! | SO_PEERGROUPS, a socket option | [`peer_groups()`]: the groups of a socket's other end |
//!
//! The feature `fixture` adds what test programs need: mappings, memory policies, fork, io_uring.
#![allow(unsafe_code)]
#![warn(missing_docs)]

mod bind;
mod companion;
mod duplicate;
mod file_cache;
mod file_pages;
#[cfg(feature = "fixture")]
pub mod fixture;
mod kcmp;
mod move_pages;
mod page_size;
mod pagemap_scan;
mod peer_groups;
mod pidfd;
mod sched;
mod scratch;
mod storage_file;
mod userfault;

pub use companion::{Answer, COMPANION_TASKS, Companion, LeftCall, Request, companions_cpu_time};
pub use duplicate::duplicate;
pub use file_cache::{cached_pages, next_data, next_hole};
pub use file_pages::{FilePages, is_dax};
pub use kcmp::kcmp_vm;
pub use move_pages::{MoveFlag, UNWRITTEN, move_pages, query_pages};
#[cfg(feature = "fixture")]
pub use page_size::assume_page_shift;
pub use page_size::{page_bytes, page_shift, pmd_bytes, pmd_shift};
pub use pagemap_scan::{Categories, PageRegion, pagemap_scan};
pub use peer_groups::peer_groups;
pub use pidfd::pidfd_open;
pub use sched::{sched_batch, set_nice};
pub use scratch::{Scratch, ScratchPages};
pub use storage_file::{StorageFile, store_through, write_back};
pub use userfault::Userfault;
