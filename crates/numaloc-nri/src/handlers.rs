//! Handlers of the runtime's calls. They never block: facts go into the inbox, and the answer back to the runtime.

use crate::{
    align::MachineNodes,
    cgroup,
    config::{AlignMems, Config},
    creation::{Cpuset, Creation},
    facts::{Facts, Pods, pod},
    inbox::Inbox,
    queue::ContainerChange,
};
use containerd::{WITH_MEMORY_POLICIES, version};
use nri::{
    Events, Notice, Plugin,
    v1alpha1::{
        ConfigureRequest, Container, ContainerAdjustment, ContainerState, Event,
        LinuxContainerAdjustment, LinuxCpu, LinuxMemoryPolicy, LinuxResources, PodSandbox,
    },
};
use numaloc_policy::MemoryPolicy;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::watch;

/// The plugin's side of a connection.
#[derive(Debug)]
pub struct Handlers {
    inbox: Arc<Inbox>,
    align: AlignMems,
    nodes: MachineNodes,
    creation: Creation,
    pods: Pods,
    /// Whether the runtime has listed all containers, and is still connected.
    is_told: watch::Sender<bool>,
}

impl Handlers {
    /// Handlers that fill this inbox.
    pub fn new(inbox: Arc<Inbox>, config: &Config, nodes: MachineNodes) -> Self {
        let align = config.align_mems;
        let creation = Creation::new(config.memory_policies.clone(), nodes.clone());
        let (pods, is_told) = (Pods::default(), watch::Sender::new(false));
        Self { inbox, align, nodes, creation, pods, is_told }
    }

    /// Whether the runtime reports containers, from now on.
    pub fn is_told(&self) -> watch::Receiver<bool> {
        self.is_told.subscribe()
    }

    /// Notes that the connection to the runtime has ended.
    pub fn ended(&self) {
        self.is_told.send_replace(false);
    }

    /// `cpuset.mems` for a container that is created. A value that is already set stays.
    fn aligned(&self, id: &str, cpu: &LinuxCpu) -> Option<String> {
        if self.align == AlignMems::Off || !cpu.mems.is_empty() {
            return None;
        }
        let mems = self.nodes.mems(&cpu.cpus)?;
        tracing::info!(container = %id, cpus = %cpu.cpus, %mems, "bound to the memory of its nodes");
        Some(mems)
    }

    /// The memory policy that a container is created with.
    fn memory_policy(
        &self,
        sandbox: PodSandbox,
        container: &Container,
        cpuset: Cpuset<'_>,
    ) -> Option<LinuxMemoryPolicy> {
        if !self.creation.is_on() {
            return None;
        }
        let id = &container.id;
        let asked = match MemoryPolicy::asked(&pod(sandbox), &container.name) {
            // A policy that is not allowed is reported with the workload.
            Ok(asked) => asked.filter(|asked| self.creation.allows(*asked))?,
            Err(bad) => {
                tracing::warn!(container = %id, "{bad}");
                return None;
            }
        };
        let linux = container.linux.as_ref();
        let cgroup = linux.and_then(|linux| cgroup::path(&linux.cgroups_path));
        match self.creation.policy(asked, cpuset, cgroup.as_deref()) {
            Ok(policy) => {
                let (mode, nodes) = (policy.mode().as_str_name(), &policy.nodes);
                tracing::info!(container = %id, mode, %nodes, "created with a memory policy");
                Some(policy)
            }
            Err(why) => {
                let asked = asked.name();
                tracing::warn!(container = %id, asked, "created without a memory policy: {why}");
                None
            }
        }
    }
}

impl Plugin for Handlers {
    /// As few events as possible: a runtime waits for each answer, and calls its plugins one after the other.
    fn configure(&mut self, request: ConfigureRequest) -> Result<Events, String> {
        let ConfigureRequest { runtime_name, runtime_version, request_timeout, .. } = request;
        tracing::info!(runtime = %runtime_name, version = %runtime_version, timeout_ms = request_timeout, "registered");
        let is_old = runtime_name == "containerd"
            && version(&runtime_version).is_some_and(|version| version < WITH_MEMORY_POLICIES);
        if is_old && self.creation.is_on() {
            tracing::warn!(
                "containerd {runtime_version} does not support memory policies of new containers: they are created without. \
                 Versions 2.4 and later do, with runc 1.4 or crun 1.28"
            );
        }
        let is_aligning = self.align != AlignMems::Off;
        let creating = (is_aligning || self.creation.is_on()).then_some(Event::CreateContainer);
        let updating = is_aligning.then_some(Event::UpdateContainer);
        // PostUpdateContainer and not UpdateContainer: only then the cgroup has the new CPUs, and the container the new
        // values.
        let always = [Event::PostStartContainer, Event::PostUpdateContainer];
        let ends = [Event::StopContainer, Event::RemoveContainer];
        Ok(always.into_iter().chain(ends).chain(creating).chain(updating).collect())
    }

