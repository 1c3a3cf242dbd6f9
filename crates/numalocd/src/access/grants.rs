//! Rights of peers by the configuration. The first grant that matches a peer decides.

use super::{Caller, Peer};
use crate::accounts::is_host;
use crate::config::{Ceilings, Config, Grant, Grantee, NOBODY, Role, Socket};
use numaloc_engine::Authority;
use std::{collections::HashMap, path::Path};

/// Separates the name of a caller from the path of the additional socket that lowers its role. User names of the form
/// `uid:N` do not contain it.
const AT: char = '@';

/// The grants. Pure: no user database is asked. The kernel names a client's groups when it connects, and each record
/// keeps the group that mattered.
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
    /// These grants, without additional sockets.
    pub fn new(grants: &'a [Grant]) -> Self {
        Self { grants, sockets: &[] }
    }

    /// The caller that `peer` acts as, with its rights; `None`: it has none.
    ///
    /// root and the user that the daemon runs as may do everything: they could do as much without the daemon. A
    /// certificate goes by the name that its grant names. So its records stay its own when other names in the
    /// certificate change. Names are compared letter by letter, and `*` is not a wildcard. Every process of the host
    /// can reach the plain TCP port. So each client there is a viewer, and no grant raises that.
    pub fn caller(&self, peer: &Peer) -> Option<Caller> {
        match peer {
            // Checked first: it holds even if the daemon itself runs as that user.
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

    /// The caller that `peer` acts as at the socket it connected to; `socket` is `None` for the main socket and TCP.
    ///
    /// An additional socket has an upper role. A peer with a higher role acts there under that role and under another
    /// name. So the records that it makes there are kept apart from its other records, and are never carried out with
    /// more rights later.
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

    /// The creator of a stored record, with its present rights. `creator` and `gid` come from the record: the creator's
    /// name, and the group that its grant named then. `None`: it is not an operator any more, or never was one.
    ///
    /// With unchanged grants the result is the caller that created the record. Only the grants and the sockets are
    /// asked.
    pub fn creator(&self, creator: &str, gid: Option<u32>) -> Option<Caller> {
        let (name, socket) = match creator.split_once(AT) {
            Some((name, path)) if name.starts_with("uid:") => {
                let path = Path::new(path);
                (name, Some(self.sockets.iter().find(|socket| socket.path == path)?))
            }
            _ => (creator, None),
        };
        let caller = self.caller_at(&Peer::of_creator(name, gid)?, socket)?;
        // If the socket's upper role has been raised meanwhile, the peer would have another name there: it is another
        // caller.
        (caller.role >= Role::Operator && caller.name == creator).then_some(caller)
    }
}

/// Looks up the creators of many records, each creator once.
#[derive(Debug)]
pub struct Creators<'a> {
    grants: Grants<'a>,
    known: HashMap<(&'a str, Option<u32>), Option<Caller>>,
}

impl<'a> Creators<'a> {
    pub(crate) fn new(grants: Grants<'a>) -> Self {
        Self { grants, known: HashMap::new() }
    }

    /// As [`Grants::creator`], looked up once for each creator.
    pub fn get(&mut self, creator: &'a str, gid: Option<u32>) -> Option<&Caller> {
        let known = self.known.entry((creator, gid));
        known.or_insert_with(|| self.grants.creator(creator, gid)).as_ref()
    }
}

fn caller(name: String, role: Role, uid: Option<u32>, grant: Option<&Grant>) -> Caller {
    let cgroups = || grant.map_or_else(Vec::new, |grant| grant.cgroups.clone());
    let files = || grant.map_or_else(Vec::new, |grant| grant.files.clone());
    let authority = match role {
        Role::Viewer => Authority::NONE,
        Role::Operator => Authority::Of { uid, cgroups: cgroups(), files: files() },
        Role::Admin => Authority::All,
    };
    let ceilings = match role {
        Role::Viewer => Ceilings::default(),
        Role::Operator => grant.map_or_else(Ceilings::default, |grant| grant.ceilings),
        Role::Admin => Ceilings::NONE,
    };
    Caller { name, gid: None, role, authority, ceilings }
}
