//! Whom something counts for.

use nix::unistd::geteuid;
use std::fmt;

/// Part of all members of one cohort together, and of root, as a multiple of the part of one client.
pub(super) const COHORT: usize = 2;

/// Clients that one bound is for, besides the bound for each of them. They may be very many: who may use a range of
/// user ids (subuid(5)) is a client with each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cohort {
    /// Members of the group with this id, which a grant names.
    Group(u32),
    /// All clients that have no role at all.
    WithoutRole,
}

/// The client that a resource is charged to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// Such as `uid:1000`, `cert:` and the name in the certificate, a SPIFFE ID, or the address of a TCP client.
    pub name: String,
    /// `None`: the client has a grant of its own.
    pub cohort: Option<Cohort>,
}

impl Client {
    /// The client with this name, to which a grant may be by its group.
    pub fn new(name: &str, gid: Option<u32>) -> Self {
        Self { name: name.to_owned(), cohort: gid.map(Cohort::Group) }
    }

    /// Whether it is root or the daemon's own user, which have their part beside all others.
    pub fn is_host(&self) -> bool {
        is_host_name(&self.name)
    }

    /// Whom it counts for, each with how many parts it gets.
    pub fn holders(&self) -> impl Iterator<Item = (Holder, usize)> {
        let cohort = self.cohort.map(|cohort| (Holder::Cohort(cohort), COHORT));
        let own = if self.is_host() { COHORT } else { 1 };
        [(Holder::Client(self.name.clone()), own)].into_iter().chain(cohort)
    }
}

/// A client alone, or a cohort of clients.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// The client with this name.
    Client(String),
    Cohort(Cohort),
    /// All clients but root together.
    All,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(name) => f.write_str(name),
            Self::Cohort(Cohort::Group(gid)) => write!(f, "gid:{gid}"),
            Self::Cohort(Cohort::WithoutRole) => f.write_str("clients without a role"),
            Self::All => f.write_str("all clients"),
        }
    }
}

/// Whether a user id is root's or that of the user that the daemon runs as. Both could do as much without the daemon.
pub fn is_host(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// Whether a client of this name is root or the user that the daemon runs as ([`is_host`]).
pub fn is_host_name(name: &str) -> bool {
    name.strip_prefix("uid:").and_then(|uid| uid.parse().ok()).is_some_and(is_host)
}
