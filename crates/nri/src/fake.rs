//! A runtime's side of a connection, for tests: it asks plugins what containerd asks them, in the same order, and checks that they
//! answer.

use crate::{
    Error,
    connection::{PLUGIN, RUNTIME},
    envelope::{Request, Response},
    frame::{Decoder, Message, REQUEST, RESPONSE},
    v1alpha1::{
        ConfigureRequest, ConfigureResponse, Container, ContainerEvent, CreateContainerRequest,
        CreateContainerResponse, Empty, Event, LinuxResources, PodSandbox, RegisterPluginRequest,
        StateChangeEvent, SynchronizeRequest, SynchronizeResponse, UpdateContainerRequest,
        UpdateContainerResponse,
    },
};
use std::collections::VecDeque;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The way in which a runtime reports events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// By StateChange, as containerd 1.7 to 2.1.
    StateChange,
    /// By a call for each event, as later ones. Events for which a plugin has no call are reported by StateChange.
    Calls,
}

/// A runtime, connected to one plugin.
#[derive(Debug)]
pub struct Runtime<S> {
    stream: S,
    generation: Generation,
    decoder: Decoder,
    messages: VecDeque<Message>,
    calls: u32,
    /// Name and index with which the plugin has registered.
    pub plugin: RegisterPluginRequest,
    /// The events that the plugin wants, as a bit each.
    pub events: i32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Runtime<S> {
    /// Waits for a plugin to register, and configures it.
    ///
    /// # Errors
    /// The plugin does something else, or has gone.
    pub async fn accept(stream: S, generation: Generation) -> Result<Self, Error> {
        let mut runtime = Self {
            stream,
            generation,
            decoder: Decoder::default(),
            messages: VecDeque::new(),
            calls: 0,
            plugin: RegisterPluginRequest::default(),
            events: 0,
        };
        let message = runtime.receive().await?;
        let Message { connection: RUNTIME, stream, kind: REQUEST, payload } = message else {
            return Err(unexpected(&message));
        };
        let request: Request = decode(&payload)?;
        runtime.plugin = decode(&request.payload)?;
        runtime.send(registered(stream)).await?;
        let request = ConfigureRequest {
            config: String::new(),
            runtime_name: "fake".to_owned(),
            runtime_version: "v0".to_owned(),
            registration_timeout: 5000,
            request_timeout: 2000,
        };
        let answer: ConfigureResponse = runtime.call("Configure", &request).await?;
        runtime.events = answer.events;
        Ok(runtime)
    }

    /// Reports all pods and containers, in the given number of messages.
    ///
    /// # Errors
    /// The plugin does not answer, or does not take parts.
    pub async fn synchronize(
        &mut self,
        parts: Vec<(Vec<PodSandbox>, Vec<Container>)>,
    ) -> Result<(), Error> {
        let last = parts.len().saturating_sub(1);
        for (index, (pods, containers)) in parts.into_iter().enumerate() {
            let request = SynchronizeRequest { pods, containers, more: index < last };
            let more = request.more;
            let answer: SynchronizeResponse = self.call("Synchronize", &request).await?;
            if answer.more != more {
                let message = "it does not take parts".to_owned();
                return Err(Error::Refused { call: "Synchronize", code: 0, message });
            }
        }
        Ok(())
    }

    /// Tells of an event, if the plugin wants it.
    ///
    /// # Errors
    /// The plugin does not answer.
    pub async fn tell(
        &mut self,
        event: Event,
        pod: &PodSandbox,
        container: Option<&Container>,
    ) -> Result<(), Error> {
        if !self.wants(event) {
            return Ok(());
        }
        let (pod, container) = (Some(pod.clone()), container.cloned());
        let own = match event {
            // It has always been a call of its own.
            Event::StopContainer => true,
            _ => self.generation == Generation::Calls,
        };
        if own {
            let request = ContainerEvent { pod: pod.clone(), container: container.clone() };
            match self.call::<_, Empty>(method_of(event), &request).await {
                Err(Error::Refused { code: crate::envelope::UNIMPLEMENTED, .. }) => {}
                answer => return answer.map(|_| ()),
            }
        }
        let request = StateChangeEvent { event: event.into(), pod, container };
        self.call::<_, Empty>("StateChange", &request).await.map(|_| ())
    }

    /// Creates a container, if the plugin wants to know.
    ///
    /// # Errors
    /// The plugin does not answer.
    pub async fn create(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<CreateContainerResponse, Error> {
        if !self.wants(Event::CreateContainer) {
            return Ok(CreateContainerResponse::default());
        }
        let (pod, container) = (Some(pod.clone()), Some(container.clone()));
        self.call("CreateContainer", &CreateContainerRequest { pod, container }).await
    }

    /// Gives a container other resources, if the plugin wants to know.
    ///
    /// # Errors
    /// The plugin does not answer.
    pub async fn update(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
        resources: LinuxResources,
    ) -> Result<UpdateContainerResponse, Error> {
        if !self.wants(Event::UpdateContainer) {
            return Ok(UpdateContainerResponse::default());
        }
        let (pod, container) = (Some(pod.clone()), Some(container.clone()));
        let request = UpdateContainerRequest { pod, container, linux_resources: Some(resources) };
        self.call("UpdateContainer", &request).await
    }

    /// The connection itself, to send something else.
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// Calls the plugin.
    ///
    /// # Errors
    /// The plugin does not answer, or refuses.
    pub async fn call<Q: prost::Message, A: prost::Message + Default>(
        &mut self,
        method: &'static str,
        request: &Q,
    ) -> Result<A, Error> {
        let stream = 2 * self.calls + 1;
        self.calls += 1;
        self.send(call_of(method, stream, request.encode_to_vec())).await?;
        let message = self.receive().await?;
        let is_answer =
            (message.connection, message.stream, message.kind) == (PLUGIN, stream, RESPONSE);
        if !is_answer {
            return Err(unexpected(&message));
        }
        let response: Response = decode(&message.payload)?;
        match response.status.filter(|status| status.code != 0) {
            Some(status) => {
                Err(Error::Refused { call: method, code: status.code, message: status.message })
            }
            None => decode(&response.payload),
        }
    }

    fn wants(&self, event: Event) -> bool {
        let shift = u32::try_from(event as i32 - 1).unwrap_or(31);
        self.events == 0 || self.events & (1 << shift) != 0
    }

    async fn send(&mut self, message: Message) -> Result<(), Error> {
        self.stream.write_all(&message.encode()?).await?;
        Ok(self.stream.flush().await?)
    }

    async fn receive(&mut self) -> Result<Message, Error> {
        let mut buffer = vec![0; 4096];
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Ok(message);
            }
            let count = self.stream.read(&mut buffer).await?;
            if count == 0 {
                return Err(Error::Cut);
            }
            let mut messages = Vec::new();
            self.decoder.push(&buffer[..count], &mut messages)?;
            self.messages.extend(messages);
        }
    }
}

