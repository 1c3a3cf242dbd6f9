//! The plugin and a containerd that is not real, without NRI, and with an NRI that comes and goes.

use super::{
    Plugin,
    samples::{config, container, pod},
    until,
};
use crate::{
    align::MachineNodes,
    config::{Config, Source},
    containers::Containers,
    facts::{self, Facts, ToldBy},
    inbox::Inbox,
    labels::{MARK, TOLD_BY},
    runtime::Begun,
    source,
};
use containerd::{events::TaskStart, fake::Containerd, runtime::v1};
use nri::{
    fake::{Generation, Runtime},
    v1alpha1::Event,
};
use numaloc_node::fake::Fake;
use std::{path::PathBuf, sync::Arc};
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tonic::transport::Endpoint;

/// A host with a containerd that is not real, and numalocd, which is not either.
struct ContainerdHost {
    containerd: Containerd,
    daemon: Fake,
    config: Arc<Config>,
    plugin: Option<Plugin>,
    dir: TempDir,
}

impl ContainerdHost {
    /// It has the sample pods. No process listens yet.
    fn new(source: Source) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let containerd = Containerd::default();
        [1, 2].into_iter().for_each(|number| containerd.pod(sandbox(number)));
        let config = Arc::new(Config {
            source,
            containerd_socket: dir.path().join("containerd.sock"),
            nri_socket: dir.path().join("nri.sock"),
            ..config()
        });
        Self { containerd, daemon: Fake::new(MARK), config, plugin: None, dir }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("containerd.sock")
    }

    /// containerd and the plugin run.
    fn start(source: Source) -> Self {
        let mut host = Self::new(source);
        host.containerd.listen(&host.socket());
        let config = Config::clone(&host.config);
        let mut plugin = Plugin::start(config, host.daemon.clone(), MachineNodes::default());
        let (config, inbox) = (Arc::clone(&host.config), Arc::clone(&plugin.inbox));
        plugin.tasks.push(tokio::spawn(async move {
            source::serve(config, Begun::Nothing, inbox, MachineNodes::default())
                .await
                .expect("it continues");
        }));
        host.plugin = Some(plugin);
        host
    }

    /// Waits until numalocd has these containers, and schedules for these.
    async fn until(&self, workloads: &[&str], schedules: &[&str]) {
        until(async || self.daemon.has(workloads, schedules)).await;
    }

    /// Waits until containerd has a subscriber, so that no event is lost.
    async fn until_followed(&self) {
        until(async || self.containerd.subscribers() == 1 && self.containerd.lists() > 0).await;
    }
}

/// A sample pod as the CRI reports it.
fn sandbox(number: u8) -> v1::PodSandbox {
    let pod = pod(number);
    let metadata = v1::PodSandboxMetadata {
        name: pod.name,
        uid: pod.uid,
        namespace: pod.namespace,
        attempt: 0,
    };
    let (labels, annotations) = (pod.labels, pod.annotations);
    v1::PodSandbox { id: pod.id, metadata: Some(metadata), labels, annotations }
}

#[tokio::test]
async fn containers_start_change_and_end() {
    let host = ContainerdHost::start(Source::Containerd);
    host.until_followed().await;
    host.until(&[], &[]).await;
    // The sandbox of a pod is a container to events.
    let sandbox = TaskStart { container_id: "sandbox-1".to_owned(), pid: 7 };
    host.containerd.tell("/tasks/start", &sandbox);
    host.containerd.start("a", "sandbox-1", "0-3", 4711);
    host.containerd.start("b", "sandbox-2", "0-3", 4712);
    host.until(&["a", "b"], &["a"]).await;
    let labels = host.daemon.labels("a");
    for (key, value) in
        [("numaloc.io/pid", "4711"), ("numaloc.io/cpuset-cpus", "0-3"), (TOLD_BY, "containerd")]
    {
        assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
    }
    [("a", 4711), ("b", 4712)].into_iter().for_each(|(id, pid)| host.containerd.is_up(id, pid));

    // Other CPUs: it is looked at again.
    let before = host.daemon.states();
    host.containerd.update("a", "4-7");
    until(async || host.daemon.states() != before && host.daemon.runs() == 1).await;
    // An exec in it ends, and then a container, which the CRI has for a while longer.
    host.containerd.exit("b", "an-exec");
    host.containerd.end("sandbox-1");
    host.containerd.end("a");
    host.until(&["b"], &[]).await;
    assert_eq!(host.daemon.cancelled(), ["a"]);
    let lists = host.containerd.lists();
    until(async || host.containerd.lists() > lists.max(1)).await;
    host.containerd.start("c", "sandbox-1", "0", 1);
    host.until(&["b", "c"], &["c"]).await;
    assert_eq!(host.daemon.runs(), 1);
}

