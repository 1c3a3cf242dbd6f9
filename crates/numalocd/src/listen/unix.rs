//! Unix sockets: who may bind a path, and with which permission bits.

use super::ListenError;
use crate::config::{self, Listen};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    sys::stat::{Mode, fchmod},
    unistd::Group,
};
use std::{
    fmt,
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown},
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::net::{UnixListener, UnixSocket, UnixStream};

const BACKLOG: u32 = 1024;

/// A listening socket. If this daemon made it, its file is removed in the end.
#[derive(Debug)]
pub(super) struct ListeningSocket {
    /// This field stands before the listener, so it is dropped first: no other daemon can take the path while this one
    /// still listens.
    made: Option<SocketFile>,
    pub(super) listener: UnixListener,
    /// Its configuration, if it is an additional socket.
    pub(super) further: Option<Arc<config::Socket>>,
}

impl ListeningSocket {
    /// A socket of the service manager. If it has the path of an additional socket, it is that one. One with another
    /// path is the main socket, if it is the only one (`is_only`) and the configuration has no additional ones.
    ///
    /// # Errors
    /// The configuration does not say which socket it is, and so not what its callers may do.
    pub(super) fn passed(
        listener: UnixListener,
        config: &Listen,
        is_only: bool,
    ) -> Result<Self, ListenError> {
        let address = listener.local_addr().ok();
        let path = address.as_ref().and_then(|address| address.as_pathname()).map(resolved);
        let is_here = |configured: &Path| path.as_deref() == Some(&resolved(configured));
        let further = config.sockets.iter().find(|socket| is_here(&socket.path));
        let is_main = is_here(&config.socket) || (is_only && config.sockets.is_empty());
        let is_known = is_main || further.is_some();
        let socket = Self { made: None, listener, further: further.cloned().map(Arc::new) };
        if is_known { Ok(socket) } else { Err(ListenError::PassedUnix(socket.to_string())) }
    }
}

impl fmt::Display for ListeningSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.listener.local_addr().ok();
        let made = self.made.as_ref().map(|made| made.path.as_path());
        let path = made.or(address.as_ref().and_then(|address| address.as_pathname()));
        match path {
            Some(path) => write!(f, "unix://{}", path.display()),
            None => f.write_str("an unnamed Unix socket"),
        }
    }
}

