//! A plugin and a runtime at the two ends of a socket.

use nri::{
    Error, Events, Identity, Notice, Plugin, connection,
    fake::{Generation, Runtime},
    frame, serve,
    v1alpha1::{
        ConfigureRequest, Container, ContainerAdjustment, ContainerEvent, Empty, Event,
        LinuxContainerAdjustment, LinuxCpu, LinuxResources, PodSandbox,
    },
};
use proptest::prelude::*;
use std::{future::Future, time::Duration};
use tokio::{
    io::{AsyncWriteExt, DuplexStream, duplex},
    task::JoinHandle,
};

/// Notes what it receives, as lines.
#[derive(Debug, Default)]
struct Notes {
    lines: Vec<String>,
    refuses: bool,
}

impl Plugin for Notes {
    fn configure(&mut self, request: ConfigureRequest) -> Result<Events, String> {
        self.lines.push(format!("runtime {}", request.runtime_name));
        match self.refuses {
            true => Err("no".to_owned()),
            false => {
                Ok([Event::CreateContainer, Event::PostStartContainer, Event::UpdateContainer]
                    .into_iter()
                    .chain([Event::StopContainer, Event::RemovePodSandbox])
                    .collect())
            }
        }
    }

    fn synchronize(&mut self, pods: Vec<PodSandbox>, containers: Vec<Container>) {
        let pods: Vec<_> = pods.into_iter().map(|pod| pod.id).collect();
        let containers: Vec<_> = containers.into_iter().map(|container| container.id).collect();
        self.lines.push(format!("there are {pods:?} {containers:?}"));
    }

    fn notice(&mut self, notice: Notice) {
        let id = notice.container.map(|container| container.id).unwrap_or_default();
        self.lines.push(format!("{:?} {id}", notice.event));
    }

