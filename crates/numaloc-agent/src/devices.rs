//! The NUMA nodes of the devices that the kubelet has given to containers, for policies whose home they are. A device of
//! a container never changes while it runs: the kubelet is asked when such a container has started, and not otherwise.

use crate::facts::{Container, Facts};
use podresources::DeviceNodes;
use std::{collections::BTreeSet, path::Path, time::Duration};
use tokio::time::Instant;
use tonic::Status;

/// Shortest time between two questions.
const GAP: Duration = Duration::from_secs(10);
/// The same after a failure. Until then the home of these containers goes by the devices that they open.
const GAP_FAILED: Duration = Duration::from_secs(60);

/// The devices of containers, as the kubelet last listed them.
#[derive(Debug, Default)]
pub struct Devices {
    nodes: DeviceNodes,
    /// Ids of the containers that were there when the kubelet was last asked.
    asked_for: BTreeSet<String>,
    /// When it may be asked again, and what has failed.
    again: Option<Instant>,
    failed: Option<String>,
}

/// The result of a lookup for a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// The nodes of its devices; none: the kubelet has given it none that is on a node.
    Nodes(&'a [i32]),
    /// The kubelet is yet to be asked.
    NotYet,
    /// The kubelet does not answer, and will be asked again.
    Unavailable,
}

impl Devices {
    /// The nodes of a container's devices.
    pub fn of(&self, facts: &Facts, container: &Container) -> Found<'_> {
        let pod = &facts.pod;
        let key = [&pod.namespace, &pod.name, &container.name].map(String::clone);
        let nodes = self.nodes.get(&key).map_or(&[][..], Vec::as_slice);
        // Between two runs a container has what it had.
        if container.id.as_ref().is_none_or(|id| self.asked_for.contains(id)) {
            return Found::Nodes(nodes);
        }
        if self.failed.is_some() { Found::Unavailable } else { Found::NotYet }
    }

    /// When the kubelet may be asked.
    pub fn again(&self) -> Instant {
        self.again.unwrap_or_else(Instant::now)
    }

    /// Takes an answer of the kubelet, given after these containers had started. Only nodes `with_memory` count.
    pub fn take(
        &mut self,
        answer: Result<DeviceNodes, Status>,
        asked_for: BTreeSet<String>,
        with_memory: &BTreeSet<i32>,
        socket: &Path,
    ) {
        let mut nodes = match answer {
            Ok(nodes) => nodes,
            Err(status) => {
                return self.fail(&format!(
                    "the kubelet at {}: {}",
                    socket.display(),
                    status.message()
                ));
            }
        };
        nodes.values_mut().for_each(|of| of.retain(|node| with_memory.contains(node)));
        *self = Self { nodes, asked_for, again: Some(Instant::now() + GAP), failed: None };
    }

    /// The devices stay unknown for a while. The reason is logged once.
    pub fn fail(&mut self, why: &str) {
        if self.failed.as_deref() != Some(why) {
            tracing::warn!(
                "{why}: the home of containers whose policies go by devices is that of the devices that they have open. It is tried again each \
                 {GAP_FAILED:?} (pod_resources in the configuration)"
            );
        }
        self.failed = Some(why.to_owned());
        self.again = Some(Instant::now() + GAP_FAILED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(id: Option<&str>) -> Facts {
        let mut facts = Facts::default();
        (facts.pod.namespace, facts.pod.name) = ("shop".to_owned(), "web-1".to_owned());
        let (name, id) = ("web".to_owned(), id.map(str::to_owned));
        facts.containers = vec![Container { name, id, ..Container::default() }];
        facts
    }

    fn found<'a>(devices: &'a Devices, facts: &Facts) -> Found<'a> {
        devices.of(facts, &facts.containers[0])
    }

    #[test]
    fn a_container_is_asked_for_once() {
        let mut devices = Devices::default();
        let (first, second) = (facts(Some("a")), facts(Some("b")));
        assert_eq!(found(&devices, &first), Found::NotYet);
        let answer = || Ok([(["shop", "web-1", "web"].map(str::to_owned), vec![0, 1, 2])].into());
        let asked_for = |id: &str| BTreeSet::from([id.to_owned()]);
        let memory = BTreeSet::from([1, 2]);
        devices.take(answer(), asked_for("a"), &memory, Path::new("/s"));
        assert_eq!(found(&devices, &first), Found::Nodes(&[1, 2]), "node 0 has no memory");
        assert_eq!(found(&devices, &facts(None)), Found::Nodes(&[1, 2]), "between two runs");
        // Another container of this name may be one of another pod.
        assert_eq!(found(&devices, &second), Found::NotYet);
        devices.take(Err(Status::unavailable("gone")), asked_for("b"), &memory, Path::new("/s"));
        assert_eq!(found(&devices, &second), Found::Unavailable);
        assert_eq!(found(&devices, &first), Found::Nodes(&[1, 2]), "it has not changed");
        devices.take(Ok(DeviceNodes::new()), asked_for("b"), &memory, Path::new("/s"));
        assert_eq!(found(&devices, &second), Found::Nodes(&[]));
    }
}
