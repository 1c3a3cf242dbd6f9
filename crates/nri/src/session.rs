//! One connection to a runtime, from the registration to its end.

use crate::{
    Error, Identity,
    connection::{PLUGIN, RUNTIME},
    envelope::{Request, Response, Status, UNIMPLEMENTED},
    frame::{Decoder, Message, REQUEST, RESPONSE},
    v1alpha1::{
        ConfigureRequest, ConfigureResponse, Container, ContainerAdjustment, ContainerEvent,
        ContainerUpdate, CreateContainerRequest, CreateContainerResponse, Empty, Event,
        LinuxContainerUpdate, LinuxResources, PodSandbox, RegisterPluginRequest, StateChangeEvent,
        StopContainerResponse, SynchronizeRequest, SynchronizeResponse, UpdateContainerRequest,
        UpdateContainerResponse,
    },
};
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, timeout, timeout_at},
};

/// Time that the runtime may take to answer the registration, to complete a message, and to take ours. Runtimes give
/// plugins 5 s to register and 2 s for each call.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of pods and containers that are taken from one Synchronize, over all its parts.
const SYNCHRONIZE_MAX: usize = 256 << 20;
const PLUGIN_SERVICE: &str = "nri.pkg.api.v1alpha1.Plugin";
const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";
/// The number of our only call. The numbers of who begins a connection are odd.
const REGISTRATION: u32 = 1;

/// A set of events: a bit for each, by its number in the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(i32);

impl Events {
    /// Whether an event is in the set.
    pub fn has(self, event: Event) -> bool {
        self.0 & Self::bit(event) != 0
    }

    fn bit(event: Event) -> i32 {
        // No bit for UNKNOWN.
        (event as u32).checked_sub(1).and_then(|shift| 1i32.checked_shl(shift)).unwrap_or(0)
    }
}

impl FromIterator<Event> for Events {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        Self(events.into_iter().fold(0, |events, event| events | Self::bit(event)))
    }
}

/// Something has happened, or is about to.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The kind of event, which decides whether `container` is set.
    pub event: Event,
    /// The pod that the event is about, or whose container it is about.
    pub pod: Option<PodSandbox>,
    /// The container; `None` if it is about the pod.
    pub container: Option<Container>,
}

/// A plugin. While one of its functions runs, the runtime waits, and so do all clients that start a container: they have to
/// return at once.
pub trait Plugin {
    /// The runtime says who it is, and asks which events the plugin wants. An empty set means all of them.
    ///
    /// # Errors
    /// Why the plugin does not take the configuration. It ends the connection.
    fn configure(&mut self, request: ConfigureRequest) -> Result<Events, String>;

    /// All pods and containers that there are. Each connection has one, before anything else happens in it.
    fn synchronize(&mut self, pods: Vec<PodSandbox>, containers: Vec<Container>);

    /// Something has happened. [`Event::CreateContainer`] and [`Event::UpdateContainer`] do not come here.
    fn notice(&mut self, notice: Notice);

    /// A container is about to be created. The answer is how it is adjusted.
    fn create(&mut self, _pod: PodSandbox, _container: Container) -> Option<ContainerAdjustment> {
        None
    }

    /// The resources of a container are about to change to `resources`, in which empty fields stay as they are. The answer is what is
    /// changed besides.
    fn update(
        &mut self,
        _pod: PodSandbox,
        _container: Container,
        _resources: LinuxResources,
    ) -> Option<LinuxResources> {
        None
    }
}

