mod activation;
mod tls;

use super::{
    incoming::{Charged, Incoming},
    unix::bind,
    *,
};
use crate::{
    access::{Access, Peer},
    accounts::{Accounts, Client, Resource},
    config::{self, Listen, Role},
};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::oneshot,
    task::JoinHandle,
};
use tokio_stream::StreamExt;
use tonic::{
    Request, Status,
    service::Routes,
    transport::{Channel, Endpoint, Server, server::Router},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

const PATIENCE: Duration = Duration::from_secs(30);

fn at(directory: &TempDir, name: &str) -> Listen {
    Listen { socket: directory.path().join(name), ..Listen::default() }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// The names in a directory, without the locks.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.ends_with(".lock")).collect()
}

/// The layer of a configuration without grants.
fn nobody() -> Access {
    let config = tokio::sync::watch::channel(std::sync::Arc::default()).1;
    Access::new(config, Accounts::default())
}

/// A server with the health service.
fn health(mut server: Server) -> Router {
    server.add_routes(Routes::new(tonic_health::server::health_reporter().1))
}

/// Serves until the sender is used.
fn serving<F>(listeners: Listeners, router: F) -> (oneshot::Sender<()>, JoinHandle<()>)
where
    F: Fn(Server) -> Router + Send + Sync + 'static,
{
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = async move {
        let stopped = async move { drop(stopped.await) };
        serve(listeners, router, &nobody(), stopped).await.unwrap();
    };
    (stop, tokio::spawn(serving))
}

async fn ask(channel: Channel) -> Result<i32, Status> {
    let call = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
    call.map(|response| response.get_ref().status)
}

/// Asks the server at a Unix socket for its health; 1 means serving.
async fn health_at(socket: &Path) -> Result<i32, Status> {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).unwrap();
    let channel = endpoint.connect().await.map_err(|error| Status::from_error(error.into()))?;
    ask(channel).await
}

#[tokio::test]
async fn the_socket_has_the_configured_rights_and_goes_in_the_end() {
    let directory = tempfile::tempdir().unwrap();
    // root may give the socket to any group, other users only to a group of their own.
    let group = if nix::unistd::getuid().is_root() { 1 } else { nix::unistd::getgid().as_raw() };
    for rights in [0o600, 0o660, 0o666] {
        let config = Listen {
            mode: rights,
            group: Some(group.to_string()),
            ..at(&directory, "new/deep/n.sock")
        };
        let socket = bind(&config).await.unwrap();
        assert_eq!(mode(&config.socket), rights);
        assert_eq!(fs::metadata(&config.socket).unwrap().gid(), group);
        let parent = config.socket.parent().unwrap();
        assert_eq!((names(parent), mode(parent)), (vec!["n.sock".to_owned()], 0o755));
        assert_eq!(socket.to_string(), format!("unix://{}", config.socket.display()));
        drop(socket);
        assert_eq!(names(parent), [""; 0]);
    }
    let config = Listen { group: Some("no such".into()), ..at(&directory, "n.sock") };
    assert!(matches!(bind(&config).await, Err(ListenError::Group(_))));
}

#[tokio::test]
async fn only_the_owner_may_connect_while_the_socket_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("n.sock");
    // Without fchmod the umask would decide.
    let _socket = unix::claim(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[tokio::test]
async fn a_living_socket_is_refused_and_a_dead_one_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let config = at(&directory, "n.sock");
    let living = std::os::unix::net::UnixListener::bind(&config.socket).unwrap();
    let error = bind(&config).await.unwrap_err();
    assert!(matches!(&error, ListenError::InUse { path } if *path == config.socket), "{error}");
    assert!(error.to_string().contains(&config.socket.display().to_string()));
    assert_eq!(names(directory.path()), ["n.sock"]);
    assert!(std::os::unix::net::UnixStream::connect(&config.socket).is_ok());

    drop(living);
    let socket = bind(&config).await.unwrap();
    assert!(UnixStream::connect(&config.socket).await.is_ok());
    drop(socket);
    assert_eq!(names(directory.path()), [""; 0]);
}

