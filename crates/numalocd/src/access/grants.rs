//! What peers may do, by the configuration: the first grant that fits decides.

use super::{Authority, Caller, Ceilings, NOBODY, Peer, Role, is_host};
use crate::config::{Config, Grant, Grantee, Socket};
use std::{collections::HashMap, path::Path};

/// Between who somebody is and the further socket that makes less of it. Names of users do not have it.
const AT: char = '@';

/// The grants. Pure: who is in which group the kernel has said when the client connected, and a record keeps it.
#[derive(Debug)]
pub struct Grants<'a> {
    grants: &'a [Grant],
    sockets: &'a [Socket],
}

impl<'a> From<&'a Config> for Grants<'a> {
    fn from(config: &'a Config) -> Self {
        Self { grants: &config.grants, sockets: &config.listen.sockets }
    }
}

impl<'a> Grants<'a> {
    /// These, where there are no further sockets.
    pub fn new(grants: &'a [Grant]) -> Self {
        Self { grants, sockets: &[] }
    }

    /// What `peer` may do; `None`: nothing.
    ///
    /// root and the user that the daemon runs as may do all: they could do as much without it. A certificate goes by the
    /// name that its grant is to, so that its records stay its own when other names in it change; names are compared letter by
    /// letter, and `*` stands for itself. At the plain TCP port, which every process of the host reaches, everybody is a
    /// viewer and no grant makes more of them.
    pub fn caller(&self, peer: &Peer) -> Option<Caller> {
        match peer {
            // Also where the daemon itself runs as that one.
            Peer::User { uid: NOBODY, .. } => None,
            Peer::User { uid, .. } if is_host(*uid) => {
                Some(caller(peer.name(), Role::Admin, None, None))
            }
            Peer::User { uid, groups } => {
                let grant = self.grants.iter().find(|grant| match &grant.to {
                    Grantee::Uid(granted) => granted == uid,
                    Grantee::Gid(granted) => *granted != NOBODY && groups.contains(granted),
                    Grantee::Certificate(_) | Grantee::Spiffe(_) => false,
                })?;
                let gid = match grant.to {
                    Grantee::Gid(gid) => Some(gid),
                    Grantee::Uid(_) | Grantee::Certificate(_) | Grantee::Spiffe(_) => None,
                };
                let caller = caller(peer.name(), grant.role, Some(*uid), Some(grant));
                Some(Caller { gid, ..caller })
            }
            Peer::Certificate { names, spiffe } => self.grants.iter().find_map(|grant| {
                let name = match &grant.to {
                    Grantee::Certificate(name) if names.contains(name) => format!("cert:{name}"),
                    Grantee::Spiffe(id) if spiffe.as_ref() == Some(id) => id.clone(),
                    _ => return None,
                };
                Some(caller(name, grant.role, None, Some(grant)))
            }),
            Peer::Plain => Some(caller(peer.name(), Role::Viewer, None, None)),
        }
    }

    /// What `peer` may do where it has connected; `None`: at the main socket, or by TCP.
    ///
    /// One who would be more than a further socket lets anybody be is another one there, with a name of its own: what it makes
    /// is neither mixed up with what it makes elsewhere, nor done with more rights later.
    pub fn caller_at(&self, peer: &Peer, socket: Option<&Socket>) -> Option<Caller> {
        let full = self.caller(peer)?;
        let Some(socket) = socket.filter(|socket| full.role > socket.max_role) else {
            return Some(full);
        };
        let uid = match peer {
            Peer::User { uid, .. } => Some(*uid),
            Peer::Certificate { .. } | Peer::Plain => None,
        };
        let name = format!("{}{AT}{}", full.name, socket.path.display());
        Some(Caller { gid: full.gid, ..caller(name, socket.max_role, uid, None) })
    }

    /// The creator of a stored record as what it may act now, by its name there and the group that its grant was to then.
    /// `None`: it is no operator any more, or never was one.
    ///
    /// For the same grants it is who it was when it created the record: nothing else is asked.
    pub fn creator(&self, creator: &str, gid: Option<u32>) -> Option<Caller> {
        let (name, socket) = match creator.split_once(AT) {
            Some((name, path)) if name.starts_with("uid:") => {
                let path = Path::new(path);
                (name, Some(self.sockets.iter().find(|socket| socket.path == path)?))
            }
            _ => (creator, None),
        };
        let caller = self.caller_at(&Peer::of_creator(name, gid)?, socket)?;
        // At a socket that lets more be by now, it would be somebody else.
        (caller.role >= Role::Operator && caller.name == creator).then_some(caller)
    }
}

/// Creators of many records, each asked for once.
#[derive(Debug)]
pub struct Creators<'a> {
    grants: Grants<'a>,
    known: HashMap<(&'a str, Option<u32>), Option<Caller>>,
}

impl<'a> Creators<'a> {
    /// By these grants.
    pub fn new(grants: Grants<'a>) -> Self {
        Self { grants, known: HashMap::new() }
    }

    /// As [`Grants::creator`].
    pub fn get(&mut self, creator: &'a str, gid: Option<u32>) -> Option<&Caller> {
        let known = self.known.entry((creator, gid));
        known.or_insert_with(|| self.grants.creator(creator, gid)).as_ref()
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
