//! Parsers for values: sizes, durations, modes, addresses, paths, users and groups.

use super::Fault;
use nix::unistd::{Group, User};
use numaloc_api::{
    amount::{self, AmountError},
    value::{CGROUP_MAX, WorkloadId, is_cgroup},
};
use numaloc_dma::dsa::is_device_name;
use std::{
    io,
    net::SocketAddr,
    ops::RangeInclusive,
    path::{Component, Path, PathBuf},
    time::Duration,
};
use toml::de::DeValue;

/// Longest path of a Unix socket: the kernel's limit, less what is added to the name while the socket is being made.
pub(crate) const SOCKET_PATH_MAX: usize = 107 - ".".len() - ".new".len();

/// Longest SPIFFE ID in bytes. It is shorter than the standard's 2048, because names of creators have at most 256 bytes in
/// filters.
const SPIFFE_MAX: usize = 256;

pub(super) fn text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, Fault> {
    value.as_str().ok_or_else(|| wrong("string", value))
}

/// true or false.
pub(super) fn flag(value: &DeValue<'_>) -> Result<bool, Fault> {
    value.as_bool().ok_or_else(|| wrong("true or false", value))
}

/// A whole number within a range.
pub(super) fn count<T: TryFrom<i128>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&DeValue<'_>) -> Result<T, Fault> {
    move |value| {
        let number = integer(value).ok_or_else(|| wrong("whole number", value))?;
        let fits = within(number, &range);
        fits.then(|| T::try_from(number).ok()).flatten().ok_or_else(|| Fault::Range {
            value: number.to_string(),
            least: range.start().to_string(),
            most: range.end().to_string(),
        })
    }
}

/// A number of bytes within a range: a whole number, or text such as `16M`.
pub(super) fn size(range: RangeInclusive<u64>) -> impl Fn(&DeValue<'_>) -> Result<u64, Fault> {
    move |value| {
        if value.is_integer() {
            return count(range.clone())(value);
        }
        let text = text(value)?;
        let bytes = amount::size(text).map_err(|error| amiss(text, error))?;
        if range.contains(&bytes) {
            return Ok(bytes);
        }
        let (least, most) = (range.start().to_string(), range.end().to_string());
        Err(Fault::Range { value: text.to_owned(), least, most: format!("{most} bytes") })
    }
}

/// A duration within a range, in text with a unit.
pub(super) fn span(
    range: RangeInclusive<Duration>,
) -> impl Fn(&DeValue<'_>) -> Result<Duration, Fault> {
    move |value| {
        let text = value.as_str().ok_or_else(|| wrong("duration such as \"30s\"", value))?;
        let span = amount::duration(text).map_err(|error| amiss(text, error))?;
        if range.contains(&span) {
            return Ok(span);
        }
        let (least, most) = (format!("{:?}", range.start()), format!("{:?}", range.end()));
        Err(Fault::Range { value: text.to_owned(), least, most })
    }
}

/// Permission bits of a socket, in octal.
pub(super) fn mode(value: &DeValue<'_>) -> Result<u32, Fault> {
    let wanted = "mode: expected for example \"0660\"";
    let mode = match value {
        // 660 without quotes is a decimal number, which is not what it looks like.
        DeValue::Integer(number) if number.radix() != 8 => {
            return Err(form(&number.to_string(), wanted));
        }
        DeValue::Integer(number) => u32::from_str_radix(number.as_str(), 8),
        value => u32::from_str_radix(text(value)?, 8),
    };
    match mode {
        Ok(mode @ 0..=0o777) if mode & 0o600 == 0o600 => Ok(mode),
        Ok(mode @ 0..=0o777) => Err(Fault::Mode { mode }),
        _ => Err(form(value.as_str().unwrap_or("it"), wanted)),
    }
}

/// An address with a port.
pub(super) fn address(value: &DeValue<'_>) -> Result<SocketAddr, Fault> {
    let text = text(value)?;
    let address = text.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
    address.ok_or_else(|| {
        form(text, "address: expected one with a port, for example 127.0.0.1:7430 or [::1]:7430")
    })
}

/// The path of a file.
pub(super) fn path(value: &DeValue<'_>) -> Result<PathBuf, Fault> {
    let text = text(value)?;
    let path = Path::new(text);
    let has_parent = path.components().any(|part| part == Component::ParentDir);
    if path.is_absolute() && !has_parent && !text.contains('\0') {
        return Ok(path.to_owned());
    }
    Err(Fault::Path { text: text.to_owned() })
}