/// Registers a plugin with the runtime at the other end of `stream`, and serves its calls until the runtime ends the connection.
/// Dropping the future ends it, too.
///
/// Whatever the runtime sends that cannot be understood is an error and no answer: an answer with an error could make the creation
/// of a container fail, while a plugin that has gone is passed over.
///
/// # Errors
/// The connection is of no more use.
pub async fn serve<S, P>(mut stream: S, identity: &Identity, plugin: &mut P) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    P: Plugin + ?Sized,
{
    let mut session = Session { plugin, is_registered: false, gathered: None };
    send(&mut stream, &registration(identity)).await?;
    let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
    let mut buffer = vec![0; 64 << 10];
    // Since when the runtime owes us something.
    let mut owed = Some(Instant::now());
    loop {
        let read = stream.read(&mut buffer);
        let count = match owed {
            Some(since) => {
                timeout_at(since + PATIENCE, read).await.map_err(|_| session.silent())??
            }
            None => read.await?,
        };
        if count == 0 {
            return if decoder.is_within() { Err(Error::Cut) } else { Ok(()) };
        }
        decoder.push(&buffer[..count], &mut messages)?;
        let is_further = !messages.is_empty();
        for message in messages.drain(..) {
            if let Some(answer) = session.take(message)? {
                send(&mut stream, &answer).await?;
            }
        }
        owed = match decoder.is_within() || !session.is_registered {
            true if is_further => Some(Instant::now()),
            true => Some(owed.unwrap_or_else(Instant::now)),
            false => None,
        };
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &Message) -> Result<(), Error> {
    let bytes = message.encode()?;
    let write = async {
        stream.write_all(&bytes).await?;
        stream.flush().await
    };
    let silent =
        |_| Error::Silent { seconds: PATIENCE.as_secs(), during: "a message waited for it" };
    Ok(timeout(PATIENCE, write).await.map_err(silent)??)
}

fn registration(identity: &Identity) -> Message {
    let request = RegisterPluginRequest {
        plugin_name: identity.name().to_owned(),
        plugin_idx: identity.index().to_owned(),
    };
    let request = Request {
        service: RUNTIME_SERVICE.to_owned(),
        method: "RegisterPlugin".to_owned(),
        payload: prost::Message::encode_to_vec(&request),
    };
    let payload = prost::Message::encode_to_vec(&request);
    Message { connection: RUNTIME, stream: REGISTRATION, kind: REQUEST, payload }
}

/// The state of a connection.
struct Session<'p, P: ?Sized> {
    plugin: &'p mut P,
    is_registered: bool,
    /// Parts of a Synchronize that have come, and their size in bytes.
    gathered: Option<(SynchronizeRequest, usize)>,
}

