//! The share of memory that is on local nodes.

/// Bytes of resident pages, split into those on home nodes, those that stay on a lower tier, and all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Bytes on home nodes of the process.
    pub local_bytes: u64,
    /// Bytes on nodes that are not home, without the demoted ones.
    pub remote_bytes: u64,
    /// The part of the remote bytes on nodes that are near to home ([`Topology::near`](crate::Topology::near)).
    pub near_bytes: u64,
    /// Bytes on lower tiers that stay there ([`Topology::lower_tiers`](crate::Topology::lower_tiers)). They cannot move, so the movable memory
    /// has none.
    pub demoted_bytes: u64,
}

impl Share {
    /// All bytes.
    pub fn bytes(&self) -> u64 {
        self.local_bytes + self.remote_bytes + self.demoted_bytes
    }
    /// Local / (local + remote) in percent; 100 when there is nothing.
    pub fn percent(&self) -> f64 {
        let total = self.local_bytes + self.remote_bytes;
        if total == 0 { 100.0 } else { self.local_bytes as f64 * 100.0 / total as f64 }
    }
    /// Adds the bytes of another share to this one.
    pub fn add(&mut self, other: Share) {
        self.local_bytes += other.local_bytes;
        self.remote_bytes += other.remote_bytes;
        self.near_bytes += other.near_bytes;
        self.demoted_bytes += other.demoted_bytes;
    }
}

/// Locality of a target, each page counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Locality {
    /// Share among the pages that a migration may move.
    pub movable: Share,
    /// The share among all resident pages, also those that cannot move.
    pub overall: Share,
}

impl Locality {
    /// Adds the shares of another target or process.
    pub fn add(&mut self, other: Locality) {
        self.movable.add(other.movable);
        self.overall.add(other.overall);
    }
}
