//! What peers may do, by the configuration: the first grant that fits decides.

use super::{Authority, Caller, Peer, Role};
use crate::config::{Grant, Grantee};
use nix::unistd::geteuid;
use std::{cell::OnceCell, fmt, sync::Arc};

/// The grants, and the user database that tells who is in a group.
pub struct Grants<'a> {
    grants: &'a [Grant],
    groups: &'a dyn Fn(u32) -> Arc<[u32]>,
    own_uid: u32,
}

impl fmt::Debug for Grants<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grants").field("grants", &self.grants).finish_non_exhaustive()
    }
}

impl<'a> Grants<'a> {
    /// `groups` gives the group ids of a user id. It is asked only when a grant to a group could decide; see
    /// [`Self::ask_groups`].
    pub fn new(grants: &'a [Grant], groups: &'a dyn Fn(u32) -> Arc<[u32]>) -> Self {
        Self { grants, groups, own_uid: geteuid().as_raw() }
    }

    /// Whether any grant is to a group.
    pub fn ask_groups(grants: &[Grant]) -> bool {
        grants.iter().any(|grant| matches!(grant.to, Grantee::Gid(_)))
    }

    /// What `peer` may do; `None`: nothing.
    ///
    /// root and the user that the daemon runs as may do all: they could do as much without it. A certificate goes by the
    /// name that its grant is to, so that its records stay its own when other names in it change; names are compared letter by letter, and `*` stands for itself. At the plain TCP port, which
    /// every process of the host reaches, everybody is a viewer and no grant makes more of them.
    pub fn caller(&self, peer: &Peer) -> Option<Caller> {
        match peer {
            Peer::User { uid, .. } if *uid == 0 || *uid == self.own_uid => {
                Some(caller(peer.name(), Role::Admin, None, &[]))
            }
            Peer::User { uid, gid } => {
                let grant = self.to_user(*uid, *gid)?;
                Some(caller(peer.name(), grant.role, Some(*uid), &grant.cgroups))
            }
            Peer::Certificate { names } => self.grants.iter().find_map(|grant| match &grant.to {
                Grantee::Certificate(name) if names.contains(name) => {
                    Some(caller(format!("cert:{name}"), grant.role, None, &grant.cgroups))
                }
                _ => None,
            }),
            Peer::Plain => Some(caller(peer.name(), Role::Viewer, None, &[])),
        }
    }

    /// Whose memory may be moved now on behalf of the creator of a stored record, by its name there. `None`: it is no
    /// operator any more, or never was one. Members of a group are known by the user database alone.
    pub fn authority(&self, creator: &str) -> Option<Authority> {
        let caller = self.caller(&Peer::of_creator(creator)?)?;
        (caller.role >= Role::Operator).then_some(caller.authority)
    }

    fn to_user(&self, uid: u32, gid: Option<u32>) -> Option<&'a Grant> {
        let groups = OnceCell::new();
        self.grants.iter().find(|grant| match grant.to {
            Grantee::Uid(granted) => granted == uid,
            Grantee::Gid(granted) => {
                gid == Some(granted) || groups.get_or_init(|| (self.groups)(uid)).contains(&granted)
            }
            Grantee::Certificate(_) => false,
        })
    }
}

fn caller(name: String, role: Role, uid: Option<u32>, cgroups: &[String]) -> Caller {
    let authority = match role {
        Role::Viewer => Authority::Of { uid: None, cgroups: Vec::new() },
        Role::Operator => Authority::Of { uid, cgroups: cgroups.to_vec() },
        Role::Admin => Authority::All,
    };
    Caller { name, role, authority }
}
