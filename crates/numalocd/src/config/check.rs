//! What makes keys invalid together that are valid alone.

use super::{
    Grantee, Listen, NOBODY, Role,
    file::{File, GrantTable},
};
use crate::tls::Keys;
use numaloc_config::Document;
use std::path::Path;

pub(super) fn check(file: &File, document: &mut Document<'_>) {
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
    grants(&file.grants, document);
}

/// No socket may be in or below the directory of another, so that the directory can be mounted into a container. The exception: an
/// additional socket may be below the directory of the main one, because that directory is never mounted into a container.
fn sockets(listen: &Listen, document: &mut Document<'_>) {
    // A table without one of its keys is no socket, and then the indices of the file are not those of the list.
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
    for (index, grant) in grants.iter().enumerate() {
        let table = format!("grants[{index}]");
        // What is there but invalid has been refused already.
        let has = |key: &str| document.has(&format!("{table}.{key}"));
        let grantees =
            ["user", "group", "certificate", "spiffe"].into_iter().filter(|key| has(key));
        let (grantees, has_role) = (grantees.count(), has("role"));
        let mut refuse =
            |key: &str, message: &str| document.refuse(&format!("{table}{key}"), message);
        let to = grant.to();
        if grantees != 1 {
            refuse(
                "",
                "one of user, group, certificate and spiffe says whom a grant is for; give exactly one",
            );
        }
        if !has_role {
            refuse(".role", "missing; it has to be given here");
        }
        if matches!(to, Some(Grantee::Uid(NOBODY) | Grantee::Gid(NOBODY))) {
            refuse(
                "",
                "stands for everybody whom the kernel cannot name here, such as users of other user \
                 namespaces: grant to another",
            );
        }
        if to == Some(Grantee::Uid(0)) {
            refuse("", "root is always an admin; remove this grant");
        }
        if to.is_some() && grants[..index].iter().any(|earlier| earlier.to() == to) {
            refuse("", "an earlier grant already names the same one; remove one of the two");
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
