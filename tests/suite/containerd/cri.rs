//! Pods and containers as the kubelet makes them: a client of the Container Runtime Interface.

use crate::app::until;
use serde_json::Value;
use std::{collections::BTreeMap, path::Path, time::Duration};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

/// Longest time of a call of containerd. Hundreds of containers that are removed at once wait for each other for
/// minutes.
const PATIENCE: Duration = Duration::from_secs(600);

pub use ::containerd::runtime::v1;
use v1::{image_service_client::ImageServiceClient, runtime_service_client::RuntimeServiceClient};

/// A pod as the tests ask for it.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub name: String,
    pub annotations: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    /// The cgroup that its containers' cgroups are made in. Empty: one that is named as the kubelet's driver `cgroupfs` names it.
    pub cgroup_parent: String,
}

impl Pod {
    /// In the namespace `default`, with a uid and a cgroup that follow from its name.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// With an annotation, which a user would have written into the pod's manifest.
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    pub fn labelled(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Its containers' cgroups are made below this slice, by the driver `systemd`.
    pub fn below(mut self, slice: &str) -> Self {
        slice.clone_into(&mut self.cgroup_parent);
        self
    }

    /// Uid that the kubelet gives a pod.
    pub fn uid(&self) -> String {
        format!("uid-{}", self.name)
    }

    fn config(&self) -> v1::PodSandboxConfig {
        let (name, namespace) = (self.name.clone(), "default".to_owned());
        let metadata = v1::PodSandboxMetadata { name, uid: self.uid(), namespace, attempt: 0 };
        let context = v1::LinuxSandboxSecurityContext { namespace_options: Some(namespaces()) };
        let cgroup_parent = if self.cgroup_parent.is_empty() {
            format!("/kubepods/burstable/pod{}", self.uid())
        } else {
            self.cgroup_parent.clone()
        };
        v1::PodSandboxConfig {
            metadata: Some(metadata),
            // Without it containerd copies the machine's resolv.conf, and the emulated machine has none.
            dns_config: Some(v1::DnsConfig { servers: vec!["127.0.0.1".to_owned()] }),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            linux: Some(v1::LinuxPodSandboxConfig {
                cgroup_parent,
                security_context: Some(context),
            }),
            ..v1::PodSandboxConfig::default()
        }
    }
}

/// The host's network needs no network plugin, of which this machine has none.
fn namespaces() -> v1::NamespaceOption {
    let mut option = v1::NamespaceOption::default();
    option.set_network(v1::NamespaceMode::Node);
    option
}

/// A container as the tests ask for it.
#[derive(Clone, Debug)]
pub struct Container {
    pub name: String,
    pub image: &'static str,
    pub command: Vec<String>,
    /// CPUs that it is pinned to, in the kernel's list format; not pinned if empty.
    pub cpus: String,
    /// Nodes that its memory may be on; all if empty.
    pub mems: String,
}

impl Container {
    /// A container that sleeps.
    pub fn new(name: &str) -> Self {
        let command = ["sleep", "1000000"].map(str::to_owned).to_vec();
        let (cpus, mems) = (String::new(), String::new());
        Self { name: name.to_owned(), image: "numaloc.test/busybox:1", command, cpus, mems }
    }

    /// A Redis server on a port of the host. It saves nothing.
    pub fn redis(name: &str, port: u16) -> Self {
        let port = port.to_string();
        let command = [
            "redis-server",
            "--port",
            &port,
            "--save",
            "",
            // To fill it and to compare what it holds.
            "--enable-debug-command",
            "yes",
        ];
        let command = command.map(str::to_owned).to_vec();
        Self { image: "numaloc.test/redis:1", command, ..Self::new(name) }
    }

    pub fn on_cpus(mut self, cpus: &str) -> Self {
        cpus.clone_into(&mut self.cpus);
        self
    }

    fn config(&self) -> v1::ContainerConfig {
        let (name, image) = (self.name.clone(), self.image.to_owned());
        let context = v1::LinuxContainerSecurityContext { namespace_options: Some(namespaces()) };
        v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: name.clone(), attempt: 0 }),
            image: Some(v1::ImageSpec { image }),
            command: self.command.clone(),
            // As the kubelet sets it, and containerd hands it on to plugins.
            labels: BTreeMap::from([("io.kubernetes.container.name".to_owned(), name)]),
            linux: Some(v1::LinuxContainerConfig {
                resources: Some(resources(&self.cpus, &self.mems)),
                security_context: Some(context),
            }),
            ..v1::ContainerConfig::default()
        }
    }
}

fn resources(cpus: &str, mems: &str) -> v1::LinuxContainerResources {
    let (cpuset_cpus, cpuset_mems) = (cpus.to_owned(), mems.to_owned());
    v1::LinuxContainerResources { cpuset_cpus, cpuset_mems, ..Default::default() }
}

/// A running sandbox.
#[derive(Clone, Debug)]
pub struct Sandbox {
    pub id: String,
    pub pod: Pod,
}

/// A connection to containerd. Clones share it.
#[derive(Clone, Debug)]
pub struct Cri {
    channel: Channel,
}

