//! A kubelet that has given devices to containers, and runs none of them, for tests of who asks it.

use crate::v1::{
    self,
    pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer},
};
use parking_lot::Mutex;
use std::{fs, path::Path, sync::Arc};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, transport::Server};

/// A kubelet. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Kubelet(Arc<Mutex<World>>);

#[derive(Debug, Default)]
struct World {
    pods: Vec<v1::PodResources>,
    lists: usize,
}

impl Kubelet {
    /// Gives devices to a container: of each resource one device, which is on these nodes; on none, if there are none.
    pub fn give(&self, namespace: &str, pod: &str, container: &str, devices: &[(&str, &[i64])]) {
        let device = |(at, (resource, nodes)): (usize, &(&str, &[i64]))| v1::ContainerDevices {
            resource_name: (*resource).to_owned(),
            device_ids: vec![format!("{at}")],
            topology: (!nodes.is_empty()).then(|| v1::TopologyInfo {
                nodes: nodes.iter().map(|id| v1::NumaNode { id: *id }).collect(),
            }),
        };
        let devices = devices.iter().enumerate().map(device).collect();
        let container = v1::ContainerResources { name: container.to_owned(), devices };
        let mut world = self.0.lock();
        let known = world.pods.iter_mut().find(|of| of.namespace == namespace && of.name == pod);
        match known {
            Some(of) => of.containers.push(container),
            None => world.pods.push(v1::PodResources {
                name: pod.to_owned(),
                namespace: namespace.to_owned(),
                containers: vec![container],
            }),
        }
    }

    /// The number of its lists that were asked for.
    pub fn lists(&self) -> usize {
        self.0.lock().lists
    }

    /// Listens there, in a task of the runtime that calls this.
    ///
    /// # Panics
    /// The socket cannot be made.
    pub fn listen(&self, socket: &Path) {
        // One that was left there.
        fs::remove_file(socket).ok();
        let listener = UnixListener::bind(socket).expect("room for a socket");
        let server = Server::builder()
            .add_service(PodResourcesListerServer::new(self.clone()))
            .serve_with_incoming(UnixListenerStream::new(listener));
        tokio::spawn(async move { server.await.expect("it serves") });
    }
}

#[tonic::async_trait]
impl PodResourcesLister for Kubelet {
    async fn list(
        &self,
        _: Request<v1::ListPodResourcesRequest>,
    ) -> Result<Response<v1::ListPodResourcesResponse>, Status> {
        let mut world = self.0.lock();
        world.lists += 1;
        Ok(Response::new(v1::ListPodResourcesResponse { pod_resources: world.pods.clone() }))
    }
}