    fn update(
        &mut self,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Option<LinuxResources> {
        let cpus = resources.cpu.map(|cpu| cpu.cpus).unwrap_or_default();
        self.lines.push(format!("update {} {} {cpus}", pod.id, container.id));
        let cpu = Some(LinuxCpu { mems: "1".to_owned(), ..LinuxCpu::default() });
        (cpus != "0").then_some(LinuxResources { cpu, ..LinuxResources::default() })
    }

    fn create(&mut self, _: PodSandbox, container: Container) -> Option<ContainerAdjustment> {
        self.lines.push(format!("create {}", container.id));
        let cpu = Some(LinuxCpu { mems: "1".to_owned(), ..LinuxCpu::default() });
        let resources = Some(LinuxResources { cpu, ..LinuxResources::default() });
        let linux = LinuxContainerAdjustment { resources, memory_policy: None };
        Some(ContainerAdjustment { linux: Some(linux) })
    }
}

fn identity() -> Identity {
    Identity::new("notes", "42").expect("valid")
}

fn plugin(stream: DuplexStream, refuses: bool) -> JoinHandle<(Notes, Result<(), Error>)> {
    tokio::spawn(async move {
        let mut notes = Notes { refuses, ..Notes::default() };
        let ended = serve(stream, &identity(), &mut notes).await;
        (notes, ended)
    })
}

fn pod(id: &str) -> PodSandbox {
    PodSandbox { id: id.to_owned(), ..PodSandbox::default() }
}

fn container(id: &str) -> Container {
    Container { id: id.to_owned(), ..Container::default() }
}

#[tokio::test]
async fn both_generations_of_runtimes_are_understood() {
    for generation in [Generation::StateChange, Generation::Calls] {
        let (ours, theirs) = duplex(1 << 16);
        let plugin = plugin(ours, false);
        let mut runtime = Runtime::accept(theirs, generation).await.expect("it registers");
        assert_eq!((&*runtime.plugin.plugin_name, &*runtime.plugin.plugin_idx), ("notes", "42"));
        assert_eq!(runtime.events, 1 << 2 | 1 << 3 | 1 << 6 | 1 << 7 | 1 << 9);
        let parts = vec![
            (vec![pod("p")], vec![container("a")]),
            (vec![], vec![container("b")]),
            (vec![pod("q")], vec![]),
        ];
        runtime.synchronize(parts).await.expect("it takes parts");
        let made = runtime.create(&pod("p"), &container("c")).await.expect("it answers");
        let cpu =
            made.adjust.and_then(|adjust| adjust.linux?.resources?.cpu).expect("an adjustment");
        assert_eq!(cpu.mems, "1");
        let c = container("c");
        for event in [Event::StartContainer, Event::PostStartContainer] {
            runtime.tell(event, &pod("p"), Some(&c)).await.expect("it answers");
        }
        for (cpus, expected) in [("0-3", &[("c", "1")][..]), ("0", &[])] {
            let cpu = Some(LinuxCpu { cpus: cpus.to_owned(), ..LinuxCpu::default() });
            let resources = LinuxResources { cpu, ..LinuxResources::default() };
            let answer = runtime.update(&pod("p"), &c, resources).await.expect("it answers");
            let mems = |linux: &nri::v1alpha1::LinuxContainerUpdate| {
                Some(linux.resources.as_ref()?.cpu.as_ref()?.mems.clone())
            };
            let changed = answer.update.iter().map(|update| {
                (update.container_id.clone(), update.linux.as_ref().and_then(mems).expect("nodes"))
            });
            let expected = expected.iter().map(|&(id, mems)| (id.to_owned(), mems.to_owned()));
            assert!(changed.eq(expected), "{cpus}");
        }
        runtime.tell(Event::StopContainer, &pod("p"), Some(&c)).await.expect("it answers");
        runtime.tell(Event::RemovePodSandbox, &pod("p"), None).await.expect("it answers");
        let _: Empty = runtime.call("Shutdown", &Empty {}).await.expect("it answers");
        drop(runtime);
        let (notes, ended) = plugin.await.expect("it does not panic");
        ended.expect("the runtime has ended the connection");
        let expected = [
            "runtime fake",
            r#"there are ["p", "q"] ["a", "b"]"#,
            "create c",
            "PostStartContainer c",
            "update p c 0-3",
            "update p c 0",
            "StopContainer c",
            "RemovePodSandbox ",
        ];
        assert_eq!(notes.lines, expected, "{generation:?}");
    }
}

#[tokio::test]
async fn calls_that_are_not_known_are_said_to_be_so() {
    let (ours, theirs) = duplex(1 << 16);
    let plugin = plugin(ours, false);
    let mut runtime = Runtime::accept(theirs, Generation::Calls).await.expect("it registers");
    let request = ContainerEvent::default();
    let refused = runtime.call::<_, Empty>("PostUpdatePodSandbox", &request).await;
    assert!(matches!(refused, Err(Error::Refused { code: 12, .. })), "{refused:?}");
    // The connection continues.
    let _: Empty = runtime.call("Shutdown", &Empty {}).await.expect("it answers");
    drop(runtime);
    plugin.await.expect("it does not panic").1.expect("the runtime has ended the connection");
}

#[tokio::test]
async fn a_plugin_that_refuses_its_configuration_goes() {
    let (ours, theirs) = duplex(1 << 16);
    let plugin = plugin(ours, true);
    let refused = Runtime::accept(theirs, Generation::Calls).await;
    assert!(matches!(refused, Err(Error::Cut)), "{:?}", refused.err());
    let (_, ended) = plugin.await.expect("it does not panic");
    assert!(matches!(&ended, Err(Error::Configuration(why)) if why == "no"), "{ended:?}");
}

/// The end of a connection on which the runtime sends this after the registration.
async fn ends<F: Future<Output = ()>>(say: impl FnOnce(DuplexStream) -> F) -> Result<(), Error> {
    let (ours, theirs) = duplex(1 << 16);
    let plugin = plugin(ours, false);
    let runtime = Runtime::accept(theirs, Generation::Calls).await.expect("it registers");
    say(runtime.into_stream()).await;
    plugin.await.expect("it does not panic").1
}

async fn says(stream: &mut DuplexStream, message: frame::Message) {
    stream.write_all(&message.encode().expect("it fits")).await.expect("it is there");
}

fn message(connection: u32, stream: u32, kind: u8, payload: &[u8]) -> frame::Message {
    frame::Message { connection, stream, kind, payload: payload.to_vec() }
}

#[tokio::test]
async fn messages_that_do_not_belong_end_the_connection() {
    use connection::{PLUGIN, RUNTIME};
    use frame::{REQUEST, RESPONSE};
    for odd in [
        message(PLUGIN, 1, RESPONSE, b""),
        message(RUNTIME, 1, REQUEST, b""),
        message(RUNTIME, 1, RESPONSE, b""),
        message(RUNTIME, 7, RESPONSE, b""),
        message(PLUGIN, 9, 3, b""),
    ] {
        let told = odd.clone();
        let ended = ends(async |mut stream| says(&mut stream, told).await).await;
        assert!(matches!(ended, Err(Error::Unexpected { .. })), "{odd:?}: {ended:?}");
    }
    let garbage = message(PLUGIN, 9, REQUEST, &[255; 20]);
    let ended = ends(async |mut stream| says(&mut stream, garbage).await).await;
    assert!(matches!(ended, Err(Error::Message { .. })), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_stops_within_a_message_is_given_up() {
    let whole =
        message(connection::PLUGIN, 1, frame::REQUEST, &[0; 100]).encode().expect("it fits");
    for cut in [1, 8, 12, 18, 50] {
        // It stays silent.
        let (part, (held, kept)) = (whole[..cut].to_vec(), tokio::sync::oneshot::channel());
        let ended = ends(async |mut stream| {
            stream.write_all(&part).await.expect("it is there");
            held.send(stream).expect("it is kept");
        });
        let ended = ended.await;
        assert!(matches!(ended, Err(Error::Silent { .. })), "{cut}: {ended:?}");
        drop(kept);
        // It goes.
        let ended =
            ends(async |mut stream| stream.write_all(&whole[..cut]).await.expect("it is there"));
        let ended = ended.await;
        assert!(matches!(ended, Err(Error::Cut)), "{cut}: {ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_says_nothing_is_waited_for_only_until_it_has_registered_the_plugin() {
    let (ours, theirs) = duplex(1 << 16);
    let (_, ended) = plugin(ours, false).await.expect("it does not panic");
    assert!(matches!(ended, Err(Error::Silent { .. })), "{ended:?}");
    drop(theirs);

    let (ours, theirs) = duplex(1 << 16);
    let plugin = plugin(ours, false);
    let mut runtime = Runtime::accept(theirs, Generation::Calls).await.expect("it registers");
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    let _: Empty = runtime.call("Shutdown", &Empty {}).await.expect("it is still there");
    drop(runtime);
    plugin.await.expect("it does not panic").1.expect("the runtime has ended the connection");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However a runtime behaves, the connection ends once it has gone.
    #[test]
    fn garbage_never_panics_and_never_hangs(bytes in prop::collection::vec(any::<u8>(), 0..200), as_request: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let ended = ends(async |mut stream| {
                let bytes = match as_request {
                    true => message(connection::PLUGIN, 1, frame::REQUEST, &bytes).encode().expect("it fits"),
                    false => bytes,
                };
                // It may have given up already.
                let _ = stream.write_all(&bytes).await;
            });
            // Other tests check the result.
            let _ = ended.await;
        });
    }
}