impl Cri {
    /// Connects at the first call, and again after containerd was restarted. Must be called within a tokio runtime.
    pub fn new(socket: &Path) -> Self {
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()));
        let endpoint = endpoint.expect("an endpoint").timeout(PATIENCE);
        Self { channel: endpoint.connect_lazy() }
    }

    fn client(&self) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(self.channel.clone())
    }

    /// The runtime's name and version.
    pub async fn version(&self) -> Result<v1::VersionResponse, Status> {
        Ok(self.client().version(v1::VersionRequest {}).await?.into_inner())
    }

    /// Whether an image is there. Containerd's CRI learns a moment later what `ctr` has imported.
    pub async fn has_image(&self, image: &str) -> Result<bool, Status> {
        let request = v1::ImageStatusRequest { image: Some(v1::ImageSpec { image: image.into() }) };
        let answer = ImageServiceClient::new(self.channel.clone()).image_status(request).await?;
        Ok(answer.into_inner().image.is_some())
    }

    pub async fn run(&self, pod: &Pod) -> Result<Sandbox, Status> {
        let request = v1::RunPodSandboxRequest { config: Some(pod.config()) };
        let id = self.client().run_pod_sandbox(request).await?.into_inner().pod_sandbox_id;
        Ok(Sandbox { id, pod: pod.clone() })
    }

    /// Ends a sandbox with its containers.
    pub async fn remove_pod(&self, id: &str) -> Result<(), Status> {
        let stop = v1::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.client().stop_pod_sandbox(stop).await?;
        let remove = v1::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.client().remove_pod_sandbox(remove).await?;
        Ok(())
    }

    /// The ids of all sandboxes.
    pub async fn pods(&self) -> Result<Vec<String>, Status> {
        let answer = self.client().list_pod_sandbox(v1::ListPodSandboxRequest::default()).await?;
        Ok(answer.into_inner().items.into_iter().map(|pod| pod.id).collect())
    }

    /// Makes a container that does not run yet. Returns its id.
    pub async fn create(&self, sandbox: &Sandbox, container: &Container) -> Result<String, Status> {
        let request = v1::CreateContainerRequest {
            pod_sandbox_id: sandbox.id.clone(),
            config: Some(container.config()),
            sandbox_config: Some(sandbox.pod.config()),
        };
        Ok(self.client().create_container(request).await?.into_inner().container_id)
    }

    pub async fn start(&self, id: &str) -> Result<(), Status> {
        let request = v1::StartContainerRequest { container_id: id.to_owned() };
        self.client().start_container(request).await.map(|_| ())
    }

    pub async fn stop(&self, id: &str) -> Result<(), Status> {
        let request = v1::StopContainerRequest { container_id: id.to_owned(), timeout: 0 };
        self.client().stop_container(request).await.map(|_| ())
    }

    /// Removes a container, which may be running.
    pub async fn remove(&self, id: &str) -> Result<(), Status> {
        let request = v1::RemoveContainerRequest { container_id: id.to_owned() };
        self.client().remove_container(request).await.map(|_| ())
    }

    /// The ids and states of all containers.
    pub async fn containers(&self) -> Result<Vec<(String, v1::ContainerState)>, Status> {
        let answer = self.client().list_containers(v1::ListContainersRequest::default()).await?;
        let containers = answer.into_inner().containers;
        Ok(containers.into_iter().map(|one| (one.id.clone(), one.state())).collect())
    }

    /// Pins a running container to other CPUs, as the kubelet's CPU manager does.
    pub async fn pin(&self, id: &str, cpus: &str) -> Result<(), Status> {
        let linux = Some(resources(cpus, ""));
        let container_id = id.to_owned();
        let request = v1::UpdateContainerResourcesRequest { container_id, linux };
        self.client().update_container_resources(request).await.map(|_| ())
    }

    /// The state of a container, and the pid of its first process; 0 if it does not run.
    pub async fn status(&self, id: &str) -> Result<(v1::ContainerState, i32), Status> {
        let (state, info) = self.status_and_info(id).await?;
        let pid = info["pid"].as_i64().unwrap_or(0);
        Ok((state, i32::try_from(pid).expect("a pid")))
    }

    /// The names of the pod that a container is in, and of the container in it.
    pub async fn names_of(&self, id: &str) -> Result<[String; 2], Status> {
        let (_, info) = self.status_and_info(id).await?;
        let annotations = &info["runtimeSpec"]["annotations"];
        Ok(["sandbox-name", "container-name"].map(|key| {
            let name = &annotations[format!("io.kubernetes.cri.{key}")];
            name.as_str().unwrap_or_default().to_owned()
        }))
    }

    async fn status_and_info(&self, id: &str) -> Result<(v1::ContainerState, Value), Status> {
        let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: true };
        let answer = self.client().container_status(request).await?.into_inner();
        let state = answer.status.map_or(v1::ContainerState::ContainerUnknown, |s| s.state());
        let info = answer.info.get("info").map_or("null", String::as_str);
        Ok((state, serde_json::from_str(info).expect("containerd writes JSON")))
    }
}

/// Waits until a process may use these CPUs and no others (`Cpus_allowed_list`).
pub fn until_pinned(pid: i32, cpus: &str) {
    let path = format!("/proc/{pid}/status");
    until(&format!("process {pid} is pinned to {cpus}"), || {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        text.lines().any(|line| {
            line.strip_prefix("Cpus_allowed_list:").is_some_and(|list| list.trim() == cpus)
        })
    });
}