/// The path without symbolic links, such as /run for /var/run. One that is not there stays as it is.
fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A socket file that this daemon made. Dropping this removes the file, unless something else has taken its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl SocketFile {
    fn new(path: PathBuf) -> io::Result<Self> {
        let inode = inode(&path)?;
        Ok(Self { path, inode })
    }

    fn is_there(&self) -> bool {
        inode(&self.path).is_ok_and(|inode| inode == self.inode)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there() {
            // If removing fails, the next daemon finds that no process listens there, and replaces the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Makes the main socket that `config` describes.
pub(super) async fn bind(config: &Listen) -> Result<ListeningSocket, ListenError> {
    make(&config.socket, config.mode, config.group.as_deref()).await
}

pub(super) async fn bind_further(config: &config::Socket) -> Result<ListeningSocket, ListenError> {
    let socket = make(&config.path, config.mode, config.group.as_deref()).await?;
    Ok(ListeningSocket { further: Some(Arc::new(config.clone())), ..socket })
}

/// Makes a socket with these rights.
///
/// The socket is made under a temporary name, to which only its owner may connect. It is renamed to `path` after its
/// rights are set, so that at no moment an unintended user can connect. If several daemons start at the same time, the
/// lock lets only one of them continue.
async fn make(path: &Path, mode: u32, owner: Option<&str>) -> Result<ListeningSocket, ListenError> {
    let group = owner.map(group).transpose()?;
    let name = path.file_name().ok_or_else(|| ListenError::NoName { path: path.into() })?;
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    make_directory(directory).map_err(failed("create the directory", directory))?;
    let name = name.to_string_lossy();
    let _lock = lock(path, &directory.join(format!(".{name}.lock")))?;

    let temporary = directory.join(format!(".{name}.new"));
    let failed = |doing| failed(doing, &temporary);
    let socket = claim(&temporary)?;
    let mut made = SocketFile::new(temporary.clone()).map_err(failed("inspect the socket"))?;
    let listener = socket.listen(BACKLOG).map_err(failed("listen"))?;

    refuse_living(path).await?;
    if group.is_some() {
        lchown(&temporary, None, group).map_err(failed(
            "give the socket to its group, which the daemon's user has to be in",
        ))?;
    }
    fs::set_permissions(&temporary, fs::Permissions::from_mode(mode))
        .map_err(failed("set the rights"))?;
    fs::rename(&temporary, path).map_err(failed("rename the socket to its place"))?;
    made.path = path.to_owned();
    Ok(ListeningSocket { made: Some(made), listener, further: None })
}

/// Takes the lock that keeps other starting daemons out until it is dropped. The file stays: after removing it, two
/// daemons could hold locks of the same name.
pub(super) fn lock(socket: &Path, path: &Path) -> Result<Flock<File>, ListenError> {
    let mut options = File::options();
    // Other users must not be able to open the file: they could hold the lock forever.
    options.write(true).create(true).truncate(false).mode(0o600);
    // A user that may write in the directory must not be able to choose, by a symbolic link, which file is opened.
    let file = options.custom_flags(nix::libc::O_NOFOLLOW).open(path);
    let file = file.map_err(failed("open the lock", path))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        Errno::EWOULDBLOCK => ListenError::Raced { path: socket.into() },
        errno => failed("lock", path)(errno.into()),
    })
}

/// Binds the temporary name. It replaces what a daemon has left that died before the rename. Only the owner may
/// connect.
pub(super) fn claim(temporary: &Path) -> Result<UnixSocket, ListenError> {
    let failed = |doing| failed(doing, temporary);
    match fs::symlink_metadata(temporary) {
        Ok(metadata) if metadata.file_type().is_socket() => {
            fs::remove_file(temporary).map_err(failed("remove the dead socket"))?;
        }
        Ok(_) => return Err(ListenError::NotASocket { path: temporary.into() }),
        // Other errors show when the socket is bound.
        Err(_) => {}
    }
    let socket = UnixSocket::new_stream().map_err(failed("create a socket"))?;
    // Linux gives the bound file the permission bits of the socket.
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)
        .map_err(io::Error::from)
        .map_err(failed("set the rights"))?;
    socket.bind(temporary).map_err(failed("bind"))?;
    Ok(socket)
}

/// Succeeds if there is nothing at `path`, or a socket that no process listens on.
async fn refuse_living(path: &Path) -> Result<(), ListenError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(failed("inspect the socket", path)(source)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(ListenError::NotASocket { path: path.into() });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(error)
            if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) =>
        {
            Ok(())
        }
        // WouldBlock means that a daemon listens, but its queue of connections is full.
        Err(error) if error.kind() != ErrorKind::WouldBlock => {
            Err(failed("find out whether a daemon listens here", path)(error))
        }
        _ => Err(ListenError::InUse { path: path.into() }),
    }
}

/// Makes the missing directories with mode 0755, whatever the umask, so that clients can reach the socket.
fn make_directory(directory: &Path) -> io::Result<()> {
    let is_missing = |part: &&Path| !part.as_os_str().is_empty() && !part.is_dir();
    let missing: Vec<&Path> = directory.ancestors().take_while(is_missing).collect();
    for part in missing.into_iter().rev() {
        match fs::create_dir(part) {
            // Another process has made it at the same time.
            Err(_) if part.is_dir() => {}
            made => made?,
        }
        fs::set_permissions(part, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn group(name: &str) -> Result<u32, ListenError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let found = Group::from_name(name).ok().flatten();
    found.map(|group| group.gid.as_raw()).ok_or_else(|| ListenError::Group(name.to_owned()))
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ListenError {
    move |source| ListenError::Socket { path: path.into(), doing, source }
}
