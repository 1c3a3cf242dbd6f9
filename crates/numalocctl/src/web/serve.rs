//! Speaks HTTP/1.1 with browsers, in a thread of its own.

use super::{
    desk::{Order, Published},
    doc::SessionDoc,
    gate::Gate,
    listen::{Listening, SocketFile},
    look::{Looks, refusal},
    report,
    route::{Change, PageFile, Refusal, Route, change, route},
};
use crate::exit::Failure;
use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};
use http_body_util::{BodyExt, Limited};
use numaloc_http::{
    Answer, Bytes, Incoming, Limits, Place, Places, Request, StatusCode, accept, converse, whole,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    io,
    pin::Pin,
    sync::{Arc, mpsc::Sender},
    task::{Context, Poll},
    thread,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    runtime::Builder,
    sync::{Semaphore, oneshot, watch},
    task::spawn_blocking,
    time::timeout,
};

/// Most looks at a time for advice, pictures and jobs.
const LOOKS: usize = 2;
/// Most connections of clients that have not shown the token, in this connection. A browser opens six for a page.
const STRANGERS: usize = 16;
/// Most connections of clients that have.
const OWNERS: usize = 48;
const LIMITS: Limits =
    Limits { head: Duration::from_secs(10), answer: Duration::from_secs(30), keep_alive: true };
/// Time limit for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of it.
const BODY_MAX: usize = 16 << 10;
/// Time that a request for the next view waits for it.
const PATIENCE: Duration = Duration::from_secs(20);
const JSON: &str = "application/json";

/// Nothing is loaded but from here, no form is sent, and no page has this one in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
form-action 'none'; frame-ancestors 'none'";

/// State shared by all connections.
struct Server {
    gate: Gate,
    looks: Arc<Looks>,
    orders: Sender<Order>,
    views: watch::Receiver<Published>,
    busy: Arc<Semaphore>,
}

/// Serves the page until the returned value is dropped.
///
/// # Errors
/// The kernel refuses resources.
pub fn start(
    listening: Listening,
    gate: Gate,
    looks: Looks,
    orders: Sender<Order>,
    views: watch::Receiver<Published>,
) -> Result<Serving, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    let (stop, mut stopped) = watch::channel(false);
    let busy = Arc::new(Semaphore::new(LOOKS));
    let server = Arc::new(Server { gate, looks: Arc::new(looks), orders, views, busy });
    let (serving, file) = {
        let _in_runtime = runtime.enter();
        match listening {
            Listening::Tcp(tcp) => {
                let tcp = TcpListener::from_std(tcp).map_err(Failure::Runtime)?;
                (
                    server
                        .serve(move |on| tcp.poll_accept(on).map_ok(|(of, _)| of), stopped.clone()),
                    None,
                )
            }
            Listening::Unix(unix, file) => {
                let unix = UnixListener::from_std(unix).map_err(Failure::Runtime)?;
                let next = move |on: &mut Context<'_>| unix.poll_accept(on).map_ok(|(of, _)| of);
                (server.serve(next, stopped.clone()), Some(file))
            }
        }
    };
    thread::spawn(move || {
        // What is under way is not waited for.
        runtime.block_on(async {
            tokio::select! {
                () = serving => {}
                _ = stopped.changed() => {}
            }
        });
        runtime.shutdown_background();
    });
    Ok(Serving { _stop: stop, _file: file })
}

/// The thread that serves ends when this is dropped.
pub struct Serving {
    _stop: watch::Sender<bool>,
    _file: Option<SocketFile>,
}

impl Server {
    fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        self: Arc<Self>,
        next: impl Fn(&mut Context<'_>) -> Poll<io::Result<S>> + Send + Sync + 'static,
        stop: watch::Receiver<bool>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let stopped = stop.clone();
        let serve = move |stream, place: Arc<Place>| {
            let (server, stop) = (self.clone(), stopped.clone());
            async move {
                converse(stream, LIMITS, stop, |request| server.answer(request, &place)).await;
            }
        };
        Box::pin(accept(next, Places::new(STRANGERS, OWNERS), stop, serve))
    }

