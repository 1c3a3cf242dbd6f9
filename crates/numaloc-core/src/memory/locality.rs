//! The share of memory that is on local nodes.

/// Local and remote bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Bytes on local nodes.
    pub local_bytes: u64,
    /// Bytes on other nodes.
    pub remote_bytes: u64,
}

impl Share {
    /// Local / (local + remote) in percent; 100 when there is nothing.
    pub fn percent(&self) -> f64 {
        let total = self.local_bytes + self.remote_bytes;
        if total == 0 { 100.0 } else { self.local_bytes as f64 * 100.0 / total as f64 }
    }
    /// Adds another share.
    pub fn add(&mut self, other: Share) {
        self.local_bytes += other.local_bytes;
        self.remote_bytes += other.remote_bytes;
    }
}

/// Locality of a target, each page counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locality {
    /// Of the pages that a migration may move.
    pub movable: Share,
    /// Of all resident pages.
    pub overall: Share,
}

impl Locality {
    /// Adds another locality.
    pub fn add(&mut self, other: Locality) {
        self.movable.add(other.movable);
        self.overall.add(other.overall);
    }
}
