//! All that writes to the host.
//!
//! | modules | what they do |
//! |---|---|
//! | [`journal`] | notes what is changed and has to be put back |
//! | [`numa_balancing`] | the kernel's own NUMA balancing |
//! | [`offload`] | settings of kernels that can give copies to a DMA engine |
//! | [`dsa`] | Intel's copy engines, and a work queue of theirs for the kernel |
//! | [`heat`] | which memory is used most: DAMON is set up for a second, or Referenced bits are cleared |
//! | [`node_room`] | asks a node for room; there is nothing to put back |
//! | `killed` | for tests: processes that are killed between any two writes |

pub mod dsa;
pub mod heat;
pub mod journal;
#[cfg(any(test, feature = "fake"))]
pub mod killed;
pub mod node_room;
pub mod numa_balancing;
pub mod offload;
