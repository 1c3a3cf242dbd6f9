//! A containerd that has pods and containers, but runs none of them, for tests of who asks it.

use crate::{
    events::{ContainerUpdate, TaskExit, TaskStart},
    runtime::v1::{
        self,
        runtime_service_server::{RuntimeService, RuntimeServiceServer},
    },
    services::events::{
        Envelope, SubscribeRequest,
        events_server::{Events, EventsServer},
    },
};
use parking_lot::Mutex;
use prost::Message;
use std::{collections::BTreeMap, fs, path::Path, pin::Pin, sync::Arc};
use tokio::{net::UnixListener, sync::broadcast, task::JoinHandle};
use tokio_stream::{
    Stream, StreamExt,
    wrappers::{BroadcastStream, UnixListenerStream},
};
use tonic::{Request, Response, Status, transport::Server};

/// A containerd. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Containerd(Arc<Mutex<World>>);

#[derive(Debug)]
struct World {
    pods: BTreeMap<String, v1::PodSandbox>,
    containers: BTreeMap<String, Container>,
    events: broadcast::Sender<Envelope>,
    server: Option<JoinHandle<()>>,
    subscriptions: usize,
    lists: usize,
    /// A container whose status cannot be read.
    damaged: String,
}

#[derive(Clone, Debug)]
struct Container {
    sandbox: String,
    cpus: String,
    pid: u32,
    state: v1::ContainerState,
}

impl Default for Containerd {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(World {
            pods: BTreeMap::new(),
            containers: BTreeMap::new(),
            events: broadcast::channel(1 << 12).0,
            server: None,
            subscriptions: 0,
            lists: 0,
            damaged: String::new(),
        })))
    }
}

impl Containerd {
    /// Listens there, in tasks of the runtime that calls this.
    ///
    /// # Panics
    /// The socket cannot be made.
    pub fn listen(&self, socket: &Path) {
        // One that was left there.
        fs::remove_file(socket).ok();
        let listener = UnixListener::bind(socket).expect("room for a socket");
        let server = Server::builder()
            .add_service(EventsServer::new(self.clone()))
            .add_service(RuntimeServiceServer::new(self.clone()))
            .serve_with_incoming(UnixListenerStream::new(listener));
        self.0.lock().server = Some(tokio::spawn(async move { server.await.expect("it serves") }));
    }

    /// Goes: the streams of events end, and no new client is let in. Containers stay.
    pub fn stop(&self) {
        let mut world = self.0.lock();
        world.events = broadcast::channel(1 << 12).0;
        world.server.take().iter().for_each(JoinHandle::abort);
    }

    /// Number of subscriptions to events so far.
    pub fn subscriptions(&self) -> usize {
        self.0.lock().subscriptions
    }

    /// Number of subscribers to events now.
    pub fn subscribers(&self) -> usize {
        self.0.lock().events.receiver_count()
    }

    /// Number of times that containers were listed.
    pub fn lists(&self) -> usize {
        self.0.lock().lists
    }

    /// Questions about this container fail; the empty id is none.
    pub fn damage(&self, id: &str) {
        id.clone_into(&mut self.0.lock().damaged);
    }

    /// Adds a pod, or replaces the one with its id.
    pub fn pod(&self, pod: v1::PodSandbox) {
        self.0.lock().pods.insert(pod.id.clone(), pod);
    }

    /// A container runs, and no event reports it.
    pub fn has(&self, id: &str, sandbox: &str, cpus: &str, pid: u32) {
        let (sandbox, cpus) = (sandbox.to_owned(), cpus.to_owned());
        let state = v1::ContainerState::ContainerRunning;
        self.0.lock().containers.insert(id.to_owned(), Container { sandbox, cpus, pid, state });
    }

    /// A container has started. The event comes before the CRI knows, as it may with containerd.
    pub fn start(&self, id: &str, sandbox: &str, cpus: &str, pid: u32) {
        self.has(id, sandbox, cpus, 0);
        if let Some(container) = self.0.lock().containers.get_mut(id) {
            container.state = v1::ContainerState::ContainerCreated;
        }
        self.tell("/tasks/start", &TaskStart { container_id: id.to_owned(), pid });
    }

    /// The CRI knows by now that a container has started.
    pub fn is_up(&self, id: &str, pid: u32) {
        if let Some(container) = self.0.lock().containers.get_mut(id) {
            (container.state, container.pid) = (v1::ContainerState::ContainerRunning, pid);
        }
    }

    /// A container has got other CPUs, and no event reports it.
    pub fn pin(&self, id: &str, cpus: &str) {
        if let Some(container) = self.0.lock().containers.get_mut(id) {
            cpus.clone_into(&mut container.cpus);
        }
    }

    /// A container has got other CPUs.
    pub fn update(&self, id: &str, cpus: &str) {
        self.pin(id, cpus);
        self.tell("/containers/update", &ContainerUpdate { id: id.to_owned() });
    }

    /// A container vanishes without an event.
    pub fn lose(&self, id: &str) {
        self.0.lock().containers.remove(id);
    }

