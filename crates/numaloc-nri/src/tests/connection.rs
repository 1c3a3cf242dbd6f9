//! Connections to a runtime: by its socket, and by the one with which it has launched the plugin.

use super::samples::{config, container, pod};
use crate::{
    align::MachineNodes,
    config::{Config, Source},
    inbox::Inbox,
    runtime::Begun,
    source,
};
use nri::{
    Identity, Launched,
    fake::{Generation, Runtime},
    v1alpha1::Event,
};
use std::{
    os::{fd::AsRawFd, unix::net::UnixStream as StdStream},
    sync::Arc,
};
use tokio::{
    io::AsyncWriteExt,
    net::{UnixListener, UnixStream},
};

async fn accept(listener: &UnixListener) -> Runtime<UnixStream> {
    let (stream, _) = listener.accept().await.expect("it connects");
    Runtime::accept(stream, Generation::Calls).await.expect("it registers")
}

#[tokio::test]
async fn it_connects_again_after_whatever_ends_a_connection() {
    let dir = tempfile::tempdir().expect("a directory");
    let nri_socket = dir.path().join("nri.sock");
    let listener = UnixListener::bind(&nri_socket).expect("room");
    // Room for two containers.
    let inbox = Arc::new(Inbox::new(2));
    let config = Arc::new(Config { source: Source::Nri, nri_socket, ..config() });
    let plugin = source::serve(config, Begun::Nothing, Arc::clone(&inbox), MachineNodes::default());
    let plugin = tokio::spawn(plugin);

    // The runtime ends it.
    let first = accept(&listener).await;
    assert_eq!((&*first.plugin.plugin_name, &*first.plugin.plugin_idx), ("numaloc-nri", "90"));
    drop(first);
    // The runtime sends garbage.
    let mut stream = accept(&listener).await.into_stream();
    stream.write_all(&[255; 64]).await.expect("it reads");
    let mut third = accept(&listener).await;
    third.synchronize(vec![(vec![], vec![])]).await.expect("it answers");
    assert!(inbox.take().expect("it was told").all.is_some());
    // More containers change than there is room for, and no task takes them.
    for id in ["a", "b", "c"] {
        // The last one may not be answered.
        let _ = third.tell(Event::PostStartContainer, &pod(1), Some(&container(1, id))).await;
    }
    let mut fourth = accept(&listener).await;
    let all = ["a", "b", "c"].map(|id| container(1, id)).to_vec();
    fourth.synchronize(vec![(vec![pod(1)], all)]).await.expect("it answers");
    let all = inbox.take().expect("it was told").all.expect("all of it");
    assert_eq!(all.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(!plugin.is_finished());
    plugin.abort();
}

#[tokio::test]
async fn a_plugin_that_the_runtime_has_launched_ends_with_its_connection() {
    let (ours, theirs) = StdStream::pair().expect("a pair");
    let identity = Identity::new("mine", "07").expect("valid");
    let launched = Launched { identity, socket: ours.as_raw_fd() };
    let inbox = Arc::new(Inbox::new(9));
    let nowhere = Arc::new(Config { nri_socket: "/nowhere".into(), ..config() });
    let plugin = source::serve(
        nowhere,
        Begun::Launched(launched),
        Arc::clone(&inbox),
        MachineNodes::default(),
    );
    let plugin = tokio::spawn(plugin);
    theirs.set_nonblocking(true).expect("a socket");
    let theirs = UnixStream::from_std(theirs).expect("a socket");
    let mut runtime = Runtime::accept(theirs, Generation::StateChange).await.expect("it registers");
    assert_eq!((&*runtime.plugin.plugin_name, &*runtime.plugin.plugin_idx), ("mine", "07"));
    runtime.synchronize(vec![(vec![], vec![])]).await.expect("it answers");
    drop(runtime);
    plugin.await.expect("it does not panic").expect("the runtime has ended the connection");
    assert!(inbox.take().expect("it was told").all.is_some());
}

/// containerd 1.7 launches plugins and never lists containers to them.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_was_launched_and_is_told_nothing_says_so_and_ends() {
    let (ours, theirs) = StdStream::pair().expect("a pair");
    let identity = Identity::new("mine", "07").expect("valid");
    let launched = Launched { identity, socket: ours.as_raw_fd() };
    let inbox = Arc::new(Inbox::new(9));
    let nowhere = Arc::new(Config { nri_socket: "/nowhere".into(), ..config() });
    let ended = source::serve(
        nowhere,
        Begun::Launched(launched),
        Arc::clone(&inbox),
        MachineNodes::default(),
    )
    .await;
    let error = ended.expect_err("it cannot continue").to_string();
    assert!(error.contains("numaloc-nri.service"), "{error}");
    drop(theirs);
}