#[tokio::test]
async fn a_daemon_too_busy_to_accept_is_alive() {
    let directory = tempfile::tempdir().unwrap();
    let config = at(&directory, "n.sock");
    let socket = tokio::net::UnixSocket::new_stream().unwrap();
    socket.bind(&config.socket).unwrap();
    let _living = socket.listen(1).unwrap();
    let mut waiting = Vec::new();
    while let Ok(client) = UnixStream::connect(&config.socket).await {
        waiting.push(client);
        assert!(waiting.len() < 100, "the queue is never full");
    }
    assert!(matches!(bind(&config).await, Err(ListenError::InUse { .. })));
}

#[tokio::test]
async fn what_is_no_socket_is_never_touched() {
    let directory = tempfile::tempdir().unwrap();
    let config = at(&directory, "n.sock");
    fs::write(&config.socket, "precious").unwrap();
    assert!(matches!(bind(&config).await, Err(ListenError::NotASocket { .. })));
    assert_eq!(fs::read_to_string(&config.socket).unwrap(), "precious");
    assert_eq!(names(directory.path()), ["n.sock"]);

    // No symbolic link is followed, and a file with the temporary name is not removed.
    let link = at(&directory, "link");
    std::os::unix::fs::symlink(&config.socket, &link.socket).unwrap();
    assert!(matches!(bind(&link).await, Err(ListenError::NotASocket { .. })));
    fs::write(directory.path().join(".m.sock.new"), "too").unwrap();
    assert!(matches!(bind(&at(&directory, "m.sock")).await, Err(ListenError::NotASocket { .. })));
    assert_eq!(fs::read_to_string(directory.path().join(".m.sock.new")).unwrap(), "too");

    let config = Listen { socket: "/".into(), ..Listen::default() };
    assert!(matches!(bind(&config).await, Err(ListenError::NoName { .. })));
}

#[tokio::test]
async fn a_start_cut_short_is_no_hindrance() {
    let directory = tempfile::tempdir().unwrap();
    drop(std::os::unix::net::UnixListener::bind(directory.path().join(".n.sock.new")).unwrap());
    let _socket = bind(&at(&directory, "n.sock")).await.unwrap();
    assert_eq!(names(directory.path()), ["n.sock"]);
}

#[tokio::test]
async fn who_starts_while_another_does_gives_up() {
    let directory = tempfile::tempdir().unwrap();
    let config = at(&directory, "n.sock");
    let path = directory.path().join(".n.sock.lock");
    let other = unix::lock(&config.socket, &path).unwrap();
    assert_eq!(mode(&path), 0o600, "others could hold the lock");
    assert!(matches!(bind(&config).await, Err(ListenError::Raced { .. })));
    assert_eq!(names(directory.path()), [""; 0]);
    drop(other);
    assert!(bind(&config).await.is_ok());
}

#[tokio::test]
async fn a_socket_that_another_has_put_there_stays() {
    let directory = tempfile::tempdir().unwrap();
    let config = at(&directory, "n.sock");
    let socket = bind(&config).await.unwrap();
    fs::remove_file(&config.socket).unwrap();
    let _theirs = std::os::unix::net::UnixListener::bind(&config.socket).unwrap();
    drop(socket);
    assert!(fs::symlink_metadata(&config.socket).unwrap().file_type().is_socket());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_daemons_that_start_together_one_gets_the_socket() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let config = at(&directory, &format!("{round}.sock"));
        let starts: Vec<_> = (0..4)
            .map(|_| {
                let config = config.clone();
                tokio::spawn(async move { bind(&config).await })
            })
            .collect();
        let mut bound = Vec::new();
        for start in starts {
            bound.extend(start.await.unwrap());
        }
        assert_eq!(bound.len(), 1, "in round {round}");
        assert!(UnixStream::connect(&config.socket).await.is_ok());
    }
}

#[tokio::test]
async fn calls_are_served_with_the_credentials_of_the_peer_until_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let config = at(&directory, "n.sock");
    let listeners = Listeners::open(&config, Passed::default()).await.unwrap();
    assert_eq!(listeners.to_string(), format!("unix://{}", config.socket.display()));
    let uid_only = |request: Request<()>| {
        let own = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
        let is_us = match Peer::of(request.extensions()) {
            Ok(Peer::User { uid, groups }) => uid == own.0 && groups.contains(&own.1),
            _ => false,
        };
        if is_us { Ok(request) } else { Err(Status::permission_denied("who?")) }
    };
    let (stop, served) = serving(listeners, move |mut server| {
        let (_, health) = tonic_health::server::health_reporter();
        server.add_service(tonic::service::interceptor::InterceptedService::new(health, uid_only))
    });
    assert_eq!(health_at(&config.socket).await.unwrap(), 1);
    stop.send(()).unwrap();
    served.await.unwrap();
    assert_eq!(names(directory.path()), [""; 0]);
}

