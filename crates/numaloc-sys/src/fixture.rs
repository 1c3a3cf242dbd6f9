//! For test programs: mappings of every kind, memory policies, a forked child, a child that shares its parent's memory,
//! pinned buffers.

mod fork;
mod policy;
mod region;
mod sharer;
mod uring;

pub use fork::fork_paused;
pub use policy::set_thread_policy;
pub use region::{Advice, Backing, Region};
pub use sharer::{Then, leave_thread, share_memory, tell_sharer};
pub use uring::PinnedBuffer;