/// The path of a Unix socket.
pub(super) fn socket(value: &DeValue<'_>) -> Result<PathBuf, Fault> {
    let socket = path(value)?;
    match socket.as_os_str().len() {
        0..=SOCKET_PATH_MAX if socket.file_name().is_some() => Ok(socket),
        0..=SOCKET_PATH_MAX => {
            Err(form(&socket.to_string_lossy(), "path of a socket: expected a file in a directory"))
        }
        _ => Err(Fault::SocketPath { most: SOCKET_PATH_MAX }),
    }
}

/// A list of cgroups, as in /proc/PID/cgroup. The bounds are those of cgroups in a request.
pub(super) fn cgroups(value: &DeValue<'_>) -> Result<Vec<String>, Fault> {
    let list = value.as_array().ok_or_else(|| wrong("list of cgroups", value))?;
    list.iter().map(|entry| cgroup(text(entry.get_ref())?)).collect()
}

fn cgroup(text: &str) -> Result<String, Fault> {
    let fits = is_cgroup(text) && text.len() <= CGROUP_MAX && !text.chars().any(char::is_control);
    let wanted =
        "cgroup: expected an absolute path without '..' and '//', for example /kubepods.slice";
    if fits { Ok(text.to_owned()) } else { Err(form(text, wanted)) }
}

/// A list of what names begin with.
pub(super) fn names(value: &DeValue<'_>) -> Result<Vec<String>, Fault> {
    let list = value.as_array().ok_or_else(|| wrong("list of beginnings of names", value))?;
    // Ids that are numbers are given by the daemon.
    let prefix = |text: &str| match WorkloadId::new(text).filter(|id| id.number().is_none()) {
        Some(id) => Ok(id.id().to_owned()),
        None => Err(form(
            text,
            "beginning of names: letters, digits, '.', '_' or '-', for example agent-",
        )),
    };
    list.iter().map(|entry| prefix(text(entry.get_ref())?)).collect()
}

/// A list of DSA devices.
pub(super) fn devices(value: &DeValue<'_>) -> Result<Vec<String>, Fault> {
    let list = value.as_array().ok_or_else(|| wrong("list of devices", value))?;
    let device = |text: &str| match is_device_name(text) {
        true => Ok(text.to_owned()),
        false => {
            Err(form(text, "DSA device: expected for example dsa0 (numalocctl dsa lists them)"))
        }
    };
    list.iter().map(|entry| device(text(entry.get_ref())?)).collect()
}

/// A SPIFFE ID, as the standard has it: a trust domain and a path (SPIFFE-ID, sections 2.1 to 2.3).
pub(super) fn spiffe(value: &DeValue<'_>) -> Result<String, Fault> {
    let text = text(value)?;
    let parts = text.strip_prefix("spiffe://").map(|rest| rest.split('/'));
    let is_domain = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '-' | '_');
    let is_segment = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    let fits = parts.is_some_and(|mut parts| {
        let domain = parts.next().unwrap_or_default();
        !domain.is_empty() && domain.chars().all(is_domain) && parts.all(is_segment)
    });
    let wanted = "SPIFFE ID: expected for example spiffe://example.org/ns/web/sa/agent";
    if fits && text.len() <= SPIFFE_MAX { Ok(text.to_owned()) } else { Err(form(text, wanted)) }
}

/// A user by name or number.
pub(super) fn user(value: &DeValue<'_>) -> Result<u32, Fault> {
    account(value, Fault::User, |name| Ok(User::from_name(name)?.map(|user| user.uid.as_raw())))
}

/// A group by name or number.
pub(super) fn group(value: &DeValue<'_>) -> Result<u32, Fault> {
    account(value, Fault::Group, |name| Ok(Group::from_name(name)?.map(|group| group.gid.as_raw())))
}

fn account(
    value: &DeValue<'_>,
    missing: fn(String) -> Fault,
    find: fn(&str) -> nix::Result<Option<u32>>,
) -> Result<u32, Fault> {
    if value.is_integer() {
        // The largest number is not an id: chown(2) takes it for "leave unchanged".
        return count(0..=u64::from(u32::MAX - 1))(value);
    }
    let name = text(value)?;
    let found = find(name).map_err(|errno| Fault::Accounts(io::Error::from(errno)))?;
    found.ok_or_else(|| missing(name.to_owned()))
}

fn integer(value: &DeValue<'_>) -> Option<i128> {
    let number = value.as_integer()?;
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

fn within(number: i128, range: &RangeInclusive<u64>) -> bool {
    u64::try_from(number).is_ok_and(|number| range.contains(&number))
}

fn wrong(wanted: &'static str, value: &DeValue<'_>) -> Fault {
    Fault::Type { wanted, found: value.type_str() }
}

fn amiss(text: &str, error: AmountError) -> Fault {
    Fault::Amount { text: text.to_owned(), error }
}

fn form(text: &str, wanted: &'static str) -> Fault {
    Fault::Form { text: text.to_owned(), wanted }
}
