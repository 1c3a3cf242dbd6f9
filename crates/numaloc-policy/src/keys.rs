//! Annotations about the memory policy of new containers.

/// Our annotation for the memory policy that containers are created with: a word for all of them, or an object with one
/// for each name.
pub const MEMORY_POLICY_KEY: &str = "numaloc.io/memory-policy";
/// Our annotation for containers that the kernel's NUMA balancing is to leave alone, in the same form.
pub const NUMA_BALANCING_KEY: &str = "numaloc.io/numa-balancing";
