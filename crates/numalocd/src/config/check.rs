//! Checks for keys that are valid alone but not together.

use super::{
    Grantee, Listen, NOBODY, Role,
    file::{File, GrantTable},
};
use crate::tls::Keys;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use numaloc_config::{Document, FileLine};
use std::{ffi::CString, path::Path};

/// A grant that an earlier one in another place overrules, which is valid, and which the administrator has to know.
#[derive(Debug)]
pub(super) struct Overruled {
    /// Its index among the grants of all files.
    pub(super) index: usize,
    /// Whether it never decides. Otherwise it does once its user has left the group that the earlier grant is to.
    pub(super) is_dropped: bool,
    pub(super) grant: FileLine,
    /// The earlier grant.
    pub(super) by: FileLine,
    /// The sentence that the earlier grant ends.
    pub(super) why: String,
}

/// Refuses what contradicts each other, and returns the grants that others overrule.
pub(super) fn check(file: &File, document: &mut Document<'_>) -> Vec<Overruled> {
    let listen = &file.listen;
    if let Some(Err(error)) = listen.tls.as_ref().map(Keys::read) {
        document.refuse("listen.tls", error);
    }
    sockets(listen, document);
    tcp(listen, document);
    let has_tls = document.has("listen.tls");
    let beyond = file.metrics.listen.filter(|address| !address.ip().is_loopback());
    if has_tls && listen.tcp.is_none() && beyond.is_none() {
        document.refuse(
            "listen.tls",
            "has no effect without listen.tcp, or metrics.listen beyond loopback: add one of them, or remove this",
        );
    }
    if let Some(address) = beyond.filter(|_| !has_tls) {
        document.refuse(
            "metrics.listen",
            format_args!(
                "{address} is not a loopback address, and without TLS no other is allowed: add [listen.tls], or \
                 use 127.0.0.1 or [::1]"
            ),
        );
    }
    if !file.dsa.manage_work_queue && !file.dsa.devices.is_empty() {
        let message =
            "has no effect without dsa.manage_work_queue = true: set that, or remove this";
        document.refuse("dsa.devices", message);
    }
    let resctrl = &file.resctrl;
    let limits = [
        ("resctrl.memory_bandwidth", resctrl.memory_bandwidth.is_some()),
        ("resctrl.l3", resctrl.l3.is_some()),
    ];
    for (key, _) in limits.into_iter().filter(|(_, is_set)| *is_set && resctrl.group.is_none()) {
        document.refuse(key, "has no effect without resctrl.group: set that, or remove this");
    }
    grants(&file.grants, document);
    overruled(&file.grants, listen, document)
}

/// No socket may be in or below the directory of another, so that the directory can be mounted into a container. The
/// exception: an additional socket may be below the directory of the main one, because that directory is never mounted
/// into a container.
fn sockets(listen: &Listen, document: &mut Document<'_>) {
    // A table without one of its keys is not in the list of sockets, and then the indices of the file are not those of
    // the list.
    if document.has(&format!("listen.sockets[{}]", listen.sockets.len())) {
        return;
    }
    let is_below = |path: &Path, other: &Path| {
        path.parent().is_some_and(|directory| other.starts_with(directory))
    };
    let main = &listen.socket;
    for (index, socket) in listen.sockets.iter().enumerate() {
        let path = &socket.path;
        let before = listen.sockets[..index].iter().map(|socket| &socket.path);
        let mut before = before.filter(|other| is_below(path, other) || is_below(other, path));
        if let Some(other) = before.next().or(Some(main).filter(|main| is_below(path, main))) {
            document.refuse(
                &format!("listen.sockets[{index}].path"),
                format_args!(
                    "there is another socket in this directory or below ({}): give each a directory of its own, so \
                     that it can be mounted without the others",
                    other.display()
                ),
            );
        }
    }
}

fn tcp(listen: &Listen, document: &mut Document<'_>) {
    let (has_tcp, has_tls) = (document.has("listen.tcp"), document.has("listen.tls"));
    let plain = listen.plain_loopback;
    if plain && has_tls {
        let message = "contradicts [listen.tls]: remove one of the two";
        document.refuse("listen.plain_loopback", message);
    }
    if plain && !has_tcp {
        let message = "has no effect without listen.tcp: add that, or remove this";
        document.refuse("listen.plain_loopback", message);
    }
    match listen.tcp {
        Some(_) if !has_tls && !plain => document.refuse(
            "listen.tcp",
            "TCP needs TLS: add [listen.tls] with certificate, key and client_ca, or set plain_loopback = true \
             for a loopback address",
        ),
        Some(address) if !has_tls && !address.ip().is_loopback() => document.refuse(
            "listen.tcp",
            format_args!(
                "{address} is not a loopback address, and without TLS no other is allowed: add [listen.tls]"
            ),
        ),
        _ => {}
    }
}