fn further(directory: &TempDir, name: &str, mode: u32) -> config::Socket {
    let path = directory.path().join(name);
    config::Socket { path, mode, group: None, max_role: Role::Viewer }
}

#[tokio::test]
async fn further_sockets_have_rights_and_directories_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let sockets =
        vec![further(&directory, "a/n.sock", 0o666), further(&directory, "b/deep/n.sock", 0o600)];
    let config = Listen { sockets, ..at(&directory, "n.sock") };
    let listeners = Listeners::open(&config, Passed::default()).await.unwrap();
    let directories: Vec<&Path> =
        config.sockets.iter().map(|socket| socket.path.parent().unwrap()).collect();
    for (socket, directory) in config.sockets.iter().zip(&directories) {
        assert_eq!(mode(&socket.path), socket.mode);
        assert_eq!((names(directory), mode(directory)), (vec!["n.sock".to_owned()], 0o755));
    }
    // The directory can be entered, whatever the umask.
    assert_eq!(mode(&directory.path().join("b")), 0o755);
    let (stop, served) = serving(listeners, health);
    for path in config.sockets.iter().map(|socket| &socket.path).chain([&config.socket]) {
        assert_eq!(health_at(path).await.unwrap(), 1);
    }
    stop.send(()).unwrap();
    served.await.unwrap();
    for directory in directories {
        assert_eq!(names(directory), [""; 0]);
    }
}

/// A container that has mounted the directory finds the new socket there.
#[tokio::test]
async fn a_restart_replaces_the_file_and_not_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    let sockets = vec![further(&directory, "a/n.sock", 0o660)];
    let config = Listen { sockets, ..at(&directory, "n.sock") };
    let path = &config.sockets[0].path;
    fs::create_dir(path.parent().unwrap()).unwrap();
    let before = fs::metadata(path.parent().unwrap()).unwrap().ino();
    // This is what a killed daemon leaves.
    drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    let _listeners = Listeners::open(&config, Passed::default()).await.unwrap();
    assert!(UnixStream::connect(path).await.is_ok());
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().ino(), before);
}

#[tokio::test]
async fn a_passed_socket_with_the_path_of_a_further_one_is_that() {
    let directory = tempfile::tempdir().unwrap();
    let sockets =
        vec![further(&directory, "a.sock", 0o660), further(&directory, "b/n.sock", 0o660)];
    let config = Listen { sockets, ..at(&directory, "n.sock") };
    let listener = tokio::net::UnixListener::bind(&config.sockets[0].path).unwrap();
    let passed = Passed { unix: vec![listener], tcp: Vec::new() };
    let listeners = Listeners::open(&config, passed).await.unwrap();
    let further = listeners.unix.iter().map(|socket| socket.further.as_deref());
    let expected = [None, Some(&config.sockets[0]), Some(&config.sockets[1])];
    assert_eq!(further.collect::<Vec<_>>(), expected);
    assert!(config.socket.exists(), "nothing stood in for the main one");
}

/// The sockets that the service manager has bound at these paths.
fn bound(paths: &[PathBuf]) -> Passed {
    let bind = |path: &PathBuf| tokio::net::UnixListener::bind(path).unwrap();
    Passed { unix: paths.iter().map(bind).collect(), tcp: Vec::new() }
}

/// A client of an additional socket must not get the rights of the main one because its path is written in another way.
#[tokio::test]
async fn a_passed_socket_is_known_by_another_path_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let real = directory.path().join("run");
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, directory.path().join("var-run")).unwrap();
    let sockets = vec![further(&directory, "var-run/a.sock", 0o660)];
    let config = Listen { sockets, ..at(&directory, "var-run/n.sock") };
    let passed = bound(&[real.join("n.sock"), real.join("a.sock")]);
    let listeners = Listeners::open(&config, passed).await.unwrap();
    let further: Vec<_> = listeners.unix.iter().map(|socket| socket.further.is_some()).collect();
    assert_eq!(further, [false, true]);
}