/// The answer to the registration of a plugin, whose call has this number.
pub fn registered(stream: u32) -> Message {
    let payload = prost::Message::encode_to_vec(&Response::default());
    Message { connection: RUNTIME, stream, kind: RESPONSE, payload }
}

/// A call of the plugin by its name, whatever its payload is.
pub fn call_of(method: &str, stream: u32, payload: Vec<u8>) -> Message {
    let service = "nri.pkg.api.v1alpha1.Plugin".to_owned();
    let request = Request { service, method: method.to_owned(), payload };
    let payload = prost::Message::encode_to_vec(&request);
    Message { connection: PLUGIN, stream, kind: REQUEST, payload }
}

fn method_of(event: Event) -> &'static str {
    match event {
        Event::Unknown => "Unknown",
        Event::RunPodSandbox => "RunPodSandbox",
        Event::StopPodSandbox => "StopPodSandbox",
        Event::RemovePodSandbox => "RemovePodSandbox",
        Event::CreateContainer => "CreateContainer",
        Event::PostCreateContainer => "PostCreateContainer",
        Event::StartContainer => "StartContainer",
        Event::PostStartContainer => "PostStartContainer",
        Event::UpdateContainer => "UpdateContainer",
        Event::PostUpdateContainer => "PostUpdateContainer",
        Event::StopContainer => "StopContainer",
        Event::RemoveContainer => "RemoveContainer",
    }
}

fn unexpected(message: &Message) -> Error {
    let &Message { connection, stream, kind, .. } = message;
    Error::Unexpected { connection, stream, kind }
}

fn decode<M: prost::Message + Default>(payload: &[u8]) -> Result<M, Error> {
    M::decode(payload)
        .map_err(|error| Error::Message { what: "a message of the plugin".to_owned(), error })
}