    async fn answer(&self, request: Request, place: &Place) -> Answer {
        let (parts, body) = request.into_parts();
        let mut answer = match self.answered(&parts, body, place).await {
            Ok(answer) => answer,
            Err(refused) => {
                let document = serde_json::to_vec(&refused.document()).unwrap_or_default();
                whole(refused.status, JSON, document)
            }
        };
        if !place.is_trusted() {
            // One request each: what others send without reading the answers is not worked on.
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        for (name, value) in [
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CACHE_CONTROL, "no-store"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ] {
            answer.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        answer
    }

    async fn answered(
        &self,
        parts: &Parts,
        body: Incoming,
        place: &Place,
    ) -> Result<Answer, Refusal> {
        Gate::check_place(parts)?;
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let asked = route(&parts.method, path, query);
        if !matches!(asked, Ok(Route::File(_) | Route::Session)) {
            self.gate.check_caller(&parts.headers)?;
            place.trust();
        }
        match asked? {
            Route::File(file) => Ok(self::file(file)),
            Route::Session => self.enter(&parts.headers, place),
            Route::View(seen) => self.view(seen).await,
            Route::Advice => self.look(|looks| looks.advice()).await,
            Route::Map(row) => self.look(move |looks| looks.picture(&row)).await,
            Route::Job(id) => self.look(move |looks| looks.job(&id)).await,
            Route::Schedule(id) => self.look(move |looks| looks.schedule(&id)).await,
            Route::Change(kind) => {
                if !kind.is_a_look() {
                    self.gate.check_change()?;
                }
                // A form of another page cannot send this type.
                let kind_of_body = parts.headers.get(header::CONTENT_TYPE);
                if kind_of_body.is_none_or(|value| value != JSON) {
                    let message = "the body has to be application/json";
                    return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
                }
                self.change(change(kind, &read(body).await?)?).await
            }
        }
    }

    /// Exchanges the token of the address for that of the page.
    fn enter(&self, headers: &HeaderMap, place: &Place) -> Result<Answer, Refusal> {
        let token = self.gate.enter(headers)?;
        place.trust();
        let document = serde_json::to_vec(&SessionDoc { token }).unwrap_or_default();
        Ok(whole(StatusCode::OK, JSON, document))
    }

    /// The view after the one that was seen, or the same again if no other one comes for long.
    async fn view(&self, seen: u64) -> Result<Answer, Refusal> {
        let mut views = self.views.clone();
        let newer = views.wait_for(|(serial, _)| *serial != seen && *serial > 0);
        let (_, view) = match timeout(PATIENCE, newer).await {
            Ok(Ok(view)) => view.clone(),
            Ok(Err(_)) => return Err(ending()),
            Err(_) => self.views.borrow().clone(),
        };
        Ok(whole(StatusCode::OK, JSON, view))
    }

    async fn look<D: Serialize + Send + 'static>(
        &self,
        look: impl FnOnce(&Looks) -> Result<D, Failure> + Send + 'static,
    ) -> Result<Answer, Refusal> {
        let turn = self.busy.clone().acquire_owned().await;
        let looks = self.looks.clone();
        // The turn ends with the look, also of a browser that has gone meanwhile.
        let looked = spawn_blocking(move || {
            let _turn = turn;
            look(&looks).and_then(|document| Ok(serde_json::to_vec(&document)?))
        });
        let looked = looked.await.map_err(|_| {
            let message = "a defect in numalocctl ended this; please report it";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, message)
        })?;
        let document = looked.map_err(|failure| refusal(&failure))?;
        Ok(whole(StatusCode::OK, JSON, document))
    }

    async fn change(&self, change: Change) -> Result<Answer, Refusal> {
        if let Change::CancelJob(id) = change {
            return self.look(move |looks| looks.cancel_job(&id)).await;
        }
        let (result, done) = oneshot::channel();
        self.orders.send((change, result)).map_err(|_| ending())?;
        // The page waits for the view of its own plan: another one's may come before.
        let done = done.await.map_err(|_| ending())??.map(|plan| json!({ "plan": plan }));
        Ok(whole(StatusCode::OK, JSON, Value::from(done).to_string()))
    }
}

fn ending() -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "numalocctl web is ending")
}

async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    match timeout(BODY_TIMEOUT, Limited::new(body, BODY_MAX).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => {
            Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large, or broke off"))
        }
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not come")),
    }
}

fn file(file: PageFile) -> Answer {
    let ok = StatusCode::OK;
    match file {
        PageFile::Html => whole(ok, "text/html; charset=utf-8", report::served()),
        PageFile::Style => whole(ok, "text/css; charset=utf-8", report::STYLE),
        PageFile::Script => whole(ok, "text/javascript; charset=utf-8", report::SCRIPT),
    }
}