    /// The first process of a container has ended. The CRI does not know yet, as it may be with containerd: the container is still
    /// there, and runs.
    pub fn end(&self, id: &str) {
        self.exit(id, id);
    }

    /// A process of a container has ended.
    pub fn exit(&self, container: &str, process: &str) {
        let exit = TaskExit { container_id: container.to_owned(), id: process.to_owned() };
        self.tell("/tasks/exit", &exit);
    }

    /// Sends an event to the subscribers.
    pub fn tell(&self, topic: &str, event: &impl Message) {
        self.say(topic, event.encode_to_vec());
    }

    /// Sends the subscribers a value that need not be an event.
    pub fn say(&self, topic: &str, value: Vec<u8>) {
        let event = Some(prost_types::Any { type_url: String::new(), value });
        let (namespace, topic) = ("k8s.io".to_owned(), topic.to_owned());
        // There may be no subscriber.
        self.0.lock().events.send(Envelope { namespace, topic, event }).ok();
    }
}

#[tonic::async_trait]
impl Events for Containerd {
    type SubscribeStream = Pin<Box<dyn Stream<Item = Result<Envelope, Status>> + Send>>;

    async fn subscribe(
        &self,
        _: Request<SubscribeRequest>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let mut world = self.0.lock();
        world.subscriptions += 1;
        let events = BroadcastStream::new(world.events.subscribe());
        let events = events.map(|event| event.map_err(|error| Status::internal(error.to_string())));
        Ok(Response::new(Box::pin(events)))
    }
}

/// Calls that change something are refused.
macro_rules! serve {
    ({ $($answered:tt)* } $($call:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl RuntimeService for Containerd {
            $($answered)*
            $(async fn $call(
                &self,
                _: Request<v1::$request>,
            ) -> Result<Response<v1::$response>, Status> {
                Err(Status::unimplemented(stringify!($call)))
            })*
        }
    };
}

serve! {
    {
        async fn version(
            &self,
            _: Request<v1::VersionRequest>,
        ) -> Result<Response<v1::VersionResponse>, Status> {
            let (runtime_name, runtime_version) = ("containerd".to_owned(), "1.6.20".to_owned());
            Ok(Response::new(v1::VersionResponse { runtime_name, runtime_version }))
        }

        async fn list_pod_sandbox(
            &self,
            request: Request<v1::ListPodSandboxRequest>,
        ) -> Result<Response<v1::ListPodSandboxResponse>, Status> {
            let id = request.into_inner().filter.unwrap_or_default().id;
            let world = self.0.lock();
            let pods = world.pods.values().filter(|pod| id.is_empty() || pod.id == id);
            Ok(Response::new(v1::ListPodSandboxResponse { items: pods.cloned().collect() }))
        }

        async fn list_containers(
            &self,
            request: Request<v1::ListContainersRequest>,
        ) -> Result<Response<v1::ListContainersResponse>, Status> {
            let state = request.into_inner().filter.and_then(|filter| filter.state);
            let mut world = self.0.lock();
            world.lists += 1;
            let all = world.containers.iter().filter(|(_, one)| {
                state.as_ref().is_none_or(|wanted| wanted.state() == one.state)
            });
            let listed = all.map(|(id, one)| v1::Container {
                id: id.clone(),
                pod_sandbox_id: one.sandbox.clone(),
                state: one.state.into(),
                ..v1::Container::default()
            });
            Ok(Response::new(v1::ListContainersResponse { containers: listed.collect() }))
        }

        async fn container_status(
            &self,
            request: Request<v1::ContainerStatusRequest>,
        ) -> Result<Response<v1::ContainerStatusResponse>, Status> {
            let id = request.into_inner().container_id;
            let world = self.0.lock();
            if world.damaged == id {
                return Err(Status::unknown("failed to get container spec"));
            }
            let Some(one) = world.containers.get(&id) else {
                return Err(Status::not_found("the container does not exist"));
            };
            let cgroup = format!("kubepods-pod1.slice:cri-containerd:{id}");
            let resources = serde_json::json!({"cpu": {"cpus": one.cpus}});
            let linux = serde_json::json!({"cgroupsPath": cgroup, "resources": resources});
            let spec = serde_json::json!({"linux": linux});
            let info = serde_json::json!({
                "sandboxID": one.sandbox, "pid": one.pid, "runtimeSpec": spec
            });
            let metadata = v1::ContainerMetadata { name: "server".to_owned(), attempt: 0 };
            let status = v1::ContainerStatus {
                id,
                metadata: Some(metadata),
                state: one.state.into(),
                exit_code: 0,
            };
            let info = [("info".to_owned(), info.to_string())].into();
            Ok(Response::new(v1::ContainerStatusResponse { status: Some(status), info }))
        }
    }
    run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse;
    stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse;
    remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse;
    create_container(CreateContainerRequest) -> CreateContainerResponse;
    start_container(StartContainerRequest) -> StartContainerResponse;
    stop_container(StopContainerRequest) -> StopContainerResponse;
    remove_container(RemoveContainerRequest) -> RemoveContainerResponse;
    update_container_resources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse;
}
