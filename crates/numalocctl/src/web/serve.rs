//! Speaks HTTP/1.1 with browsers, in a thread of its own.

use super::{
    desk::{Order, Published},
    doc::SessionDoc,
    gate::Gate,
    listen::{Listening, SocketFile},
    look::{Looks, refusal},
    patient::Patient,
    places::{Place, Places},
    report,
    route::{Change, PageFile, Refusal, Route, change, route},
};
use crate::exit::Failure;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header, request::Parts,
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use std::{
    convert::Infallible,
    io,
    sync::{Arc, mpsc::Sender},
    thread,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    runtime::Builder,
    sync::{Semaphore, oneshot, watch},
    task::{spawn_blocking, yield_now},
    time::{sleep, timeout},
};

/// Most looks at a time for advice, pictures and jobs.
const LOOKS: usize = 2;
/// Time limit for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for an answer to be taken.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of it.
const BODY_MAX: usize = 16 << 10;
/// Time that a request for the next view waits for it.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause after a failed accept. Most failures, such as a lack of file descriptors, pass by themselves.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Nothing is loaded but from here, no form is sent, and no page has this one in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
form-action 'none'; frame-ancestors 'none'";

type Answer = Response<Full<Bytes>>;

/// State shared by all connections.
struct Server {
    gate: Gate,
    looks: Arc<Looks>,
    orders: Sender<Order>,
    views: watch::Receiver<Published>,
    places: Arc<Places>,
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
    let (stop, stopped) = oneshot::channel::<()>();
    let (places, busy) = (Arc::default(), Arc::new(Semaphore::new(LOOKS)));
    let server = Arc::new(Server { gate, looks: Arc::new(looks), orders, views, places, busy });
    let (listener, file) = match listening {
        Listening::Tcp(listener) => (Ok(listener), None),
        Listening::Unix(listener, file) => (Err(listener), Some(file)),
    };
    let _in_runtime = runtime.enter();
    let listener = match listener {
        Ok(tcp) => tcp.set_nonblocking(true).and_then(|()| TcpListener::from_std(tcp)).map(Ok),
        Err(unix) => {
            unix.set_nonblocking(true).and_then(|()| UnixListener::from_std(unix)).map(Err)
        }
    };
    let listener = listener.map_err(Failure::Runtime)?;
    drop(_in_runtime);
    thread::spawn(move || {
        runtime.block_on(async {
            let accepting = async {
                match listener {
                    Ok(tcp) => server.accept(async || Ok(tcp.accept().await?.0)).await,
                    Err(unix) => server.accept(async || Ok(unix.accept().await?.0)).await,
                }
            };
            tokio::select! {
                () = accepting => {}
                _ = stopped => {}
            }
        });
        // Looks that are under way are not waited for.
        runtime.shutdown_background();
    });
    Ok(Serving { _stop: stop, _file: file })
}

/// The thread that serves ends when this is dropped.
pub struct Serving {
    _stop: oneshot::Sender<()>,
    _file: Option<SocketFile>,
}

impl Server {
    async fn accept<S>(self: &Arc<Self>, accept: impl AsyncFn() -> io::Result<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        loop {
            let Ok(stream) = accept().await else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let (server, place) = (self.clone(), self.places.take());
            let number = place.number();
            let task = tokio::spawn(async move { server.converse(stream, place).await });
            self.places.served_by(number, task.abort_handle());
            // New connections are read before others may take the place.
            yield_now().await;
        }
    }

    async fn converse<S>(&self, stream: S, place: Place)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let answer = service_fn(|request: Request<Incoming>| async {
            Ok::<_, Infallible>(self.answer(request, &place).await)
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        // A browser that has gone is not an error.
        let stream = TokioIo::new(Patient::new(stream, ANSWER_TIMEOUT));
        let _ = http.serve_connection(stream, answer).await;
    }

    async fn answer(&self, request: Request<Incoming>, place: &Place) -> Answer {
        let (parts, body) = request.into_parts();
        let mut answer = match self.answered(&parts, body, place).await {
            Ok(answer) => answer,
            Err(refused) => {
                let document = serde_json::to_vec(&refused.document()).unwrap_or_default();
                let mut answer = whole("application/json", document.into());
                *answer.status_mut() = refused.status;
                answer
            }
        };
        if !place.is_owner() {
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
        if let Ok(Route::File(file)) = asked {
            return Ok(self::file(file));
        }
        if let Ok(Route::Session) = asked {
            return self.enter(&parts.headers, place);
        }
        self.gate.check_caller(&parts.headers)?;
        place.has_token();
        match asked? {
            Route::File(file) => Ok(self::file(file)),
            Route::Session => self.enter(&parts.headers, place),
            Route::View(seen) => self.view(seen).await,
            Route::Advice => self.look(|looks| looks.advice()).await,
            Route::Map(row) => self.look(move |looks| looks.picture(&row)).await,
            Route::Job(id) => self.look(move |looks| looks.job(&id)).await,
            Route::Change(kind) => {
                if !kind.is_a_look() {
                    self.gate.check_change()?;
                }
                // A form of another page cannot send this type.
                let kind_of_body = parts.headers.get(header::CONTENT_TYPE);
                if kind_of_body.is_none_or(|value| value != "application/json") {
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
        place.has_token();
        let document = serde_json::to_vec(&SessionDoc { token }).unwrap_or_default();
        Ok(whole("application/json", document.into()))
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
        Ok(whole("application/json", view))
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
        Ok(whole("application/json", document.into()))
    }

    async fn change(&self, change: Change) -> Result<Answer, Refusal> {
        if let Change::CancelJob(id) = change {
            return self.look(move |looks| looks.cancel_job(&id)).await;
        }
        let (result, done) = oneshot::channel();
        self.orders.send((change, result)).map_err(|_| ending())?;
        done.await.map_err(|_| ending())??;
        Ok(whole("application/json", Bytes::from_static(b"null")))
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
    match file {
        PageFile::Html => whole("text/html; charset=utf-8", report::served().into()),
        PageFile::Style => whole("text/css; charset=utf-8", report::STYLE.into()),
        PageFile::Script => whole("text/javascript; charset=utf-8", report::SCRIPT.into()),
    }
}

fn whole(kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
