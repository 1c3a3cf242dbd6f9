//! Values that only the daemon's configuration has: modes, addresses, paths, cgroups, users and groups.

use crate::tls::Pem;
use nix::{
    errno::Errno,
    unistd::{Group, User},
};
use numaloc_api::value::{PATH_MAX, QosClass, WorkloadId, is_path};
use numaloc_config::value::{Refusal, Scalar, one_of, scalar, size, text, within};
use numaloc_core::amount;
use numaloc_dma::dsa::is_device_name;
use serde::de::{Deserialize, Deserializer, Error};
use std::{
    net::SocketAddr,
    path::{Component, Path, PathBuf},
    str::FromStr,
};

/// Longest path of a Unix socket: the kernel's limit, less what is added to the name while the socket is being made.
const SOCKET_PATH_MAX: usize = 107 - ".".len() - ".new".len();

/// Longest SPIFFE ID in bytes. It is shorter than the standard's 2048, because names of creators have at most 256 bytes
/// in filters.
const SPIFFE_MAX: usize = 256;

/// The largest number that is an id: chown(2) takes the next one for "leave unchanged".
const ID_MAX: u64 = u32::MAX as u64 - 1;

/// Upper bound of numbers of records.
pub(super) const MANY: u64 = 10_000_000;

/// Permission bits of a socket that names none.
pub(super) fn usual_mode() -> u32 {
    0o660
}

/// Permission bits of a socket, in octal.
pub(super) fn mode<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    text(from, "a mode in octal such as \"0660\"", |text| match u32::from_str_radix(text, 8) {
        Ok(mode @ 0..=0o777) if mode & 0o600 == 0o600 => Ok(mode),
        Ok(mode @ 0..=0o777) => {
            Err(format!("mode {mode:04o} keeps the daemon itself out; it has to include 0600"))
        }
        _ => Err(invalid(text, "mode: expected for example \"0660\"")),
    })
}

/// An approximate size of records. The lower bound is the size of the largest request.
pub(super) fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    size::<{ 1 << 20 }, { 1 << 40 }, _, _>(from)
}

pub(super) fn qos_class<'de, D: Deserializer<'de>>(from: D) -> Result<QosClass, D::Error> {
    one_of(from, "class", &[("lsr", QosClass::Lsr), ("ls", QosClass::Ls), ("be", QosClass::Be)])
}

pub(super) fn is_batch<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    one_of(from, "policy of sched(7)", &[("batch", true), ("other", false)])
}

/// A text that `FromStr` parses.
pub(super) fn parsed<'de, D: Deserializer<'de>, T>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: std::fmt::Display>,
{
    text(from, "a string", str::parse)
}

/// An address with a port.
pub(super) fn some_address<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<SocketAddr>, D::Error> {
    text(from, "an address with a port such as \"127.0.0.1:7430\"", |text| {
        let address = text.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
        let expected =
            "address: expected one with a port, for example 127.0.0.1:7430 or [::1]:7430";
        address.map(Some).ok_or_else(|| invalid(text, expected))
    })
}

pub(super) fn socket<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    text(from, "the path of a socket", |text| {
        let socket = path(text)?;
        match socket.as_os_str().len() {
            0..=SOCKET_PATH_MAX if socket.file_name().is_some() => Ok(socket),
            0..=SOCKET_PATH_MAX => {
                Err(invalid(text, "path of a socket: expected a file in a directory"))
            }
            _ => Err(format!(
                "longer than {SOCKET_PATH_MAX} bytes, which a socket cannot have; take a shorter one"
            )),
        }
    })
}

/// A file with a certificate in PEM form.
pub(super) fn certificate_file<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    pem(from, Pem::Certificate)
}

/// A file with a private key in PEM form.
pub(super) fn key_file<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    pem(from, Pem::Key)
}

fn pem<'de, D: Deserializer<'de>>(from: D, kind: Pem) -> Result<PathBuf, D::Error> {
    text(from, "the path of a file", |text| {
        let path = path(text)?;
        kind.read(&path).map_err(|error| error.to_string())?;
        Ok::<_, String>(path)
    })
}

/// A path that is absolute and has no `..`.
pub fn path(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    let has_parent = path.components().any(|part| part == Component::ParentDir);
    let is_valid = path.is_absolute() && !has_parent && !text.contains('\0');
    is_valid
        .then(|| path.to_owned())
        .ok_or_else(|| format!("'{text}' is not an absolute path without '..'"))
}

/// A list of cgroups, as in /proc/PID/cgroup. The bounds are those of cgroups in a request.
pub(super) fn cgroups<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let expected =
        "cgroup: expected an absolute path without '..' and '//', for example /kubepods.slice";
    list(from, is_bounded_path, expected)
}

/// A list of files and directories. The bounds are those of files in a request.
pub(super) fn files<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let expected = "file: expected an absolute path without '..' and '//', for example /srv/models";
    list(from, is_bounded_path, expected)
}

fn is_bounded_path(text: &str) -> bool {
    is_path(text) && text.len() <= PATH_MAX && !text.chars().any(char::is_control)
}

