//! containerd's pods and containers, from its CRI.

use crate::{
    facts::{Facts, Pods, ToldBy},
    seen::ContainerList,
};
use containerd::{
    ANSWER_MAX, Info,
    runtime::v1::{self, ContainerState, runtime_service_client::RuntimeServiceClient},
};
use numaloc_node::within;
use numaloc_policy::{Pod, Resources};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tonic::{Code, Status, transport::Channel};

/// Longest wait for an answer. The CRI answers about a container only while it is not being changed.
const ANSWER: Duration = Duration::from_secs(10);
/// Longest wait for a list, which has to wait for each container.
const LIST: Duration = Duration::from_secs(60);

/// The state of one container in the CRI.
enum CriState {
    /// It runs, or is about to.
    Runs(Box<(v1::ContainerStatus, Info)>),
    /// It is none, or has ended.
    Gone,
    /// Nothing can be found out about it.
    Unclear,
}

/// A client of containerd's CRI: the containers of the host and their pods.
#[derive(Debug)]
pub struct Containers {
    client: RuntimeServiceClient<Channel>,
    shared: Pods,
    /// Logged problems of containers for which containerd does not answer, so that each is logged once.
    said: BTreeMap<String, String>,
}

impl Containers {
    pub fn new(channel: Channel) -> Self {
        let client = RuntimeServiceClient::new(channel).max_decoding_message_size(ANSWER_MAX);
        Self { client, shared: Pods::default(), said: BTreeMap::new() }
    }

    /// All containers that run.
    ///
    /// # Errors
    /// containerd is lost, or has no CRI.
    pub async fn look(&mut self) -> Result<ContainerList, Status> {
        let pods = self.pods("").await?;
        let state = ContainerState::ContainerRunning.into();
        let state = Some(v1::ContainerStateValue { state });
        let request = v1::ListContainersRequest { filter: Some(v1::ContainerFilter { state }) };
        let listed = within(LIST, self.client.list_containers(request)).await?.containers;
        let ids: BTreeSet<_> = listed.iter().map(|container| container.id.as_str()).collect();
        self.said.retain(|id, _| ids.contains(id.as_str()));
        let mut look = ContainerList::default();
        for v1::Container { id, pod_sandbox_id, .. } in listed {
            // A pod that was made after the list of pods.
            let Some(pod) = pods.get(&pod_sandbox_id) else {
                look.unclear.insert(id);
                continue;
            };
            match self.asked(&id).await? {
                CriState::Runs(told) => {
                    let (status, info) = *told;
                    let facts = facts(&mut self.shared, pod.clone(), status, info);
                    look.found.insert(id, facts);
                }
                // Meanwhile.
                CriState::Gone => {}
                CriState::Unclear => {
                    look.unclear.insert(id);
                }
            }
        }
        Ok(look)
    }

    /// A container that runs, or that is about to: the CRI learns that a container has started a moment after it has.
    /// `pod` is its pod, if it is known. `None`: it is not a container of a pod, has ended, or nothing can be found
    /// out.
    ///
    /// # Errors
    /// containerd is lost.
    pub async fn container(&mut self, id: &str, pod: Option<Pod>) -> Result<Option<Facts>, Status> {
        let CriState::Runs(told) = self.asked(id).await? else { return Ok(None) };
        let pod = match pod {
            Some(pod) => Some(pod),
            None => self.pods(&told.1.sandbox_id).await?.remove(&told.1.sandbox_id),
        };
        let (status, info) = *told;
        Ok(pod.map(|pod| facts(&mut self.shared, pod, status, info)))
    }

    /// The pods, by the ids of their sandboxes; only this one, unless the id is empty.
    async fn pods(&mut self, id: &str) -> Result<BTreeMap<String, Pod>, Status> {
        let filter = (!id.is_empty()).then(|| v1::PodSandboxFilter { id: id.to_owned() });
        let request = v1::ListPodSandboxRequest { filter };
        let answer = within(LIST, self.client.list_pod_sandbox(request)).await?;
        Ok(answer.items.into_iter().map(|sandbox| (sandbox.id.clone(), pod(sandbox))).collect())
    }

    async fn asked(&mut self, id: &str) -> Result<CriState, Status> {
        let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: true };
        let why = match within(ANSWER, self.client.container_status(request)).await {
            Ok(answer) => match Info::read(&answer) {
                Ok(info) => {
                    self.said.remove(id);
                    let status = answer.status.unwrap_or_default();
                    let runs = matches!(
                        status.state(),
                        ContainerState::ContainerRunning | ContainerState::ContainerCreated
                    );
                    return Ok(if runs {
                        CriState::Runs(Box::new((status, info)))
                    } else {
                        CriState::Gone
                    });
                }
                Err(error) => format!("the runtime specification cannot be read: {error}"),
            },
            Err(status) => match status.code() {
                Code::NotFound => return Ok(CriState::Gone),
                Code::Unavailable | Code::Cancelled | Code::Unimplemented => return Err(status),
                // One container may be stuck or damaged; this is not a reason to give up all others.
                code => format!("{} ({code:?})", status.message()),
            },
        };
        if self.said.get(id) != Some(&why) {
            tracing::warn!(container = %id, "containerd does not answer about it: {why}. It is asked again");
            self.said.insert(id.to_owned(), why);
        }
        Ok(CriState::Unclear)
    }
}

fn pod(sandbox: v1::PodSandbox) -> Pod {
    let v1::PodSandbox { metadata, labels, annotations, .. } = sandbox;
    let v1::PodSandboxMetadata { name, uid, namespace, .. } = metadata.unwrap_or_default();
    // Its cgroup is reported with its containers.
    let cgroup_parent = String::new();
    Pod { namespace, name, uid, labels, annotations, cgroup_parent, ..Pod::default() }.bounded()
}

fn facts(shared: &mut Pods, mut pod: Pod, status: v1::ContainerStatus, info: Info) -> Facts {
    let spec = info.runtime_spec.unwrap_or_default();
    let linux = spec.linux.unwrap_or_default();
    let all = linux.resources.unwrap_or_default();
    let cpu = all.cpu.unwrap_or_default();
    parent(&linux.cgroups_path).clone_into(&mut pod.cgroup_parent);
    let resources = Resources {
        cpu_shares: cpu.shares,
        cpu_quota_us: cpu.quota,
        cpu_period_us: cpu.period,
        memory_limit_bytes: all.memory.and_then(|memory| memory.limit),
        oom_score_adj: spec.process.and_then(|process| process.oom_score_adj),
    };
    Facts {
        id: status.id,
        name: status.metadata.unwrap_or_default().name,
        pid: info.pid,
        pod: shared.share(info.sandbox_id, pod),
        resources,
        cpus: cpu.cpus,
        mems: cpu.mems,
        cgroup: crate::cgroup::path(&linux.cgroups_path),
        told_by: ToldBy::Containerd,
    }
}

/// The cgroup of the pod, from that of a container in it (`getCgroupsPath` in pkg/cri/server/helpers_linux.go).
fn parent(cgroups_path: &str) -> &str {
    match cgroups_path.split_once(':') {
        Some((slice, _)) => slice,
        None => cgroups_path.rsplit_once('/').map_or("", |(parent, _)| parent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_a_pod_follows_from_its_containers() {
        for (path, expected) in [
            ("/kubepods/burstable/podu1/c1", "/kubepods/burstable/podu1"),
            ("kubepods-burstable-podu1.slice:cri-containerd:c1", "kubepods-burstable-podu1.slice"),
            ("c1", ""),
            ("", ""),
        ] {
            assert_eq!(parent(path), expected, "{path}");
        }
    }
}
