//! Bytes that a run may move, as others set it while the run is under way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Bytes that a run may move, as others set it while the run is under way.
#[derive(Debug, Default)]
pub struct Allowance {
    bytes: AtomicU64,
    closed: AtomicBool,
}

impl Allowance {
    /// So much to begin with.
    pub fn of(bytes: u64) -> Self {
        Self { bytes: bytes.into(), closed: false.into() }
    }

    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Lets the run end, which otherwise waits for more.
    pub fn close(&self) {
        self.closed.store(true, Relaxed);
    }

    /// Bytes that the run may have moved by now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Whether no more will be wanted.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }
}