    /// Containers that do not run yet are reported when they start.
    fn synchronize(&mut self, pods: Vec<PodSandbox>, containers: Vec<Container>) {
        let shared = pods.into_iter().map(|sandbox| {
            let id = sandbox.id.clone();
            (id.clone(), self.pods.share(id, pod(sandbox)))
        });
        let pods: BTreeMap<_, _> = shared.collect();
        let runs = |container: &Container| {
            matches!(
                container.state(),
                ContainerState::ContainerRunning | ContainerState::ContainerPaused
            )
        };
        let all = containers.into_iter().filter(runs).map(|container| {
            let pod = pods.get(&container.pod_sandbox_id).cloned().unwrap_or_default();
            (container.id.clone(), Facts::new(pod, container))
        });
        let all: BTreeMap<_, _> = all.collect();
        tracing::info!(containers = all.len(), "synchronized");
        self.inbox.synchronize(all);
        self.is_told.send_replace(true);
    }

    fn notice(&mut self, notice: Notice) {
        let Notice { event, pod: told, container } = notice;
        let Some(container) = container.filter(|container| !container.id.is_empty()) else {
            return;
        };
        let id = container.id.clone();
        let facts = |container| {
            let sandbox = told.unwrap_or_default();
            let shared = self.pods.share(sandbox.id.clone(), pod(sandbox));
            Box::new(Facts::new(shared, container))
        };
        let change = match event {
            Event::PostStartContainer => ContainerChange::Started(facts(container)),
            Event::PostUpdateContainer => ContainerChange::Updated(facts(container)),
            Event::StopContainer | Event::RemoveContainer => ContainerChange::Gone,
            _ => return,
        };
        tracing::debug!(?event, container = %id, "told");
        self.inbox.push(id, change);
    }

    fn create(&mut self, pod: PodSandbox, container: Container) -> Option<ContainerAdjustment> {
        let resources = container.linux.as_ref().and_then(|linux| linux.resources.as_ref());
        let cpu = resources.and_then(|resources| resources.cpu.clone()).unwrap_or_default();
        let aligned = self.aligned(&container.id, &cpu);
        let mems = aligned.as_deref().unwrap_or(&cpu.mems);
        let cpuset = Cpuset { cpus: &cpu.cpus, mems };
        let memory_policy = self.memory_policy(pod, &container, cpuset);
        let linux = LinuxContainerAdjustment { resources: aligned.map(only_mems), memory_policy };
        let is_adjusted = linux != LinuxContainerAdjustment::default();
        is_adjusted.then_some(ContainerAdjustment { linux: Some(linux) })
    }

    /// The kubelet and others change the CPUs of containers that run. A container that stayed bound to the nodes of its
    /// first CPUs could never have its memory brought home. It is bound to no nodes then: bound to its new ones, the
    /// kernel would move all of its memory at once (`cpuset.mems` in Documentation/admin-guide/cgroup-v2.rst), as fast
    /// as it can.
    fn update(
        &mut self,
        _pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Option<LinuxResources> {
        if self.align == AlignMems::Off {
            return None;
        }
        let asked = resources.cpu.filter(|cpu| !cpu.cpus.is_empty() && cpu.mems.is_empty())?;
        let now = container.linux?.resources?.cpu?;
        // A value set by another program stays.
        let own = self.nodes.mems(&now.cpus).filter(|own| *own == now.mems)?;
        if self.nodes.mems(&asked.cpus).as_ref() == Some(&own) {
            return None;
        }
        let mems = self.nodes.all();
        tracing::info!(container = %container.id, cpus = %asked.cpus, %mems, "no longer bound to the memory of its nodes");
        Some(only_mems(mems))
    }
}

/// Resources that change nothing but `cpuset.mems`.
fn only_mems(mems: String) -> LinuxResources {
    let cpu = Some(LinuxCpu { mems, ..LinuxCpu::default() });
    LinuxResources { cpu, ..LinuxResources::default() }
}
