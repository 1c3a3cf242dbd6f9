//! What the runtime calls. Nothing here waits for anybody: facts go into the inbox, and the answer back to the runtime.

use crate::{
    align::MachineNodes,
    config::AlignMems,
    facts::{Facts, Pods, pod},
    inbox::Inbox,
    queue::ContainerChange,
};
use nri::{
    Events, Notice, Plugin,
    v1alpha1::{
        ConfigureRequest, Container, ContainerAdjustment, ContainerState, Event,
        LinuxContainerAdjustment, LinuxCpu, LinuxResources, PodSandbox,
    },
};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::watch;

/// The plugin's side of a connection.
#[derive(Debug)]
pub struct Handlers {
    inbox: Arc<Inbox>,
    align: AlignMems,
    nodes: MachineNodes,
    pods: Pods,
    /// Whether the runtime has told all containers, and is connected still.
    is_told: watch::Sender<bool>,
}

impl Handlers {
    /// Handlers that fill this inbox.
    pub fn new(inbox: Arc<Inbox>, align: AlignMems, nodes: MachineNodes) -> Self {
        let pods = Pods::default();
        Self { inbox, align, nodes, pods, is_told: watch::Sender::new(false) }
    }

    /// Whether the runtime tells of containers, from now on.
    pub fn is_told(&self) -> watch::Receiver<bool> {
        self.is_told.subscribe()
    }

    /// Notes that the connection to the runtime has ended.
    pub fn ended(&self) {
        self.is_told.send_replace(false);
    }
}

impl Plugin for Handlers {
    /// As few events as possible: a runtime waits for each answer, and calls its plugins one after the other.
    fn configure(&mut self, request: ConfigureRequest) -> Result<Events, String> {
        let ConfigureRequest { runtime_name, runtime_version, request_timeout, .. } = request;
        tracing::info!(runtime = %runtime_name, version = %runtime_version, timeout_ms = request_timeout, "registered");
        let aligning = [Event::CreateContainer, Event::UpdateContainer];
        let aligning = aligning.into_iter().filter(|_| self.align != AlignMems::Off);
        // PostUpdateContainer and not UpdateContainer: only then the cgroup has the new CPUs, and the container the new values.
        let always = [Event::PostStartContainer, Event::PostUpdateContainer];
        let ends = [Event::StopContainer, Event::RemoveContainer];
        Ok(always.into_iter().chain(ends).chain(aligning).collect())
    }

    /// Containers that do not run yet are told when they start.
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

    fn create(&mut self, _pod: PodSandbox, container: Container) -> Option<ContainerAdjustment> {
        if self.align == AlignMems::Off {
            return None;
        }
        let cpu = container.linux?.resources?.cpu?;
        // What somebody has set stays.
        let mems = self.nodes.mems(&cpu.cpus).filter(|_| cpu.mems.is_empty())?;
        tracing::info!(container = %container.id, cpus = %cpu.cpus, %mems, "bound to the memory of its nodes");
        let resources = Some(only_mems(mems));
        Some(ContainerAdjustment { linux: Some(LinuxContainerAdjustment { resources }) })
    }

    /// The kubelet and others change the CPUs of containers that run. A container that stayed bound to the nodes of its first CPUs
    /// could never have its memory brought home. It is bound to no nodes then: bound to its new ones, the kernel would move all of its
    /// memory at once (`cpuset.mems` in Documentation/admin-guide/cgroup-v2.rst), as fast as it can.
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
        // What another program has set stays.
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
