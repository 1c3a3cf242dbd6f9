//! For test programs: mappings of every kind, memory policies, a forked child, a child that shares its parent's memory,
//! pinned buffers, System V segments, memory whose missing pages stay missing; and how tests say that they were skipped.

mod fork;
mod hog;
mod policy;
mod region;
mod ring;
mod segment;
mod sharer;
mod skipped;
mod uring;
mod userfault;

pub use fork::{fork_elsewhere, fork_paused, fork_reader};
pub use hog::be_real_time;
pub use policy::{interleave_thread, set_thread_policy};
pub use region::{Advice, Backing, Region};
pub use ring::{packet_ring, perf_event, secret};
pub use segment::{new_segment, remove_segment};
pub use sharer::{Then, leave_thread, share_memory, tell_sharer};
pub use skipped::skipped;
pub use uring::PinnedBuffer;
pub use userfault::Missing;