/// A list of beginnings of names. Ids that are numbers are given by the daemon.
pub(super) fn names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let is_valid = |text: &str| WorkloadId::new(text).is_some_and(|id| id.number().is_none());
    let expected = "beginning of names: letters, digits, '.', '_' or '-', for example agent-";
    list(from, is_valid, expected)
}

/// A list of DSA devices.
pub(super) fn devices<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let expected = "DSA device: expected for example dsa0 (numalocctl dsa lists them)";
    list(from, is_device_name, expected)
}

fn list<'de, D: Deserializer<'de>>(
    from: D,
    is_valid: impl Fn(&str) -> bool,
    expected: &str,
) -> Result<Vec<String>, D::Error> {
    let list = Vec::<String>::deserialize(from)?;
    match list.iter().find(|text| !is_valid(text)) {
        Some(text) => Err(D::Error::custom(invalid(text, expected))),
        None => Ok(list),
    }
}

/// A share of one CPU in percent, from 0.01 to 20.
pub(super) fn cpu_percent<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    text(from, "a percentage such as \"0.5%\"", |text| {
        let percent =
            amount::percent(text).map_err(|error| format!("invalid value '{text}': {error}"))?;
        let refuse = || format!("{text} is out of range: 0.01% to 20%");
        (0.01..=20.0).contains(&percent).then_some(percent).ok_or_else(refuse)
    })
}

/// The common name or a DNS name of a certificate.
pub(super) fn some_certificate_name<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<String>, D::Error> {
    text(from, "a name", |name| {
        let is_valid = (1..=253).contains(&name.len()) && !name.chars().any(char::is_control);
        let refuse = || "a certificate's name has 1 to 253 printable characters";
        is_valid.then(|| Some(name.to_owned())).ok_or_else(refuse)
    })
}

/// A SPIFFE ID, as the standard has it: a trust domain and a path (SPIFFE-ID, sections 2.1 to 2.3).
pub(super) fn some_spiffe_id<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<String>, D::Error> {
    let is_domain = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '-' | '_');
    let is_segment = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    text(from, "a SPIFFE ID", |text| {
        let parts = text.strip_prefix("spiffe://").map(|rest| rest.split('/'));
        let is_valid = parts.is_some_and(|mut parts| {
            let domain = parts.next().unwrap_or_default();
            !domain.is_empty() && domain.chars().all(is_domain) && parts.all(is_segment)
        });
        let expected = "SPIFFE ID: expected for example spiffe://example.org/ns/web/sa/agent";
        let is_valid = is_valid && text.len() <= SPIFFE_MAX;
        is_valid.then(|| Some(text.to_owned())).ok_or_else(|| invalid(text, expected))
    })
}

/// The account that a grant is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Account {
    Id(u32),
    /// The name of one that this host does not have now: its package may have been removed, or a directory answers
    /// later.
    Missing(String),
}

impl Account {
    fn of(
        value: Scalar<'_>,
        find: impl FnOnce(&str) -> nix::Result<Option<u32>>,
    ) -> Result<Self, Refusal> {
        match value {
            Scalar::Number(number) => within(number, 0..=ID_MAX).map(Self::Id),
            Scalar::Text(name) => {
                let id = find(name).map_err(unread)?;
                Ok(id.map_or_else(|| Self::Missing(name.to_owned()), Self::Id))
            }
        }
    }

    /// Its number, if this host has it.
    pub(super) fn id(&self) -> Option<u32> {
        match self {
            Self::Id(id) => Some(*id),
            Self::Missing(_) => None,
        }
    }

    /// The name, if this host does not have it.
    pub(super) fn missing(&self) -> Option<&str> {
        match self {
            Self::Id(_) => None,
            Self::Missing(name) => Some(name),
        }
    }
}

/// A user by name or number.
pub(super) fn some_user<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Account>, D::Error> {
    scalar(from, "the name or number of a user", |value| {
        let find = |name: &str| Ok(User::from_name(name)?.map(|user| user.uid.as_raw()));
        Account::of(value, find).map(Some)
    })
}

/// A group by name or number.
pub(super) fn some_group_id<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Account>, D::Error> {
    scalar(from, "the name or number of a group", |value| Account::of(value, find_group).map(Some))
}

/// A group by name or number, which is kept as it is written: a socket's group is looked up again when the socket is
/// made.
pub(super) fn some_group<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    scalar(from, "the name or number of a group", |value| {
        let id = group(value)?;
        Ok(Some(match value {
            Scalar::Number(_) => id.to_string(),
            Scalar::Text(name) => name.to_owned(),
        }))
    })
}

fn group(value: Scalar<'_>) -> Result<u32, Refusal> {
    match Account::of(value, find_group)? {
        Account::Id(id) => Ok(id),
        Account::Missing(name) => {
            Err(format!("group '{name}' does not exist here; create it, or give a number").into())
        }
    }
}

fn find_group(name: &str) -> nix::Result<Option<u32>> {
    Ok(Group::from_name(name)?.map(|group| group.gid.as_raw()))
}

fn unread(errno: Errno) -> String {
    format!("the accounts of this host cannot be read: {errno}")
}

fn invalid(text: &str, expected: &str) -> String {
    format!("'{text}' is not a valid {expected}")
}
