//! A daemon that gives canned answers, in a thread of the test.

use crate::{answers, run};
use numaloc_api::{
    DOMAIN,
    v1::{
        self, daemon_service_server::DaemonServiceServer, event_service_server::EventServiceServer,
        locality_service_server::LocalityServiceServer,
        migration_service_server::MigrationServiceServer,
        schedule_service_server::ScheduleServiceServer,
        workload_service_server::WorkloadServiceServer,
    },
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt::Debug,
    path::PathBuf,
    process::{Command, Output},
    sync::Arc,
    thread::{self, JoinHandle},
};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{Notify, mpsc, oneshot},
};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream, UnixListenerStream};
use tonic::{
    Code, Request, Response, Status,
    transport::{Server, ServerTlsConfig, server::Router},
};
use tonic_types::{ErrorDetails, StatusExt};

mod services;

/// The answers of the fake daemon.
pub struct Script {
    /// If set, every call is answered with this.
    pub refuse: Option<Status>,
    pub version: &'static str,
    pub drained: bool,
    /// Its live view of the host; `None`: it does not know the call, as an older one.
    pub live: Option<v1::LiveView>,
    /// Members left out of each target.
    pub missing: Vec<v1::MissingMember>,
    /// What is on the nodes that are asked for.
    pub contents: Vec<v1::NodeContents>,
    pub jobs: Vec<v1::Job>,
    pub schedules: Vec<v1::Schedule>,
    /// Whether CreateJob returns a job that existed before.
    pub existing: bool,
    /// The answers of each call of WatchJob. The last call then waits for a CancelJob; the earlier ones break off.
    pub watch: Vec<Vec<v1::Job>>,
    /// The state of a watched job on CancelJob; `None`: it stays unchanged.
    pub cancelled: Option<v1::Job>,
    /// Changes that each call of WatchJobs shows. The last one then stays open, those before break off.
    pub changes: Vec<Vec<v1::WatchJobsResponse>>,
    /// Whether it knows no resume_token of WatchJobs.
    pub forgets: bool,
    /// The answers of each call of WatchEvents. The last call then stays open; the earlier ones break off.
    pub events: Vec<Vec<v1::Event>>,
    /// Whether the last watch of events breaks off, too, and no call is answered afterwards.
    pub dies: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            refuse: None,
            version: "9.8.7",
            drained: false,
            live: None,
            missing: Vec::new(),
            contents: Vec::new(),
            jobs: Vec::new(),
            schedules: vec![answers::schedule(); 1001],
            existing: false,
            watch: Vec::new(),
            cancelled: None,
            changes: Vec::new(),
            forgets: false,
            events: Vec::new(),
            dies: false,
        }
    }
}

/// The state that all services share.
pub struct State {
    script: Mutex<Script>,
    seen: Mutex<Vec<(String, String)>>,
    cancel: Notify,
}

/// All services in one type.
#[derive(Clone)]
pub struct Services(Arc<State>);

/// A gRPC server in place of the daemon, which notes the requests.
pub struct Fake {
    pub endpoint: String,
    state: Arc<State>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    folder: tempfile::TempDir,
}

impl Fake {
    /// Starts it on a Unix socket.
    pub fn start(script: Script) -> Self {
        Self::on(script, None)
    }

    /// Starts it on TCP with certificates.
    pub fn start_tls(script: Script, tls: ServerTlsConfig) -> Self {
        Self::on(script, Some(tls))
    }

    fn on(script: Script, tls: Option<ServerTlsConfig>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (seen, cancel) = (Mutex::default(), Notify::new());
        let state = Arc::new(State { script: Mutex::new(script), seen, cancel });
        let (endpoint, stop, thread) = listen(Services(state.clone()), folder.path(), tls);
        Self { endpoint, state, stop: Some(stop), thread: Some(thread), folder }
    }

    /// Starts it again at its socket, with another script, after [`Self::stop`].
    pub fn start_again(&mut self, script: Script) {
        let _ = std::fs::remove_file(self.folder.path().join(SOCKET));
        *self.state.script.lock() = script;
        let services = Services(self.state.clone());
        let (_, stop, thread) = listen(services, self.folder.path(), None);
        (self.stop, self.thread) = (Some(stop), Some(thread));
    }

    /// Stops it. Its socket stays behind without a listener.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }

    /// The program with a command line. NUMALOC_ENDPOINT names this daemon.
    pub fn command(&self, line: &str) -> Command {
        let mut command = run::program();
        command.env("NUMALOC_ENDPOINT", &self.endpoint).args(line.split_whitespace());
        command
    }

