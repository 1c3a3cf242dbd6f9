//! Mappings that are reservations: addresses that an address sanitizer, a garbage collector or a runtime of
//! WebAssembly takes for later, nearly all of them holes.
//!
//! Before Linux 6.7, which has PAGEMAP_SCAN, a hole costs as much to read as memory does: 32 GiB of page map for 16 TiB (fs/proc/task_mmu.c,
//! `pagemap_pte_hole`).

/// The smallest mapping that counts as a reservation, in bytes: a tenth of a second to read through a hole of this size.
pub const LARGE: u64 = 64 << 30;
/// Ratio of length to resident memory from which a mapping is a reservation. For each line of numa_maps the kernel
/// walks all pages of a mapping under the lock that threads need which map memory: 7 ms for each GiB of base pages.
const MOSTLY_HOLES: u64 = 256;
/// Bytes of a hole whose page map is read in a second on bare metal: 256 GiB take 0.24 s.
const HOLE_RATE: f64 = (1_u64 << 40) as f64;

/// Whether a mapping of this length is a reservation, if this much of it is in memory; both in bytes.
pub fn is_reservation(bytes: u64, in_memory: u64) -> bool {
    bytes >= LARGE && in_memory.saturating_mul(MOSTLY_HOLES) <= bytes
}

/// The time to read through the holes of a reservation on bare metal, in seconds; none for what is not a reservation.
pub fn search_seconds(bytes: u64, in_memory: u64) -> f64 {
    if is_reservation(bytes, in_memory) { bytes as f64 / HOLE_RATE } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_large_and_nearly_empty() {
        assert!(is_reservation(LARGE, LARGE / MOSTLY_HOLES));
        assert!(!is_reservation(LARGE, LARGE / MOSTLY_HOLES + 1));
        assert!(!is_reservation(LARGE - 1, 0));
        assert!(!is_reservation(1 << 50, 1 << 50));
        assert_eq!(
            [search_seconds(16 << 40, 1 << 26), search_seconds(1 << 30, 1 << 12)],
            [16.0, 0.0]
        );
    }
}
