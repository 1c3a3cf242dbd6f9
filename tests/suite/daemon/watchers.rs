//! Many watchers: some read slowly, and some disconnect.

use super::*;
use crate::{
    app::{App, Layout},
    settings::Setting,
};
use tokio_stream::StreamExt;

const CLIENTS: usize = 50;
const JOBS: usize = 20;

/// A third of the clients read what they are sent, a third read nothing, and a third disconnect early.
#[test]
fn fifty_clients_watch_twenty_jobs_each() {
    let _balancing = Setting::numa_balancing(false);
    let daemon = Daemon::with("[queue]\nmoves = 20\nmoves_per_node = 20\n");
    let apps: Vec<App> = (0..JOBS)
        .map(|index| Layout::remote(&["anon:4M"]).load("idle").start(&format!("watched{index}")))
        .collect();
    let client = daemon.client();
    let names: Vec<String> =
        apps.iter().map(|app| client.create(app.pid(), slow(MIB)).name).collect();
    let before = daemon.rss();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let endpoint = daemon.endpoint();
    let ends = runtime.block_on(async {
        let mut readers = Vec::new();
        let mut silent = Vec::new();
        for number in 0..CLIENTS {
            let channel = Endpoint::from_shared(endpoint.clone()).unwrap().connect().await.unwrap();
            let mut streams = Vec::new();
            for name in &names {
                let request = v1::WatchJobRequest { name: name.clone() };
                let watch = MigrationServiceClient::new(channel.clone()).watch_job(request).await;
                streams.push(watch.expect("it is watched").into_inner());
            }
            match number % 3 {
                0 => readers.extend(streams),
                1 => silent.extend(streams),
                _ => drop(streams),
            }
        }
        let mut ends = Vec::new();
        for mut reader in readers {
            let mut last = None;
            while let Some(message) = reader.next().await {
                last = Some(message.expect("it ends well").job.unwrap().state());
            }
            ends.push(last);
        }
        // The silent ones have not held up any others: all readers have seen the end while these did not read.
        drop(silent);
        ends
    });
    assert_eq!(ends.len(), CLIENTS.div_ceil(3) * JOBS);
    assert!(ends.iter().all(|end| *end == Some(v1::JobState::Succeeded)), "{ends:?}");
    let grown = daemon.rss().saturating_sub(before);
    println!("{CLIENTS} clients with {JOBS} watches each: {grown} bytes more");
    assert!(grown < 64 * MIB, "{grown} bytes");
    for app in &apps {
        let truth = crate::truth::Truth::of(app.pid());
        assert_eq!(truth.region(app.range("anon")), [(0, 4 * MIB)].into());
    }
}
