//! What only test programs need: mappings of every kind, memory policies, a forked child, pinned buffers.

mod fork;
mod policy;
mod region;
mod uring;

pub use fork::fork_paused;
pub use policy::set_thread_policy;
pub use region::{Advice, Backing, Region};
pub use uring::PinnedBuffer;