impl<P: Plugin + ?Sized> Session<'_, P> {
    fn silent(&self) -> Error {
        let during =
            if self.is_registered { "a message was incomplete" } else { "it registers the plugin" };
        Error::Silent { seconds: PATIENCE.as_secs(), during }
    }

    /// Takes a message in, and gives back the answer to it.
    fn take(&mut self, message: Message) -> Result<Option<Message>, Error> {
        let Message { connection, stream, kind, payload } = message;
        match (connection, kind) {
            (PLUGIN, REQUEST) => {
                let response = self.call(decode("a request", &payload)?)?;
                let payload = prost::Message::encode_to_vec(&response);
                Ok(Some(Message { connection, stream, kind: RESPONSE, payload }))
            }
            (RUNTIME, RESPONSE) if stream == REGISTRATION && !self.is_registered => {
                let response: Response = decode("the answer to RegisterPlugin", &payload)?;
                let status = response.status.unwrap_or_default();
                if status.code != 0 {
                    let (code, message) = (status.code, status.message);
                    return Err(Error::Refused { call: "RegisterPlugin", code, message });
                }
                self.is_registered = true;
                Ok(None)
            }
            _ => Err(Error::Unexpected { connection, stream, kind }),
        }
    }

    fn call(&mut self, request: Request) -> Result<Response, Error> {
        let Request { service, method, payload } = request;
        let name = if service == PLUGIN_SERVICE { method.as_str() } else { "" };
        let payload = match name {
            "Configure" => encoded(&self.configure(decode(name, &payload)?)?),
            "Synchronize" => encoded(&self.synchronize(decode(name, &payload)?, payload.len())?),
            "Shutdown" => Vec::new(),
            "CreateContainer" => {
                let request: CreateContainerRequest = decode(name, &payload)?;
                let (pod, container) = (request.pod.unwrap_or_default(), request.container);
                let adjust = self.plugin.create(pod, container.unwrap_or_default());
                encoded(&CreateContainerResponse { adjust })
            }
            "UpdateContainer" => {
                let request: UpdateContainerRequest = decode(name, &payload)?;
                let UpdateContainerRequest { pod, container, linux_resources: asked } = request;
                let container = container.unwrap_or_default();
                let container_id = container.id.clone();
                let (pod, asked) = (pod.unwrap_or_default(), asked.unwrap_or_default());
                let resources = self.plugin.update(pod, container, asked);
                let linux = |resources| LinuxContainerUpdate { resources: Some(resources) };
                let update = resources.map(|resources| ContainerUpdate {
                    container_id,
                    linux: Some(linux(resources)),
                });
                encoded(&UpdateContainerResponse { update: update.into_iter().collect() })
            }
            "StateChange" => {
                let change: StateChangeEvent = decode(name, &payload)?;
                let (event, StateChangeEvent { pod, container, .. }) = (change.event(), change);
                // Events that this crate does not know yet are Unknown.
                if event != Event::Unknown {
                    self.plugin.notice(Notice { event, pod, container });
                }
                encoded(&Empty {})
            }
            name => {
                let Some(event) = event_of(name) else {
                    return Ok(unimplemented(&service, &method));
                };
                let ContainerEvent { pod, container } = decode(name, &payload)?;
                self.plugin.notice(Notice { event, pod, container });
                match event {
                    Event::StopContainer => encoded(&StopContainerResponse {}),
                    _ => encoded(&Empty {}),
                }
            }
        };
        Ok(Response { status: None, payload })
    }

    fn configure(&mut self, request: ConfigureRequest) -> Result<ConfigureResponse, Error> {
        let Events(events) = self.plugin.configure(request).map_err(Error::Configuration)?;
        Ok(ConfigureResponse { events })
    }

    fn synchronize(
        &mut self,
        part: SynchronizeRequest,
        bytes: usize,
    ) -> Result<SynchronizeResponse, Error> {
        let (mut all, before) = self.gathered.take().unwrap_or_default();
        let (more, sum) = (part.more, before + bytes);
        if sum > SYNCHRONIZE_MAX {
            let (what, most) = ("Synchronize", SYNCHRONIZE_MAX);
            return Err(Error::TooLong { what, bytes: sum as u64, most });
        }
        all.pods.extend(part.pods);
        all.containers.extend(part.containers);
        match more {
            true => self.gathered = Some((all, sum)),
            false => self.plugin.synchronize(all.pods, all.containers),
        }
        Ok(SynchronizeResponse { more })
    }
}

/// The event that a call of its own tells.
fn event_of(method: &str) -> Option<Event> {
    Some(match method {
        "RunPodSandbox" => Event::RunPodSandbox,
        "StopPodSandbox" => Event::StopPodSandbox,
        "RemovePodSandbox" => Event::RemovePodSandbox,
        "PostCreateContainer" => Event::PostCreateContainer,
        "StartContainer" => Event::StartContainer,
        "PostStartContainer" => Event::PostStartContainer,
        "PostUpdateContainer" => Event::PostUpdateContainer,
        "StopContainer" => Event::StopContainer,
        "RemoveContainer" => Event::RemoveContainer,
        _ => return None,
    })
}

fn unimplemented(service: &str, method: &str) -> Response {
    let message = format!("there is no {method} in {service}");
    let status = Some(Status { code: UNIMPLEMENTED, message });
    Response { status, payload: Vec::new() }
}

fn encoded(message: &impl prost::Message) -> Vec<u8> {
    message.encode_to_vec()
}

fn decode<M: prost::Message + Default>(what: &str, payload: &[u8]) -> Result<M, Error> {
    M::decode(payload).map_err(|error| Error::Message { what: what.to_owned(), error })
}
