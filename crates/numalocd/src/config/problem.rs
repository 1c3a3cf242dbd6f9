//! What can be wrong with a configuration.

use numaloc_api::amount::AmountError;
use std::{fmt, io, net::SocketAddr};

/// Something in a configuration file that has to be changed.
#[derive(Debug)]
pub struct Problem {
    /// Line in the file, from 1.
    pub line: usize,
    /// The full key, such as `listen.tls.key`; empty if the text is not TOML.
    pub key: String,
    /// What is wrong and what to do about it.
    pub fault: Fault,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        self.fault.fmt(f)
    }
}

/// What is wrong, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Fault {
    #[error("not TOML: {0}")]
    Syntax(String),
    #[error("unknown key; known here: {known}")]
    Unknown { known: String },
    #[error("missing; it has to be given here")]
    Missing,
    #[error("{wanted} expected, found {found}")]
    Type { wanted: &'static str, found: &'static str },
    #[error("'{text}' is not a valid {wanted}")]
    Form { text: String, wanted: &'static str },
    #[error("invalid value '{text}': {error}")]
    Amount { text: String, error: AmountError },
    #[error("{value} is out of range: {least} to {most}")]
    Range { value: String, least: String, most: String },
    #[error("'{text}' is not an absolute path without '..'")]
    Path { text: String },
    #[error("longer than {most} bytes, which a socket cannot have; take a shorter one")]
    SocketPath { most: usize },
    #[error("mode {mode:04o} keeps the daemon itself out; it has to include 0600")]
    Mode { mode: u32 },
    #[error("there is no user '{0}' here; create it, or give a number")]
    User(String),
    #[error("there is no group '{0}' here; create it, or give a number")]
    Group(String),
    #[error("the accounts of this host cannot be read: {0}")]
    Accounts(#[source] io::Error),
    #[error("a certificate's name has 1 to 253 printable characters")]
    CertificateName,
    #[error(
        "one of user, group, certificate and spiffe says whom a grant is for; give exactly one"
    )]
    Grantee,
    #[error(
        "stands for everybody whom the kernel cannot name here, such as users of other user namespaces: grant to another"
    )]
    Nobody,
    #[error(
        "there is another socket in this directory or below ({0}): give each a directory of its own, so that \
             it can be mounted without the others"
    )]
    SharedDirectory(String),
    #[error("an earlier grant already names the same one; remove one of the two")]
    Shadowed,
    #[error("root is always an admin; remove this grant")]
    Root,
    #[error(
        "cgroups widen what an operator may move; a viewer moves nothing, an admin anything: remove them"
    )]
    Cgroups,
    #[error(
        "names are kept for an operator; a viewer makes nothing, an admin may take any name: remove them"
    )]
    Names,
    #[error(
        "ceilings bound what an operator may ask for; a viewer asks for nothing, an admin has none: remove them"
    )]
    Ceilings,
    #[error(
        "{0} is not a loopback address, and without TLS no other is allowed: add [listen.tls], or use 127.0.0.1 or [::1]"
    )]
    Metrics(SocketAddr),
    #[error(
        "TCP needs TLS: add [listen.tls] with certificate, key and client_ca, \
         or set plain_loopback = true for a loopback address"
    )]
    Plain,
    #[error("{0} is not a loopback address, and without TLS no other is allowed: add [listen.tls]")]
    PlainBeyondLoopback(SocketAddr),
    #[error("has no effect without listen.tcp: add that, or remove this")]
    WithoutTcp,
    #[error(
        "has no effect without listen.tcp, or metrics.listen beyond loopback: add one of them, or remove this"
    )]
    UnusedTls,
    #[error("has no effect without dsa.manage_work_queue = true: set that, or remove this")]
    UnusedDevices,
    #[error("contradicts [listen.tls]: remove one of the two")]
    PlainAndTls,
    #[error(transparent)]
    Tls(#[from] crate::tls::TlsError),
    #[error(transparent)]
    Levels(#[from] crate::log::LevelsError),
}
