//! Sockets from a service manager. A shell puts them where a service manager does, and starts this test program again.

use super::*;
use std::{
    env,
    os::{fd::OwnedFd, unix::net::UnixListener},
    process::{Child, Command, ExitStatus, Stdio},
    time::Instant,
};

const STOP: &str = "NUMALOCD_TEST_STOP";
const SOCKET: &str = "NUMALOCD_TEST_SOCKET";
const TCP: &str = "NUMALOCD_TEST_TCP";

/// The daemon's part: serves the passed sockets until the connection to STOP ends. Fails if it cannot listen.
#[tokio::test]
#[ignore = "started by the tests below, with sockets"]
async fn passed_sockets_are_served() {
    let (Ok(stop), Ok(socket)) = (env::var(STOP), env::var(SOCKET)) else { return };
    let tcp = env::var(TCP).ok().map(|address| address.parse().unwrap());
    let config = Listen { socket: socket.into(), tcp, ..Listen::default() };
    let passed = Passed::from_env().unwrap();
    assert!(env::var_os("LISTEN_FDS").is_none(), "children would take the sockets for theirs");
    let listeners = Listeners::open(&config, passed).await.unwrap();
    let mut until = UnixStream::connect(stop).await.unwrap();
    let until = async { drop(until.read(&mut [0]).await) };
    serve(listeners, health, &nobody(), until).await.unwrap();
}

/// Starts the daemon's part with descriptors 3 and 4, of which LISTEN_FDS counts `count`.
fn start(first: Stdio, second: Stdio, count: u32, variables: &[(&str, String)]) -> Child {
    let name = "listen::tests::activation::passed_sockets_are_served";
    Command::new("/bin/sh")
        .arg("-c")
        .arg("LISTEN_PID=$$ LISTEN_FDS=$0 exec \"$@\" 3<&0 4<&1 0</dev/null 1>&2")
        .arg(count.to_string())
        .arg(env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture"])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(first)
        .stdout(second)
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

async fn end(mut child: Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn passed(socket: impl Into<OwnedFd>) -> Stdio {
    socket.into().into()
}

#[tokio::test]
async fn passed_sockets_stand_in_for_configured_ones_and_stay() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let unix = UnixListener::bind(path("passed.sock")).unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let stop = tokio::net::UnixListener::bind(path("stop")).unwrap();
    let variables = [
        (STOP, path("stop").display().to_string()),
        (SOCKET, path("configured.sock").display().to_string()),
        (TCP, "127.0.0.1:1".to_owned()),
    ];
    let child = start(passed(unix), passed(tcp), 2, &variables);

    let (stopping, _) = tokio::time::timeout(PATIENCE, stop.accept()).await.unwrap().unwrap();
    assert_eq!(health_at(&path("passed.sock")).await.unwrap(), 1);
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    assert_eq!(ask(endpoint.connect().await.unwrap()).await.unwrap(), 1);
    assert!(!path("configured.sock").exists());
    drop(stopping);
    assert!(end(child).await.success());
    assert!(path("passed.sock").exists(), "the service manager's socket was removed");
}

#[tokio::test]
async fn what_is_no_listening_socket_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let stop = tokio::net::UnixListener::bind(path("stop")).unwrap();
    let variables = [
        (STOP, path("stop").display().to_string()),
        (SOCKET, path("configured.sock").display().to_string()),
    ];
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let connection = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let unwanted: [(&str, Stdio); 5] = [
        ("a file", fs::File::open("/dev/null").unwrap().into()),
        ("a datagram socket", passed(std::os::unix::net::UnixDatagram::unbound().unwrap())),
        ("a Unix connection", passed(std::os::unix::net::UnixStream::pair().unwrap().0)),
        ("a TCP connection", passed(connection)),
        ("TCP, which is not configured", passed(listener)),
    ];
    for (what, stdio) in unwanted {
        let child = start(stdio, Stdio::null(), 1, &variables);
        let ended = tokio::select! {
            status = end(child) => !status.success(),
            _ = stop.accept() => false,
        };
        assert!(ended, "{what} was served");
    }
    assert!(!path("configured.sock").exists());

    // The counter-check: a listening socket is served.
    let unix = UnixListener::bind(path("passed.sock")).unwrap();
    let child = start(passed(unix), Stdio::null(), 1, &variables);
    let (stopping, _) = tokio::time::timeout(PATIENCE, stop.accept()).await.unwrap().unwrap();
    drop(stopping);
    assert!(end(child).await.success());
}