#[tokio::test]
async fn what_no_event_tells_is_found_at_the_next_look() {
    let host = ContainerdHost::start(Source::Containerd);
    for id in ["a", "b"] {
        host.containerd.has(id, "sandbox-1", "0-3", 1);
    }
    host.until(&["a", "b"], &["a", "b"]).await;
    let before = host.daemon.states();
    host.containerd.pin("a", "4-7");
    host.containerd.lose("b");
    host.containerd.has("c", "sandbox-2", "0-3", 1);
    host.until(&["a", "c"], &["a"]).await;
    until(async || host.daemon.runs() == 1).await;
    assert_ne!(host.daemon.states()["a"], before["a"]);
}

#[tokio::test]
async fn a_containerd_that_was_gone_is_caught_up_with() {
    let host = ContainerdHost::start(Source::Containerd);
    host.containerd.has("a", "sandbox-1", "0-3", 1);
    host.containerd.has("b", "sandbox-1", "0-3", 1);
    host.until_followed().await;
    host.until(&["a", "b"], &["a", "b"]).await;
    host.containerd.stop();
    host.containerd.lose("a");
    host.containerd.has("c", "sandbox-2", "0-3", 1);
    host.containerd.listen(&host.socket());
    host.until(&["b", "c"], &["b"]).await;
    until(async || host.containerd.subscriptions() == 2).await;
    host.containerd.start("d", "sandbox-1", "0-3", 1);
    host.until(&["b", "c", "d"], &["b", "d"]).await;
}

#[tokio::test]
async fn garbage_instead_of_an_event_ends_the_connection_and_the_next_one_catches_up() {
    let host = ContainerdHost::start(Source::Containerd);
    host.until_followed().await;
    host.containerd.say("/tasks/start", vec![255; 40]);
    host.containerd.has("a", "sandbox-1", "0-3", 1);
    host.until(&["a"], &["a"]).await;
    until(async || host.containerd.subscriptions() == 2).await;
}

