//! What peers may do, by the configuration: the first grant that fits decides.

use super::{Authority, Caller, Ceilings, Peer, Role, is_host};
use crate::config::{Grant, Grantee};

/// The grants. Pure: who is in which group the kernel has said when the client connected, and a record keeps it.
#[derive(Debug)]
pub struct Grants<'a> {
    grants: &'a [Grant],
}

impl<'a> Grants<'a> {
    /// Those of the configuration.
    pub fn new(grants: &'a [Grant]) -> Self {
        Self { grants }
    }

    /// What `peer` may do; `None`: nothing.
    ///
    /// root and the user that the daemon runs as may do all: they could do as much without it. A certificate goes by the
    /// name that its grant is to, so that its records stay its own when other names in it change; names are compared letter by
    /// letter, and `*` stands for itself. At the plain TCP port, which every process of the host reaches, everybody is a
    /// viewer and no grant makes more of them.
    pub fn caller(&self, peer: &Peer) -> Option<Caller> {
        match peer {
            Peer::User { uid, .. } if is_host(*uid) => {
                Some(caller(peer.name(), Role::Admin, None, None))
            }
            Peer::User { uid, groups } => {
                let grant = self.grants.iter().find(|grant| match &grant.to {
                    Grantee::Uid(granted) => granted == uid,
                    Grantee::Gid(granted) => groups.contains(granted),
                    Grantee::Certificate(_) => false,
                })?;
                let gid = match grant.to {
                    Grantee::Gid(gid) => Some(gid),
                    Grantee::Uid(_) | Grantee::Certificate(_) => None,
                };
                let caller = caller(peer.name(), grant.role, Some(*uid), Some(grant));
                Some(Caller { gid, ..caller })
            }
            Peer::Certificate { names } => self.grants.iter().find_map(|grant| match &grant.to {
                Grantee::Certificate(name) if names.contains(name) => {
                    Some(caller(format!("cert:{name}"), grant.role, None, Some(grant)))
                }
                _ => None,
            }),
            Peer::Plain => Some(caller(peer.name(), Role::Viewer, None, None)),
        }
    }

    /// The creator of a stored record as what it may act now, by its name there and the group that its grant was to then.
    /// `None`: it is no operator any more, or never was one.
    ///
    /// For the same grants it is who it was when it created the record: nothing else is asked.
    pub fn creator(&self, creator: &str, gid: Option<u32>) -> Option<Caller> {
        let caller = self.caller(&Peer::of_creator(creator, gid)?)?;
        (caller.role >= Role::Operator).then_some(caller)
    }
}

fn caller(name: String, role: Role, uid: Option<u32>, grant: Option<&Grant>) -> Caller {
    let cgroups = || grant.map_or_else(Vec::new, |grant| grant.cgroups.clone());
    let authority = match role {
        Role::Viewer => Authority::Of { uid: None, cgroups: Vec::new() },
        Role::Operator => Authority::Of { uid, cgroups: cgroups() },
        Role::Admin => Authority::All,
    };
    let ceilings = match role {
        Role::Viewer => Ceilings::default(),
        Role::Operator => grant.map_or_else(Ceilings::default, |grant| grant.ceilings),
        Role::Admin => Ceilings::NONE,
    };
    Caller { name, gid: None, role, authority, ceilings }
}