    pub fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// The requests of this call, in Rust's debug format.
    pub fn seen(&self, call: &str) -> Vec<String> {
        let seen = self.state.seen.lock();
        seen.iter().filter(|(name, _)| name == call).map(|(_, request)| request.clone()).collect()
    }

    /// The folder of this daemon.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop();
    }
}

const SOCKET: &str = "numalocd.sock";

/// Serves in a thread until the sender is dropped.
fn listen(
    services: Services,
    folder: &std::path::Path,
    tls: Option<ServerTlsConfig>,
) -> (String, oneshot::Sender<()>, JoinHandle<()>) {
    let socket = folder.join(SOCKET);
    let (stop, stopped) = oneshot::channel::<()>();
    let (ready, listening) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            tokio::select! {
                () = serve(services, socket, tls, ready) => {}
                _ = stopped => {}
            }
        });
    });
    (listening.recv().unwrap(), stop, thread)
}

async fn serve(
    services: Services,
    socket: PathBuf,
    tls: Option<ServerTlsConfig>,
    ready: std::sync::mpsc::Sender<String>,
) {
    match tls {
        None => {
            let listener = UnixListener::bind(&socket).unwrap();
            ready.send(format!("unix://{}", socket.display())).unwrap();
            let router = router(Server::builder(), services);
            router.serve_with_incoming(UnixListenerStream::new(listener)).await.unwrap();
        }
        Some(tls) => {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            ready.send(format!("https://localhost:{port}")).unwrap();
            let router = router(Server::builder().tls_config(tls).unwrap(), services);
            router.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        }
    }
}

fn router(mut server: Server, services: Services) -> Router {
    server
        .add_service(LocalityServiceServer::new(services.clone()))
        .add_service(MigrationServiceServer::new(services.clone()))
        .add_service(ScheduleServiceServer::new(services.clone()))
        .add_service(EventServiceServer::new(services.clone()))
        .add_service(WorkloadServiceServer::new(services.clone()))
        .add_service(DaemonServiceServer::new(services))
}

impl Services {
    /// Records a call and returns the script, unless calls are refused.
    fn asked<Q: Debug>(
        &self,
        call: &str,
        request: Request<Q>,
    ) -> Result<(Q, parking_lot::MutexGuard<'_, Script>), Status> {
        let request = request.into_inner();
        self.0.seen.lock().push((call.to_owned(), format!("{request:?}")));
        let script = self.0.script.lock();
        match &script.refuse {
            Some(status) => Err(status.clone()),
            None => Ok((request, script)),
        }
    }
}

/// A page of a list. The token is the number of its first entry.
fn page<T: Clone>(all: &[T], size: i32, token: &str) -> (Vec<T>, String) {
    let size = usize::try_from(size).unwrap();
    assert!((1..=1000).contains(&size), "a page of {size}");
    let start: usize = if token.is_empty() { 0 } else { token.parse().unwrap() };
    let end = all.len().min(start + size);
    let next = if end < all.len() { end.to_string() } else { String::new() };
    (all[start..end].to_vec(), next)
}

/// Takes the first of the remaining watches. Also returns whether it was the last one.
fn next_watch<T: Clone>(watches: &mut Vec<Vec<T>>) -> (Vec<T>, bool) {
    match watches.len() {
        0 => (Vec::new(), true),
        1 => (watches[0].clone(), true),
        _ => (watches.remove(0), false),
    }
}

fn broken() -> Status {
    Status::unavailable("the daemon is stopping")
}

type Watch<T> = ReceiverStream<Result<T, Status>>;

fn channel<T>() -> (mpsc::Sender<Result<T, Status>>, Response<Watch<T>>) {
    let (sender, receiver) = mpsc::channel(16);
    (sender, Response::new(ReceiverStream::new(receiver)))
}

/// A watch that shows these, and then stays open or breaks off.
fn shows<T: Send + 'static>(answers: Vec<T>, stays: bool) -> Response<Watch<T>> {
    let (sender, response) = channel();
    tokio::spawn(async move {
        for answer in answers {
            let _ = sender.send(Ok(answer)).await;
        }
        if stays {
            sender.closed().await;
        } else {
            let _ = sender.send(Err(broken())).await;
        }
    });
    response
}

fn forgotten() -> Status {
    let details = ErrorDetails::with_error_info("CURSOR_OUT_OF_RANGE", DOMAIN, HashMap::new());
    Status::with_error_details(Code::OutOfRange, "resume_token is too old", details)
}

fn gone() -> v1::Job {
    answers::job(v1::JobState::Queued, 0)
}