#[tokio::test]
async fn a_container_that_containerd_cannot_tell_about_holds_up_no_other() {
    let host = ContainerdHost::new(Source::Containerd);
    for id in ["a", "b", "c"] {
        host.containerd.has(id, "sandbox-1", "0-3", 1);
    }
    host.containerd.damage("b");
    host.containerd.listen(&host.socket());
    let channel = Endpoint::from_shared(format!("unix://{}", host.socket().display()));
    let channel = channel.expect("an address").connect().await.expect("it listens");
    let mut containers = Containers::new(channel);
    let look = containers.look().await.expect("it answers");
    assert_eq!(look.found.keys().collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(look.unclear.iter().collect::<Vec<_>>(), ["b"]);
    host.containerd.damage("");
    let look = containers.look().await.expect("it answers");
    assert_eq!((look.found.len(), look.unclear.len()), (3, 0));
    // Both ways know the same of a container, so that a schedule is not begun again by a change of the way.
    host.containerd.has("d", "sandbox-1", "0-3", 4711);
    let by_cri = containers.container("d", None).await.expect("it answers").expect("it runs");
    let by_nri = Facts::new(facts::pod(pod(1)).into(), container(1, "d"));
    assert_eq!(by_cri, Facts { told_by: ToldBy::Containerd, ..by_nri });
    assert_eq!(containers.container("sandbox-1", None).await.expect("it answers"), None);
}

#[tokio::test]
async fn too_many_changes_at_once_begin_the_connection_anew() {
    let host = ContainerdHost::new(Source::Containerd);
    host.containerd.listen(&host.socket());
    // No task takes its contents.
    let inbox = Arc::new(Inbox::new(1));
    let config = Arc::clone(&host.config);
    let following =
        source::serve(config, Begun::Nothing, Arc::clone(&inbox), MachineNodes::default());
    let following = tokio::spawn(following);
    host.until_followed().await;
    until(async || inbox.take().is_some()).await;
    for id in ["a", "b", "c"] {
        host.containerd.start(id, "sandbox-1", "0-3", 1);
        host.containerd.is_up(id, 1);
    }
    until(async || host.containerd.subscriptions() == 2).await;
    until(async || match inbox.take() {
        Some(batch) => batch.all.is_some_and(|all| all.len() == 3),
        None => false,
    })
    .await;
    following.abort();
}

async fn accept(listener: &UnixListener) -> Runtime<UnixStream> {
    let (stream, _) = listener.accept().await.expect("it connects");
    Runtime::accept(stream, Generation::Calls).await.expect("it registers")
}

#[tokio::test]
async fn nri_takes_over_when_it_appears_and_containerd_when_it_goes() {
    let host = ContainerdHost::start(Source::Auto);
    host.containerd.has("a", "sandbox-1", "0-3", 4711);
    host.until(&["a"], &["a"]).await;
    let told_by = |id| host.daemon.labels(id).get(TOLD_BY).cloned().unwrap_or_default();
    assert_eq!(told_by("a"), "containerd");

    let listener = UnixListener::bind(&host.config.nri_socket).expect("room");
    let mut nri = accept(&listener).await;
    // Until NRI has listed all containers, containerd is followed.
    host.containerd.start("b", "sandbox-2", "0-3", 1);
    host.until(&["a", "b"], &["a"]).await;
    let all = vec![container(1, "a"), container(2, "b")];
    nri.synchronize(vec![(vec![pod(1), pod(2)], all)]).await.expect("it answers");
    until(async || host.containerd.subscribers() == 0 && told_by("a") == "nri").await;
    assert_eq!(host.daemon.runs(), 0, "the schedule has begun again");
    // The events of containerd do not count any more.
    host.containerd.start("x", "sandbox-1", "0-3", 1);
    let c = container(2, "c");
    nri.tell(Event::PostStartContainer, &pod(2), Some(&c)).await.expect("it answers");
    host.until(&["a", "b", "c"], &["a"]).await;

    drop((nri, listener));
    std::fs::remove_file(&host.config.nri_socket).expect("it is there");
    host.containerd.is_up("x", 1);
    host.containerd.is_up("b", 1);
    host.until(&["a", "b", "x"], &["a", "x"]).await;
    assert_eq!(told_by("a"), "containerd");
}

/// The plugin does not wait for a listener that never answers.
#[tokio::test]
async fn an_nri_that_does_not_answer_is_not_used() {
    let host = ContainerdHost::new(Source::Auto);
    let _silent = UnixListener::bind(&host.config.nri_socket).expect("room");
    host.containerd.has("a", "sandbox-1", "0-3", 1);
    host.containerd.listen(&host.socket());
    let inbox = Arc::new(Inbox::new(9));
    let config = Arc::clone(&host.config);
    let following =
        source::serve(config, Begun::Nothing, Arc::clone(&inbox), MachineNodes::default());
    let following = tokio::spawn(following);
    until(async || {
        inbox.take().and_then(|batch| batch.all).is_some_and(|all| all.contains_key("a"))
    })
    .await;
    following.abort();
}
