//! Writes to the host, except for DMA engines (numaloc-dma), whose changes are noted in the same journal.
//!
//! | modules | what they do |
//! |---|---|
//! | [`journal`] | notes what is changed and has to be put back |
//! | [`advised`] | what `numalocctl advise --apply` changes, and the way back |
//! | [`numa_balancing`] | the kernel's own NUMA balancing |
//! | [`balancing_trial`] | the same, switched on and off for measurements |
//! | [`heat`] | which memory is used most: DAMON is set up for a second, or Referenced bits are cleared |
//! | [`node_room`] | asks a node for room; there is nothing to put back |
//! | [`resctrl`] | the control group of the threads that move |
//! | [`tiering`] | whether the kernel moves memory between tiers itself, which stays as it is |
//! | `killed` | for tests: processes that are killed between any two writes |

pub mod advised;
pub mod balancing_trial;
pub mod heat;
pub mod journal;
#[cfg(any(test, feature = "fake"))]
pub mod killed;
pub mod node_room;
pub mod numa_balancing;
pub mod resctrl;
pub mod tiering;
