//! VMAs -> areas: neighbours of one name and kind are one row.

use crate::memory::extent::Kind;
use std::sync::Arc;

/// A virtual memory area, or several of one name and kind that touch: the segments of a library, the parts of a heap
/// that differ in rights or policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// First address that belongs to the area.
    pub start: u64,
    /// First address after the area.
    pub end: u64,
    /// Kind of memory that backs its pages.
    pub kind: Kind,
    /// Whether it is mapped shared (MAP_SHARED).
    pub is_shared: bool,
    /// Path or name as /proc/PID/maps shows it; empty for plain anonymous memory.
    pub name: Arc<str>,
}

impl Area {
    /// Length of the range of addresses in bytes.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// Joins VMAs, given in the order of their addresses.
pub fn areas(vmas: impl IntoIterator<Item = Area>) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    for vma in vmas {
        match areas.last_mut() {
            Some(last)
                if last.end == vma.start
                    && (last.kind, last.is_shared, &last.name)
                        == (vma.kind, vma.is_shared, &vma.name) =>
            {
                last.end = vma.end;
            }
            _ => areas.push(vma),
        }
    }
    areas
}
