//! The resources that are charged to clients, and the part of each that one client gets.

use super::Bound;
use crate::config::Quota;

/// Most connections at the same time, for Unix sockets and for TCP sockets each; root's are counted beside them.
pub(super) const CONNECTIONS: usize = 1024;
/// Most bytes that the daemon keeps of one client's requests and answers: of requests that are read or wait for their
/// turns, of requests that watches continue to need, and of answers that watches have to send.
const KEPT: usize = 16 << 20;
/// Part of all clients together, as a multiple of the part of one client, unless the configuration sets it.
const OF_ALL: usize = 4;
/// A connection with a hundred open calls takes about 100 KiB: HTTP/2 keeps a record of each call, and room for the
/// same number after they have ended. So one client gets less of them than of anything else.
const CONNECTIONS_OF_ONE: usize = 8;

/// Something that clients can use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Calls in a second.
    Calls,
    /// Connections to Unix sockets.
    Connections,
    /// Connections to TCP sockets.
    RemoteConnections,
    /// Bytes of requests and answers that the daemon keeps.
    Kept,
    Watches,
    /// Bytes of records.
    Records,
    /// Bytes that changes write in a minute.
    Written,
}

impl Resource {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 7] = [
        Self::Calls,
        Self::Connections,
        Self::RemoteConnections,
        Self::Kept,
        Self::Watches,
        Self::Records,
        Self::Written,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Connections => "connections",
            Self::RemoteConnections => "remote_connections",
            Self::Kept => "kept_bytes",
            Self::Watches => "watches",
            Self::Records => "record_bytes",
            Self::Written => "written_bytes",
        }
    }

    /// Whether it is counted per time, so that no client holds any of it.
    pub fn is_rate(self) -> bool {
        matches!(self, Self::Calls | Self::Written)
    }

    /// The resource that is used up when this bound refuses, in words.
    pub(super) fn words(self, bound: Bound) -> &'static str {
        let [client, cohort, all] = match self {
            Self::Calls => [
                "calls per second",
                "calls per second of all members of the group",
                "calls per second of all clients together",
            ],
            Self::Connections => [
                "connections",
                "connections of all members of the group",
                "connections of all clients together",
            ],
            Self::RemoteConnections => [
                "TCP connections",
                "TCP connections of all members of the group",
                "TCP connections of all clients together",
            ],
            Self::Kept => [
                "bytes of requests and answers under way",
                "bytes of requests and answers under way of all members of the group",
                "bytes of requests and answers under way of all clients together",
            ],
            Self::Watches => [
                "watches",
                "watches of all members of the group",
                "watches of all clients together",
            ],
            Self::Records => [
                "bytes of records",
                "bytes of records of all members of the group",
                "bytes of records of all clients together",
            ],
            Self::Written => [
                "bytes written per minute",
                "bytes written per minute of all members of the group",
                "bytes written per minute of all clients together",
            ],
        };
        match bound {
            Bound::Client => client,
            Bound::Cohort => cohort,
            Bound::All => all,
        }
    }

    /// Advice for an administrator when all clients together have used it up.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Calls | Self::Connections | Self::RemoteConnections | Self::Kept => {
                "have it end some of its programs, or take its grant away"
            }
            Self::Watches => "have it end some of its programs, or raise quota.watches",
            Self::Records => "delete some of its records, or raise quota.all_bytes",
            Self::Written => "have it change less, or raise quota.written_bytes_per_minute",
        }
    }
}

/// The available amount of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Amount that one client gets.
    pub each: usize,
    /// Amount that all clients but root get together.
    pub all: usize,
}

impl Part {
    pub fn of(resource: Resource, quota: &Quota, connections: usize) -> Self {
        let each = match resource {
            Resource::Connections | Resource::RemoteConnections => {
                return Self { each: (connections / CONNECTIONS_OF_ONE).max(1), all: connections };
            }
            Resource::Records => return Self { each: quota.bytes, all: quota.all_bytes },
            // Calls of all clients are bounded by how many are answered at a time.
            Resource::Calls => {
                return Self { each: quota.requests_per_second as usize, all: usize::MAX };
            }
            Resource::Kept => KEPT,
            Resource::Watches => quota.watches,
            Resource::Written => quota.written_bytes_per_minute,
        };
        Self { each, all: each.saturating_mul(OF_ALL) }
    }
}