fn grants(grants: &[GrantTable], document: &mut Document<'_>) {
    // As for sockets, if an element is not a table at all.
    if document.has(&format!("grants[{}]", grants.len())) {
        return;
    }
    // Packages and administrators have files of their own: a grant that another file has already is overruled, which is
    // valid.
    let file = |index: usize| document.place_of(&format!("grants[{index}]")).map(|of| of.file);
    let doubled: Vec<usize> = (0..grants.len())
        .filter(|&index| earlier(grants, index).is_some_and(|other| file(other) == file(index)))
        .collect();
    for (index, grant) in grants.iter().enumerate() {
        let table = format!("grants[{index}]");
        // Invalid keys have been refused already.
        let has = |key: &str| document.has(&format!("{table}.{key}"));
        let grantees =
            ["user", "group", "certificate", "spiffe"].into_iter().filter(|key| has(key));
        let (grantees, has_role) = (grantees.count(), has("role"));
        let mut refuse =
            |key: &str, message: &str| document.refuse(&format!("{table}{key}"), message);
        let to = grant.to();
        if grantees != 1 {
            refuse("", "a grant is for a user, group, certificate or spiffe; give exactly one");
        }
        if !has_role {
            refuse(".role", "missing; it has to be given here");
        }
        if matches!(to, Some(Grantee::Uid(NOBODY) | Grantee::Gid(NOBODY))) {
            refuse(
                "",
                "stands for all users that the kernel cannot name here, such as users of other user \
                 namespaces: grant to another",
            );
        }
        if to == Some(Grantee::Uid(0)) {
            refuse("", "root is always an admin; remove this grant");
        }
        if doubled.contains(&index) {
            refuse("", "an earlier grant is for the same client; remove one of the two");
        }
        if matches!(grant.role, None | Some(Role::Operator)) {
            continue;
        }
        if !grant.cgroups.is_empty() {
            refuse(
                ".cgroups",
                "cgroups widen what an operator may move; a viewer moves nothing, an admin anything: remove them",
            );
        }
        if !grant.files.is_empty() {
            refuse(
                ".files",
                "files widen what an operator may move; a viewer moves nothing, an admin anything: remove them",
            );
        }
        if !grant.names.is_empty() {
            refuse(
                ".names",
                "names are kept for an operator; a viewer makes nothing, an admin may take any name: remove them",
            );
        }
        if grant.ceilings.is_some() {
            refuse(
                ".ceilings",
                "ceilings bound what an operator may ask for; a viewer asks for nothing, an admin has none: \
                 remove them",
            );
        }
    }
}

/// The first grant before this one to the same grantee.
fn earlier(grants: &[GrantTable], index: usize) -> Option<usize> {
    let to = grants[index].to()?;
    grants[..index].iter().position(|earlier| earlier.to().as_ref() == Some(&to))
}

/// Grants that earlier ones overrule: of other files to the same grantee, to a group that a user is in, and to the group of the socket, in
/// which all its users are.
fn overruled(grants: &[GrantTable], listen: &Listen, document: &Document<'_>) -> Vec<Overruled> {
    let of_socket = socket_group(listen);
    let mut overruled = Vec::new();
    let place = |index: usize| document.place_of(&format!("grants[{index}]"));
    for (index, grant) in grants.iter().enumerate() {
        let same = earlier(grants, index);
        let by = same.or_else(|| group_before(&grants[..index], grant.to()?, of_socket));
        let Some((by, grant, earlier)) = by.and_then(|by| Some((by, place(index)?, place(by)?)))
        else {
            continue;
        };
        let why = match (same, &grants[by].to()) {
            (None, Some(Grantee::Gid(gid))) if matches!(grants[index].to(), Some(Grantee::Gid(_))) => {
                format!(
                    "this grant has no effect at {}, whose users are all in the group {gid}: the first grant that matches decides. Put \
                     this one first, or in a file whose name sorts first. The grant to that group",
                    listen.socket.display()
                )
            }
            (None, Some(Grantee::Gid(gid))) => format!(
                "this grant has no effect while its user is in the group {gid}: the first grant that matches decides. Put this \
                 one first, or in a file whose name sorts first. The grant to the group"
            ),
            _ => "this grant has no effect, because the first grant that matches decides. The grant to the same one".to_owned(),
        };
        overruled.push(Overruled { index, is_dropped: same.is_some(), grant, by: earlier, why });
    }
    overruled
}

/// The group whose members may open the socket: the configured one, or that of the package's user, which the daemon runs as.
fn socket_group(listen: &Listen) -> Option<u32> {
    let name = listen.group.as_deref().unwrap_or("numaloc");
    Group::from_name(name).ok()?.map(|group| group.gid.as_raw())
}

/// The first of `grants` that is to a group of this user; for a group, the first to the group of the socket.
fn group_before(grants: &[GrantTable], to: Grantee, of_socket: Option<u32>) -> Option<usize> {
    let uid = match to {
        Grantee::Uid(uid) => uid,
        Grantee::Gid(gid) if of_socket.is_some_and(|socket| socket != gid) => {
            let socket = of_socket.map(Grantee::Gid);
            return grants.iter().position(|grant| grant.to() == socket);
        }
        _ => return None,
    };
    if !grants.iter().any(|grant| matches!(grant.to(), Some(Grantee::Gid(_)))) {
        return None;
    }
    let user = User::from_uid(Uid::from_raw(uid)).ok()??;
    let groups = getgrouplist(&CString::new(user.name).ok()?, user.gid).ok()?;
    let is_group = |grant: &GrantTable| matches!(grant.to(), Some(Grantee::Gid(gid)) if groups.contains(&Gid::from_raw(gid)));
    grants.iter().position(is_group)
}
