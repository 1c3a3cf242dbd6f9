//! The events of containerd that say that a container of the CRI has started, changed or ended.

use crate::{
    events::{ContainerDelete, ContainerUpdate, TaskExit, TaskStart},
    services::events::{Envelope, SubscribeRequest},
};
use prost::{DecodeError, Message};

/// The namespace of the CRI's containers (`K8sContainerdNamespace` in pkg/cri/constants).
const NAMESPACE: &str = "k8s.io";
const START: &str = "/tasks/start";
const EXIT: &str = "/tasks/exit";
const UPDATE: &str = "/containers/update";
const DELETE: &str = "/containers/delete";

/// An event. Containers are named by their ids. The sandbox of a pod is a container to containerd's events, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first process of a container runs. The CRI may not know that yet.
    Started {
        /// Its id, which is that of the CRI as well.
        container: String,
        /// Its pid in the pid namespace of containerd.
        pid: u32,
    },
    /// The stored data of a container has changed, such as its resources. With UpdateContainerResources this comes
    /// before the cgroup has the new values; the CRI answers questions about the container only once it has
    /// (`updateContainerResources` in pkg/cri/server/container_update_resources.go holds the lock of the container's
    /// status).
    Updated {
        /// Its id, which is that of the CRI as well.
        container: String,
    },
    /// The first process of a container has ended, or the container is forgotten.
    Ended {
        /// Its id, which is that of the CRI as well.
        container: String,
    },
}

impl Event {
    /// Reads an event. `None`: it is none of these.
    ///
    /// # Errors
    /// It is not what its topic says.
    pub fn read(envelope: &Envelope) -> Result<Option<Self>, DecodeError> {
        let payload = envelope.event.as_ref().map_or(&[][..], |event| &event.value);
        if envelope.namespace != NAMESPACE {
            return Ok(None);
        }
        let event = match envelope.topic.as_str() {
            START => {
                let TaskStart { container_id: container, pid } = Message::decode(payload)?;
                Self::Started { container, pid }
            }
            EXIT => {
                let TaskExit { container_id: container, id } = Message::decode(payload)?;
                if !id.is_empty() && id != container {
                    return Ok(None);
                }
                Self::Ended { container }
            }
            UPDATE => {
                let ContainerUpdate { id: container } = Message::decode(payload)?;
                Self::Updated { container }
            }
            DELETE => {
                let ContainerDelete { id: container } = Message::decode(payload)?;
                Self::Ended { container }
            }
            _ => return Ok(None),
        };
        Ok(Some(event))
    }
}

/// Asks for the events that [`Event`] reads.
pub fn subscription() -> SubscribeRequest {
    let filter = |topic| format!("namespace==\"{NAMESPACE}\",topic==\"{topic}\"");
    SubscribeRequest { filters: [START, EXIT, UPDATE, DELETE].map(filter).to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_types::Any;

    fn envelope(topic: &str, value: Vec<u8>) -> Envelope {
        let event = Some(Any { type_url: "of.no.interest".to_owned(), value });
        Envelope { namespace: NAMESPACE.to_owned(), topic: topic.to_owned(), event }
    }

    fn read(topic: &str, message: &impl Message) -> Option<Event> {
        Event::read(&envelope(topic, message.encode_to_vec())).expect("it is valid")
    }

    #[test]
    fn events_are_read_by_their_topic() {
        let container = || "c1".to_owned();
        let start = TaskStart { container_id: container(), pid: 7 };
        assert_eq!(read(START, &start), Some(Event::Started { container: container(), pid: 7 }));
        let ended = Some(Event::Ended { container: container() });
        for (id, expected) in [("c1", &ended), ("", &ended), ("an-exec", &None)] {
            let exit = TaskExit { container_id: container(), id: id.to_owned() };
            assert_eq!(&read(EXIT, &exit), expected, "{id}");
        }
        assert_eq!(read(DELETE, &ContainerDelete { id: container() }), ended);
        let updated = Some(Event::Updated { container: container() });
        assert_eq!(read(UPDATE, &ContainerUpdate { id: container() }), updated);
        assert_eq!(read("/tasks/oom", &start), None);
    }

    #[test]
    fn what_is_of_another_namespace_is_passed_over() {
        let start = TaskStart { container_id: "c1".to_owned(), pid: 7 }.encode_to_vec();
        let moby = Envelope { namespace: "moby".to_owned(), ..envelope(START, start) };
        assert_eq!(Event::read(&moby).expect("it is valid"), None);
    }

    #[test]
    fn garbage_is_an_error() {
        for topic in [START, EXIT, UPDATE, DELETE] {
            Event::read(&envelope(topic, vec![255; 9])).expect_err(topic);
        }
    }

    #[test]
    fn each_topic_that_is_read_is_asked_for() {
        let filters = subscription().filters;
        assert_eq!(filters.len(), 4);
        assert_eq!(filters[0], r#"namespace=="k8s.io",topic=="/tasks/start""#);
    }
}
