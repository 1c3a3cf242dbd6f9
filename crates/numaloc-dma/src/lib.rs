//! Copying by DMA engines, where the kernel can give the copies of a migration to one.
//!
//! | modules | what they do |
//! |---|---|
//! | [`kernel`] | the interfaces of those kernels: their settings, counters and channels |
//! | [`offload`] | switches an interface on while jobs move, watches it, accounts for it, and puts the settings back |
//! | [`dsa`] | Intel's engines: which there are, what is missing, and a work queue of theirs for the kernel |
//! | [`accelerators`] | these work queues from the start of the daemon to its end |
//!
//! Requests to a run and its report are values of the core (`numaloc_core::offload`). Settings are read and written
//! through the roots and the journal of numaloc-host, so a daemon that is killed leaves nothing: see `changes/journal` there.
//!
//! None of this has run on such hardware. So nothing here chooses by measurement between engine and CPU: an engine is used where
//! the kernel offers it and the operator allows it, and the outcome names what was used, or why not.
#![warn(missing_docs)]

pub mod accelerators;
pub mod dsa;
pub mod kernel;
pub mod offload;

pub use accelerators::{Accelerators, WorkQueues};
pub use offload::{Asked, Dma, OffloadError, Offloading, Refused, Using};
