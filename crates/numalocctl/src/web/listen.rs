//! Opens the socket that the page is served over.

use super::gate::random;
use crate::{args::Listen, exit::Failure};
use std::{
    fs::{self, DirBuilder},
    io::{self, ErrorKind},
    net::{SocketAddr, TcpListener},
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, PermissionsExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process,
};
use tokio::{net::TcpSocket, runtime::Builder};

/// Connections that wait to be accepted, at most net.core.somaxconn. A client that opens one connection after the other
/// fills the 128 of the standard library, and then the kernel has all others try again after a second.
const WAITING: u32 = 4096;

#[derive(Debug)]
pub enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// The file of a socket, which is removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode: what takes its place is left alone.
    inode: (u64, u64),
}

impl Listening {
    /// Listens there. Only this user may connect to a Unix socket.
    ///
    /// # Errors
    /// The address is taken, or the file exists.
    pub fn open(listen: &Listen) -> Result<Self, Failure> {
        let opened = match listen {
            Listen::Tcp(address) => bind(*address).map(Self::Tcp),
            Listen::Unix(path) => {
                return open(path).map_err(|source| match source.kind() {
                    ErrorKind::AlreadyExists => Failure::Usage(format!(
                        "{} exists: remove it if no other numalocctl web listens there",
                        path.display()
                    )),
                    _ => Failure::Write { path: path.clone(), source },
                });
            }
        };
        let Listen::Tcp(address) = listen else { unreachable!("answered above") };
        opened.map_err(|error| Failure::Usage(format!("cannot listen at {address}: {error}")))
    }

    /// The address to open, with the token.
    ///
    /// # Errors
    /// The kernel does not report the port, or gives no random one.
    pub fn address(&self, token: &str) -> Result<String, Failure> {
        match self {
            Self::Tcp(listener) => {
                let address = listener.local_addr();
                let address =
                    address.map_err(|error| Failure::Usage(format!("no address: {error}")))?;
                let tunnel = tunnel(&address.to_string(), token)?;
                Ok(format!("http://{address}/#token={token}\n{tunnel}"))
            }
            Self::Unix(_, file) => {
                let path = file.path.display().to_string();
                Ok(format!("unix://{path}\n{}", tunnel(&path, token)?))
            }
        }
    }
}

/// The line for people whose browser is on another machine. `place` is the address or socket here.
fn tunnel(place: &str, token: &str) -> Result<String, Failure> {
    // By address and not as localhost, which is ::1 as well: another user of the machine may listen there and would get the token. The
    // same happens where another program has the port and ssh continues without the forward.
    let at = format!("127.0.0.1:{}", forwarded_port()?);
    Ok(format!(
        "on your machine: ssh -o ExitOnForwardFailure=yes -L {at}:{place} HOST, then open http://{at}/#token={token}\n"
    ))
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let _in_runtime = runtime.enter();
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // The port of a page that has just ended is free, as with the standard library.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING)?.into_std()
}

/// A port for a forward from another machine, between 20000 and 32767: below the ports that kernels assign, and random,
/// so that no other user can wait for it.
fn forwarded_port() -> Result<u16, Failure> {
    Ok(20_000 + u16::from_ne_bytes(random()?) % 12_768)
}

/// The socket is made in a folder that no other user can enter, and gets its name when its rights are set: no client
/// can have connected before. A link fails where the name exists.
fn open(path: &Path) -> io::Result<Listening> {
    let folder = path.with_file_name(format!(".numalocctl-web.{}", process::id()));
    DirBuilder::new().mode(0o700).create(&folder)?;
    let made = folder.join("s");
    let linked = UnixListener::bind(&made).and_then(|listener| {
        fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
        fs::hard_link(&made, path)?;
        listener.set_nonblocking(true)?;
        let inode = inode(path)?;
        Ok(Listening::Unix(listener, SocketFile { path: path.to_owned(), inode }))
    });
    let _ = fs::remove_file(&made);
    let _ = fs::remove_dir(&folder);
    linked
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::BTreeSet,
        os::unix::{fs::FileTypeExt, net::UnixStream},
    };

    #[test]
    fn a_port_of_this_machine_is_reached_from_another_one_by_ssh() {
        let listening = Listening::open(&Listen::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = listening.address("t").unwrap();
        let [here, there] = address.lines().collect::<Vec<_>>()[..] else { panic!("{address}") };
        let port = here.strip_prefix("http://").unwrap().strip_suffix("/#token=t").unwrap();
        assert!(there.contains(&format!(":{port} HOST, then open http://127.0.0.1:")), "{there}");
    }

    #[test]
    fn a_socket_is_for_its_user_alone_and_goes_with_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.sock");
        let listen = Listen::Unix(path.clone());
        let listening = Listening::open(&listen).unwrap();
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        let ports: BTreeSet<u16> = (0..8)
            .map(|_| {
                let address = listening.address("t").unwrap();
                let (_, rest) = address.split_once("-L 127.0.0.1:").expect(&address);
                let (port, _) = rest.split_once(':').expect(&address);
                assert!(
                    address.contains(&format!("http://127.0.0.1:{port}/#token=t")),
                    "{address}"
                );
                port.parse().unwrap()
            })
            .collect();
        assert!(ports.iter().all(|port| (20_000..32_768).contains(port)), "{ports:?}");
        assert!(ports.len() > 1, "it does not follow from the token: {ports:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        drop(listening);
        assert!(!path.exists());
    }

    #[test]
    fn what_exists_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        fs::write(&path, "data").unwrap();
        let refused = Listening::open(&Listen::Unix(path.clone())).unwrap_err().to_string();
        assert!(refused.contains("precious exists: remove it"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
        let missing = folder.path().join("no/such/folder");
        let refused = Listening::open(&Listen::Unix(missing)).unwrap_err().to_string();
        assert!(refused.starts_with("cannot write "), "{refused}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_port_that_is_taken_is_said() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let refused = Listening::open(&Listen::Tcp(address)).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("cannot listen at {address}: ")), "{refused}");
    }
}
