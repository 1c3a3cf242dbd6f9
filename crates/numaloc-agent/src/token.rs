//! The token of an agent that is a service of a host: it is bound to the Node, and its holder asks for the next one long
//! before it ends. The kubelet renews the tokens of pods, and this module leaves those alone.
//!
//! The first token comes in the kubeconfig. Later ones are kept in the state directory of the service, and the newer of
//! both counts at the next start.

mod renewal;

use crate::cluster::bearer::Bearer;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use secrecy::ExposeSecret;
use serde::Deserialize;
use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub use renewal::renew;

/// The longest time that a token is used before the next one is asked for, as in the kubelet's token manager: with a
/// lifetime of a week, six days are left whenever the host goes off.
const OLDEST: Duration = Duration::from_secs(24 * 3600);
/// The token within the state directory, and the file that it is written to before it gets that name.
const FILE: &str = "token";
const NEW_FILE: &str = "token.new";
/// Longest file that is read as a token, in bytes: a header of HTTP has to hold it.
const FILE_MAX: u64 = 16 << 10;

/// A token that is bound to a Node.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: String,
    claims: Claims,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Token").field(&self.claims).finish()
    }
}

/// The content of a token. Its signature is not verified here: the API server does that.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claims {
    issuer: String,
    namespace: String,
    account: String,
    node: String,
    issued: SystemTime,
    ends: SystemTime,
}

impl Claims {
    /// Whether both are for the same account and node of the same cluster.
    fn is_like(&self, other: &Self) -> bool {
        self.subject() == other.subject()
    }

    /// The cluster, the account and the node.
    fn subject(&self) -> [&str; 4] {
        [&self.issuer, &self.namespace, &self.account, &self.node]
    }

    /// When the next token is asked for: after 80 % of the lifetime, or a day if that is less. `early` is a part of that
    /// time, from 0 to 1, of which at most a tenth is taken off: nodes that were set up together do not ask together.
    fn due(&self, early: f64) -> SystemTime {
        let lifetime = self.ends.duration_since(self.issued).unwrap_or_default();
        let after = (lifetime * 4 / 5).min(OLDEST);
        self.issued + after.mul_f64(1.0 - early.clamp(0.0, 1.0) / 10.0)
    }
}

impl Token {
    /// Parses the token of a ServiceAccount; `None` if it is not bound to a Node alone.
    pub fn parse(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Payload {
            iss: String,
            iat: u64,
            exp: u64,
            #[serde(rename = "kubernetes.io")]
            bound: Bound,
        }
        #[derive(Deserialize)]
        struct Bound {
            namespace: String,
            serviceaccount: Named,
            node: Option<Named>,
            pod: Option<Named>,
        }
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let text = text.trim();
        let mut parts = text.split('.');
        let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
        let Payload { iss, iat, exp, bound } = serde_json::from_slice(&payload).ok()?;
        let at = |seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        let claims = Claims {
            issuer: iss,
            namespace: bound.namespace,
            account: bound.serviceaccount.name,
            node: bound.node.filter(|_| bound.pod.is_none())?.name,
            issued: at(iat)?,
            ends: at(exp)?,
        };
        Some(Self { text: text.to_owned(), claims })
    }

    /// The token to use: the later one, unless it alone has ended, or is for another account, node or cluster than
    /// that of the kubeconfig.
    fn newer(given: Self, stored: Option<Self>, now: SystemTime) -> Self {
        let Some(stored) = stored.filter(|stored| stored.claims.is_like(&given.claims)) else {
            return given;
        };
        let is_stored = match (given.claims.ends > now, stored.claims.ends > now) {
            (true, false) => false,
            (false, true) => true,
            _ => stored.claims.issued > given.claims.issued,
        };
        if is_stored { stored } else { given }
    }
}

/// The token that this process renews.
#[derive(Debug)]
pub struct Renewable {
    token: Token,
    /// Whether the token is that of the kubeconfig. The next one is asked for at once: an administrator who waits for it
    /// learns now whether the right to it is missing.
    is_first: bool,
    directory: PathBuf,
    bearer: Arc<Bearer>,
}

impl Renewable {
    /// Takes over the token of a configuration of the client, if it is bound to a Node and this service has a directory
    /// of its own (`STATE_DIRECTORY`, which systemd sets).
    pub fn take(
        config: &mut kube::Config,
        directory: Option<PathBuf>,
        now: SystemTime,
    ) -> Option<Self> {
        let directory = directory?;
        let given = Token::parse(config.auth_info.token.as_ref()?.expose_secret())?;
        let stored = match read(&directory) {
            Ok(stored) => stored,
            Err(error) => {
                let path = directory.join(FILE);
                tracing::warn!("cannot read the renewed token {}: {error}", path.display());
                None
            }
        };
        let token = Token::newer(given.clone(), stored, now);
        let is_first = token == given;
        let bearer = Arc::new(Bearer::new(&token.text)?);
        config.auth_info.token = None;
        Some(Self { token, is_first, directory, bearer })
    }

    /// The token, as the client sends it.
    pub fn bearer(&self) -> Arc<Bearer> {
        Arc::clone(&self.bearer)
    }

    /// The name of the Node that the token is bound to.
    pub fn node(&self) -> &str {
        &self.token.claims.node
    }
}

/// The directory that systemd made for this service: the first, if there are several.
pub fn state_directory() -> Option<PathBuf> {
    let directories = std::env::var("STATE_DIRECTORY").ok()?;
    directories.split(':').next().filter(|first| !first.is_empty()).map(PathBuf::from)
}

/// Reads the stored token; `None` if none is there.
fn read(directory: &Path) -> io::Result<Option<Token>> {
    let file = match File::open(directory.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let text = io::read_to_string(io::Read::take(file, FILE_MAX))?;
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "it is not a token bound to a Node");
    Token::parse(&text).ok_or_else(bad).map(Some)
}

/// Stores a token, whole or not at all, also if the host fails meanwhile.
fn write(directory: &Path, token: &Token) -> io::Result<()> {
    let new = directory.join(NEW_FILE);
    // One that a failure has left may have another mode.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(token.text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, directory.join(FILE))?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests;
