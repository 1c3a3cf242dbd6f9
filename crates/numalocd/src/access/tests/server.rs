//! A real server with one service, which answers with the name of the caller that has reached it.

use crate::{
    access::{Access, Caller},
    accounts::Accounts,
    config::{Config, Listen},
    listen::{Listeners, Passed, serve},
};
use std::{convert::Infallible, future::pending, net::SocketAddr, path::Path, sync::Arc};
use tokio::{net::TcpListener, sync::watch};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Code, Request, Status,
    body::Body,
    client::Grpc,
    service::Routes,
    transport::{Channel, Endpoint, Server, ServerTlsConfig},
};
use tonic_prost::ProstCodec;
use tower::{Layer, Service, layer::layer_fn, service_fn};

/// The answer to a call: its code and its message.
pub(super) type Answer = (Code, String);

/// The layer, and the sender that changes its configuration.
pub(super) fn access(config: Arc<Config>) -> (Access, watch::Sender<Arc<Config>>) {
    let (sender, receiver) = watch::channel(config);
    (Access::new(receiver.clone(), Accounts::new(receiver)), sender)
}

/// Answers each call with the caller's name.
pub(super) fn echo<S>() -> impl Layer<
    S,
    Service: Service<
        http::Request<Body>,
        Response = http::Response<Body>,
        Error = Infallible,
        Future: Send,
    > + Clone
                 + Send
                 + 'static,
> + Clone {
    layer_fn(|_| {
        service_fn(async |request: http::Request<Body>| {
            let caller = request.extensions().get::<Caller>();
            let name = caller.map_or("nobody", |caller| &caller.name);
            Ok(Status::unimplemented(format!("reached by {name}")).into_http())
        })
    })
}

/// Serves at a Unix socket that any user may connect to, until the runtime ends.
pub(super) async fn serve_unix(socket: &Path, access: Access) {
    serve_at(&Listen { socket: socket.to_owned(), mode: 0o666, ..Listen::default() }, access).await;
}

/// Serves at some sockets until the runtime ends.
pub(super) async fn serve_at(config: &Listen, access: Access) {
    let listeners =
        Listeners::open(config, Passed::default()).await.expect("the directory is ours");
    let layer = access.clone();
    let router = move |server: Server| {
        server.layer(layer.clone()).layer(echo()).add_routes(Routes::default())
    };
    tokio::spawn(async move { serve(listeners, router, &access, pending()).await });
}

/// Serves at a loopback port until the runtime ends.
pub(super) async fn serve_tcp(tls: Option<ServerTlsConfig>, access: Access) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let mut builder = Server::builder();
    if let Some(tls) = tls {
        builder = builder.tls_config(tls).expect("the keys are good");
    }
    let router = builder.layer(access).layer(echo()).add_routes(Routes::default());
    tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

/// A client of a Unix socket.
pub(super) async fn connect(socket: &Path) -> Channel {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()));
    endpoint.expect("a path").connect().await.expect("a server listens")
}

/// Calls `path` with an empty message.
pub(super) async fn call(channel: &Channel, path: &str) -> Result<(), Status> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let codec = ProstCodec::<(), ()>::default();
    let path = path.parse().expect("a path");
    grpc.unary(Request::new(()), path, codec).await.map(tonic::Response::into_inner)
}

/// Makes a call and returns its answer.
pub(super) async fn answer(channel: &Channel, path: &str) -> Answer {
    match call(channel, path).await {
        Ok(()) => (Code::Ok, String::new()),
        Err(status) => (status.code(), status.message().to_owned()),
    }
}
