use super::{Has, answers, check};
use crate::{
    access::{
        Caller,
        tests::{
            Log, config, grant,
            server::{
                Answer, access, answer, call, connect, echo, serve_at, serve_tcp, serve_unix,
            },
        },
    },
    config::{Config, Grantee, Listen, Quota, Role, Socket},
};
use nix::unistd::Uid;
use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tonic::{Code, body::Body, transport::Endpoint};
use tonic_types::StatusExt;
use tower::{Layer, ServiceExt};

const CREATE: &str = "/numaloc.v1.MigrationService/CreateJob";
const GET: &str = "/numaloc.v1.MigrationService/GetJob";
const CHECK: &str = "/grpc.health.v1.Health/Check";

/// The variable that names the socket for the child of a test.
const SOCKET: &str = "NUMALOCD_TEST_SOCKET";

/// A directory that any user may enter.
fn directory() -> TempDir {
    let directory = TempDir::new().expect("room for a directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    directory
}

/// Makes all calls from a process of another user. The program is started through /proc, because other users may not be
/// able to reach its path.
fn answers_to(uid: u32, gid: u32, besides: &[u32], socket: &Path) -> BTreeMap<String, Answer> {
    let me = "access::tests::calls::local::as_another_user";
    // setpriv starts a process with supplementary groups, which the standard library cannot do.
    let mut command = Command::new("setpriv");
    let groups: Vec<String> = besides.iter().map(ToString::to_string).collect();
    if groups.is_empty() {
        command.arg("--clear-groups")
    } else {
        command.arg(format!("--groups={}", groups.join(",")))
    };
    let me = ["--exact", me, "--ignored", "--nocapture", "--test-threads=1"];
    let own = format!("/proc/{}/exe", std::process::id());
    let ids = [format!("--reuid={uid}"), format!("--regid={gid}"), own];
    let output = command.args(ids).args(me).env(SOCKET, socket).output();
    let output = output.expect("setpriv (util-linux) is there");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let cells = text.lines().filter_map(|line| line.strip_prefix("cell\t"));
    let cells = cells.map(|line| {
        let mut parts = line.splitn(3, '\t');
        let mut part = || parts.next().expect("three parts").to_owned();
        let (path, code) = (part(), part().parse::<i32>().expect("a number"));
        (path, (Code::from(code), part()))
    });
    cells.collect()
}

#[tokio::test]
#[ignore = "other tests run it as another user"]
async fn as_another_user() {
    let Some(socket) = env::var_os(SOCKET) else { return };
    let channel = connect(Path::new(&socket)).await;
    println!();
    for (path, (code, message)) in answers(&channel).await {
        println!("cell\t{path}\t{}\t{message}", i32::from(code));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_may_call_what_they_were_granted() {
    if !Uid::effective().is_root() {
        numaloc_sys::fixture::skipped("only root can call as other users");
        return;
    }
    let config = config(vec![
        grant(Grantee::Uid(12_001), Role::Viewer),
        grant(Grantee::Uid(12_002), Role::Operator),
        grant(Grantee::Uid(12_003), Role::Admin),
        grant(Grantee::Gid(12_100), Role::Operator),
        grant(Grantee::Gid(12_101), Role::Viewer),
        grant(Grantee::Certificate("uid:12006".to_owned()), Role::Admin),
    ]);
    let (access, _config) = access(config);
    let directory = directory();
    let socket = directory.path().join("socket");
    serve_unix(&socket, access).await;
    for (uid, gid, besides, has) in [
        (0, 0, &[][..], Has::Admin),
        (12_001, 12_001, &[], Has::Viewer),
        (12_002, 12_002, &[], Has::Operator),
        (12_003, 12_003, &[], Has::Admin),
        (12_004, 12_100, &[], Has::Operator),
        (12_005, 12_005, &[7, 12_101], Has::Viewer),
        (12_006, 12_006, &[7, 8], Has::Nothing),
        (65_534, 0, &[], Has::Nothing),
    ] {
        let socket = socket.clone();
        let answers = tokio::task::spawn_blocking(move || answers_to(uid, gid, besides, &socket));
        check(&format!("uid:{uid}"), has, &answers.await.expect("the child answers"));
    }
}

/// The tests run as the daemon's own user, which is an admin at the main socket.
#[tokio::test]
async fn a_further_socket_lets_nobody_be_more_than_its_role() {
    let directory = directory();
    let at = |name: &str, max_role| {
        let path = directory.path().join(name).join("socket");
        Socket { path, mode: 0o666, group: None, max_role }
    };
    let sockets = vec![at("v", Role::Viewer), at("o", Role::Operator), at("a", Role::Admin)];
    let main = directory.path().join("socket");
    let listen = Listen { socket: main.clone(), sockets, ..Listen::default() };
    let (access, _config) = access(config(Vec::new()));
    serve_at(&listen, access).await;
    let own = format!("uid:{}", Uid::effective());
    for (socket, has) in listen.sockets.iter().zip([Has::Viewer, Has::Operator, Has::Admin]) {
        let name = match has {
            Has::Admin => own.clone(),
            _ => format!("{own}@{}", socket.path.display()),
        };
        check(&name, has, &answers(&connect(&socket.path).await).await);
    }
    check(&own, Has::Admin, &answers(&connect(&main).await).await);
}

/// A request without any information about its connection.
fn request(path: &str) -> http::Request<Body> {
    http::Request::builder().uri(path).body(Body::empty()).expect("a path")
}

#[tokio::test]
async fn without_a_known_peer_nothing_is_called() {
    let (access, _sender) = access(config(Vec::new()));
    for path in [CREATE, GET, CHECK, "/"] {
        let service = access.layer(echo::<()>().layer(()));
        let response = service.oneshot(request(path)).await.expect("an answer");
        let code = response.headers().get("grpc-status").expect("a status");
        assert_eq!(code, &(Code::Internal as i32).to_string(), "{path}");
    }
}

#[tokio::test]
async fn a_refusal_has_its_details() {
    let (access, sender) = access(config(Vec::new()));
    let directory = directory();
    let socket = directory.path().join("socket");
    serve_unix(&socket, access).await;
    let channel = connect(&socket).await;
    let quota = Quota { requests_per_second: 0, ..Quota::default() };
    sender.send(Arc::new(Config { quota, ..Config::default() })).expect("it listens");
    let status = call(&channel, GET).await.expect_err("no calls are left");
    assert_eq!(status.code(), Code::ResourceExhausted);
    let info = status.get_details_error_info().expect("an ErrorInfo");
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("QUOTA_EXCEEDED", "numaloc.io"));
    let own = format!("uid:{}", Uid::effective());
    assert_eq!(info.metadata.get("caller"), Some(&own));
    // A caller without a role has a quota as well.
    assert_eq!(answer(&channel, CHECK).await.0, Code::ResourceExhausted);
    sender.send(config(Vec::new())).expect("it listens");
    // An empty bucket fills at the new rate.
    let deadline = Instant::now() + Duration::from_secs(60);
    while answer(&channel, CHECK).await.0 != Code::Unimplemented {
        assert!(Instant::now() < deadline, "the new rate never came");
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_service_learns_who_calls() {
    let caller = Caller {
        name: "uid:7".to_owned(),
        gid: None,
        role: Role::Viewer,
        authority: numaloc_engine::Authority::All,
        ceilings: crate::config::Ceilings::NONE,
    };
    let mut request = tonic::Request::new(());
    let missing = crate::access::caller(&request).expect_err("nobody has called");
    assert_eq!(missing.code(), Code::Internal);
    request.extensions_mut().insert(caller.clone());
    assert_eq!(crate::access::caller(&request).expect("somebody has called"), caller);
}

/// Denied changes are audited, denied reads are not. A caller that has used up its calls leaves no line.
#[tokio::test]
async fn denied_changes_are_audited() {
    let (log, _guard) = Log::start();
    let (access, sender) = access(config(Vec::new()));
    let address = serve_tcp(None, access).await;
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let channel = endpoint.connect().await.expect("a server listens");
    // The port is plain: each client is a viewer.
    assert_eq!(answer(&channel, GET).await.1, "reached by tcp:plain");
    assert_eq!(answer(&channel, "/x").await.0, Code::Unimplemented);
    assert_eq!(log.lines(), [""; 0]);
    let status = call(&channel, CREATE).await.expect_err("it is a change");
    assert_eq!(status.code(), Code::PermissionDenied);
    let info = status.get_details_error_info().expect("an ErrorInfo");
    assert_eq!(info.reason, "NOT_PERMITTED");
    let line = r#" INFO audit: change refused caller="tcp:plain" method="CreateJob" subject="" result="PermissionDenied" reason="NOT_PERMITTED""#;
    assert_eq!(log.lines(), [line]);
    let quota = Quota { requests_per_second: 0, ..Quota::default() };
    sender.send(Arc::new(Config { quota, ..Config::default() })).expect("it listens");
    assert_eq!(answer(&channel, CREATE).await.0, Code::ResourceExhausted);
    assert_eq!(log.lines(), [line]);
}
