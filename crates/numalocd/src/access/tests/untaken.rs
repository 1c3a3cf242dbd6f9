//! A connected client that does not take its answers.

use super::{
    config, grant,
    server::{access, connect},
};
use crate::{
    access::{Access, Hangup, Via, lines::CallKind},
    config::{Calls, Grantee, Listen, Role},
    listen::{Listeners, Passed, serve},
};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use std::{convert::Infallible, future::pending, path::Path, time::Duration};
use tokio::time::{Instant, sleep, timeout};
use tonic::{
    Request, Status, Streaming,
    body::Body,
    client::Grpc,
    service::Routes,
    transport::{Channel, Endpoint, Server, server::TcpConnectInfo},
};
use tonic_prost::ProstCodec;
use tower::{Layer, ServiceExt, layer::layer_fn, service_fn};

const LIST: &str = "/numaloc.v1.MigrationService/ListJobs";
const WATCH: &str = "/numaloc.v1.EventService/WatchEvents";
const MOMENT: Duration = Duration::from_millis(1);

/// An answer that is larger than a client takes in advance: one message with one field, of 64 KiB.
async fn page(_: http::Request<Body>) -> Result<http::Response<Body>, Infallible> {
    let mut bytes = vec![0, 0, 1, 0, 4, 0x0a, 0x80, 0x80, 0x04];
    bytes.resize(bytes.len() + (64 << 10), b' ');
    Ok(http::Response::new(Body::new(Full::new(Bytes::from(bytes)))))
}

/// Answers with pages at a Unix socket until the runtime ends.
async fn serve_pages(socket: &Path, access: Access) {
    let config = Listen { socket: socket.to_owned(), ..Listen::default() };
    let listeners =
        Listeners::open(&config, Passed::default()).await.expect("the directory is ours");
    let layer = access.clone();
    let router = move |server: Server| {
        let pages = layer_fn(|_: Routes| service_fn(page));
        server.layer(layer.clone()).layer(pages).add_routes(Routes::default())
    };
    tokio::spawn(async move { serve(listeners, router, &access, pending()).await });
}

/// Asks for a page. No more of it is taken than the window of its client until it is read.
async fn ask(channel: &Channel) -> Result<Streaming<()>, Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let codec = ProstCodec::<(), ()>::default();
    let path = LIST.parse().expect("a path");
    grpc.server_streaming(Request::new(()), path, codec).await.map(tonic::Response::into_inner)
}

/// The clock jumps ahead whenever nothing else is to be done. Pings are answered by the client's library.
#[tokio::test(start_paused = true)]
async fn its_turns_come_back_when_its_connection_is_closed() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("n.sock");
    let own = nix::unistd::getuid().as_raw();
    let (access, _sender) = access(config(vec![grant(Grantee::Uid(own), Role::Viewer)]));
    serve_pages(&socket, access).await;
    let other = connect(&socket).await;
    let read = ask(&other).await.expect("an answer").message().await;
    assert_eq!(read.expect("a message"), Some(()), "who takes it can read it");
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).expect("a path");
    let greedy =
        endpoint.initial_stream_window_size(1_u32).connect().await.expect("a server listens");
    let begin = Instant::now();
    let mut untaken = Vec::new();
    // The daemon's own user has twice the turns.
    for _ in 0..2 * CallKind::List.at_once() {
        untaken.push(ask(&greedy).await.expect("an answer"));
    }
    timeout(MOMENT, ask(&other)).await.expect_err("all turns of this user are taken");
    let limit = Calls::default().take_timeout;
    let answer = timeout(2 * limit, ask(&other)).await;
    answer.expect("the turns come back").expect("an answer");
    assert!(begin.elapsed() >= limit, "after {:?}", begin.elapsed());
    untaken.remove(0).message().await.expect_err("the connection is closed");
}

#[tokio::test(start_paused = true)]
async fn only_who_takes_an_answer_too_late_is_hung_up_on() {
    let (access, _sender) = access(config(Vec::new()));
    let service = access.layer(service_fn(page));
    let limit = Calls::default().take_timeout;
    for (path, taken_after, is_ended) in
        [(LIST, limit / 2, false), (LIST, 2 * limit, true), (WATCH, 2 * limit, false)]
    {
        let (hangup, mut hung_up) = Hangup::pair();
        let peer = TcpConnectInfo { local_addr: None, remote_addr: None };
        let via = Via { peer, hangup };
        let mut request = http::Request::new(Body::empty());
        *request.uri_mut() = path.parse().expect("a path");
        request.extensions_mut().insert(via.clone());
        let answer = service.clone().oneshot(request).await.expect("an answer");
        let frame = answer.into_body().frame().await.expect("a frame").expect("no error");
        sleep(taken_after).await;
        drop(frame);
        sleep(2 * limit).await;
        assert_eq!(hung_up.try_recv().is_ok(), is_ended, "{path} taken after {taken_after:?}");
        drop(via);
    }
}
