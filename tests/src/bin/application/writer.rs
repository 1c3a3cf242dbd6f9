//! The second thread: the load on the memory while it is migrated.

use crate::{
    memory::Memory,
    spec::{Access, Kind},
};
use std::{
    hint,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

/// Pages between two releases of a region's lock. Commands can take the lock in between.
const CHUNK: usize = 64;

/// The first wrong word that was seen.
pub static CORRUPTION: OnceLock<String> = OnceLock::new();
/// Pages checked so far, most of them rewritten too.
pub static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Checks and rewrites all memory until something is wrong with it. Calls `begun` after the first pages.
pub fn write(memory: &Memory, begun: impl FnOnce()) {
    chunk(memory, 0);
    begun();
    while CORRUPTION.get().is_none() {
        let mut longest = 0;
        for slot in memory.slots() {
            longest = longest.max(slot.as_ref().map_or(0, |slot| slot.pages.len()));
        }
        for first in (0..longest).step_by(CHUNK) {
            chunk(memory, first);
        }
        thread::yield_now();
    }
}

fn chunk(memory: &Memory, first: usize) {
    for mut slot in memory.slots() {
        let Some(slot) = slot.as_mut() else { continue };
        let untouched = slot.pages.len() - slot.rewritten;
        for index in first..slot.pages.len().min(first + CHUNK) {
            if slot.spec.kind == Kind::ProtNone || slot.spec.access == Access::Cold {
                continue;
            }
            if let Err(wrong) = slot.verify(index) {
                CORRUPTION.get_or_init(|| wrong);
                return;
            }
            if index >= untouched {
                slot.write(index, slot.generations[index].wrapping_add(1));
            }
            WRITTEN.fetch_add(1, Relaxed);
        }
    }
}

pub fn spin() -> ! {
    loop {
        hint::spin_loop();
    }
}
