//! Memory that goes to nearer nodes, because home has no room.

/// Bytes that are expected to go to one nearer node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aside {
    /// All bytes that go to the node.
    pub bytes: u64,
    /// The part of them for which the node is near.
    pub near_bytes: u64,
}

impl Aside {
    pub(super) fn add(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.near_bytes += more.near_bytes;
    }

    /// Takes out up to this many bytes, those for which the node is near first; returns them.
    pub(super) fn take(&mut self, most: u64) -> Self {
        let bytes = self.bytes.min(most);
        let near_bytes = self.near_bytes.min(bytes);
        self.bytes -= bytes;
        self.near_bytes -= near_bytes;
        Self { bytes, near_bytes }
    }
}