#[tokio::test]
async fn a_passed_socket_that_nothing_names_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let none = at(&directory, "n.sock");
    let sockets = vec![further(&directory, "a.sock", 0o660)];
    let one = Listen { sockets, ..none.clone() };
    // The entry was removed, the socket of the unit was not.
    let beside_main = (&none, vec![path("n.sock"), path("b.sock")]);
    // The entry has another path than the unit.
    for (config, paths) in [beside_main, (&one, vec![path("c.sock")])] {
        let error = Listeners::open(config, bound(&paths)).await.unwrap_err().to_string();
        let named = format!("unix://{}: passed by", paths.last().unwrap().display());
        assert!(error.starts_with(&named) && error.contains("[[listen.sockets]]"), "{error}");
    }
}

/// A symbolic link in the place of the lock. Any user who may write in the directory could put it there.
#[tokio::test]
async fn no_link_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let config = at(&directory, "n.sock");
    let link = directory.path().join(".n.sock.lock");
    std::os::unix::fs::symlink(directory.path().join("else"), link).unwrap();
    assert!(matches!(bind(&config).await, Err(ListenError::Socket { .. })));
    assert!(!directory.path().join("else").exists());
}

#[tokio::test]
async fn plain_tcp_is_served_on_loopback_only() {
    let directory = tempfile::tempdir().unwrap();
    let plain =
        |address: &str| Listen { tcp: Some(address.parse().unwrap()), ..at(&directory, "n.sock") };
    let error = Listeners::open(&plain("0.0.0.0:0"), Passed::default()).await.unwrap_err();
    assert!(matches!(error, ListenError::Plain(_)), "{error}");
    assert_eq!(names(directory.path()), [""; 0]);

    let listeners = Listeners::open(&plain("127.0.0.1:0"), Passed::default()).await.unwrap();
    let address = listeners.tcp_addresses()[0];
    assert!(listeners.to_string().ends_with(&format!("n.sock, http://{address}")));
    let taken = Listen { socket: directory.path().join("m.sock"), ..plain(&address.to_string()) };
    let error = Listeners::open(&taken, Passed::default()).await.unwrap_err();
    assert!(matches!(error, ListenError::Tcp { .. }), "{error}");

    let (stop, served) = serving(listeners, health);
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    assert_eq!(ask(endpoint.connect().await.unwrap()).await.unwrap(), 1);
    assert_eq!(health_at(&directory.path().join("n.sock")).await.unwrap(), 1);
    stop.send(()).unwrap();
    served.await.unwrap();
}

#[tokio::test]
async fn a_connection_too_many_is_closed_until_one_ends() {
    let directory = tempfile::tempdir().unwrap();
    let config = at(&directory, "n.sock");
    let client_of = |_: &_| Client { name: "uid:70000".to_owned(), cohort: None };
    let charged = Charged {
        accounts: Accounts::with_connections(1),
        as_a: Resource::Connections,
        client_of: std::sync::Arc::new(client_of),
    };
    let mut incoming = Incoming::new(vec![bind(&config).await.unwrap()], charged);
    let connect = || UnixStream::connect(&config.socket);

    let _first = connect().await.unwrap();
    let connection = incoming.next().await.unwrap().unwrap();
    let mut second = connect().await.unwrap();
    let mut byte = [0];
    tokio::select! {
        _ = incoming.next() => panic!("one too many was let in"),
        read = second.read(&mut byte) => assert_eq!(read.unwrap(), 0),
    }
    drop(connection);
    let mut third = connect().await.unwrap();
    let mut connection = incoming.next().await.unwrap().unwrap();
    third.write_all(b"x").await.unwrap();
    assert_eq!(connection.read(&mut byte).await.unwrap(), 1);
}

/// The paused clock jumps ahead whenever nothing else is left to do.
#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_let_go() {
    let directory = tempfile::tempdir().unwrap();
    let config = at(&directory, "n.sock");
    let listeners = Listeners::open(&config, Passed::default()).await.unwrap();
    let (stop, served) = serving(listeners, health);
    for opening in [&b""[..], b"PRI * HTTP/2.0"] {
        let mut client = UnixStream::connect(&config.socket).await.unwrap();
        client.write_all(opening).await.unwrap();
        let mut answer = Vec::new();
        // The read ends with an end of file or a reset. Either will do.
        let read = tokio::time::timeout(PATIENCE, client.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "a silent client keeps its place");
    }
    stop.send(()).unwrap();
    served.await.unwrap();
}
