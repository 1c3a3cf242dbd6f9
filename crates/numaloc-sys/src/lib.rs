//! System calls that nix and libc do not wrap. The only crate with `unsafe`; it decides nothing.
#![allow(unsafe_code)]

#[cfg(feature = "fixture")]
pub mod fixture;
mod duplicate;
mod kcmp;
mod move_pages;
mod pagemap_scan;
mod peer_groups;
mod pidfd;
mod sched;

pub use duplicate::duplicate;
pub use kcmp::kcmp_vm;
pub use move_pages::{MoveFlag, UNWRITTEN, move_pages, query_pages};
pub use pagemap_scan::{Categories, PageRegion, pagemap_scan};
pub use peer_groups::peer_groups;
pub use pidfd::pidfd_open;
pub use sched::{sched_batch, set_nice};
