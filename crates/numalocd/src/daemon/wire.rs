//! Connects the dispatcher with its store, its engine and the services that ask it.

use super::{cpusets, line, pressure, threads, writing::Writing};
use crate::{
    accounts::Accounts,
    config::Config,
    dispatch::{DaemonStatus, Dispatcher, Ears, Edges, Lookup, Probe, ProbeAnswer, Records, start},
    engine::Engine,
    metrics::Metrics,
    notify::Notifier,
    service::Parts,
    store::{Contents, Store},
};
use numaloc_api::value::{EventType, JobId};
use numaloc_dma::Offloading;
use numaloc_engine::{FoundTarget, MoverGroup, balancing::Balancing};
use numaloc_host::Roots;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

/// Longest time between two turns of the dispatcher without a watchdog.
const TURN: Duration = Duration::from_secs(60);

/// What the dispatcher is connected with.
pub struct Wiring<'a> {
    pub store: Store,
    pub contents: Contents,
    pub config: &'a watch::Receiver<Arc<Config>>,
    pub metrics: &'a Metrics,
    pub notifier: &'a Notifier,
    pub accounts: &'a Accounts,
    /// True once the daemon ends: health checks report it.
    pub ending: watch::Receiver<bool>,
    /// True once streams and the server have to end.
    pub stop: watch::Receiver<bool>,
    /// The additional sockets that could not be made.
    pub missing_sockets: Vec<String>,
    /// Events of the host to report.
    pub news: Vec<(EventType, String)>,
}

/// Starts the dispatcher and the engine over the opened store.
pub fn dispatcher(wiring: Wiring<'_>) -> (Parts, JoinHandle<()>) {
    let Wiring { store, contents, config, metrics, notifier, accounts, .. } = wiring;
    let Wiring { ending, stop, missing_sockets, news, .. } = wiring;
    let group = config.borrow().resctrl.mover_group();
    let engine = Engine::new(config.borrow().roots(), balancing(), offloading())
        .in_group(MoverGroup::begin(&Roots::default(), group.as_ref()));
    let (orders, taken) = mpsc::unbounded_channel();
    let (reported, reports) = mpsc::unbounded_channel();
    let (probes, asked) = mpsc::unbounded_channel();
    let (answered, probed) = mpsc::unbounded_channel();
    let (lookups, sought) = mpsc::unbounded_channel();
    let (tell_found, looked_up) = mpsc::unbounded_channel();
    tokio::spawn(engine.clone().serve(taken, reported));
    tokio::spawn(probe(engine.clone(), asked, answered));
    tokio::spawn(answer_lookups(engine.clone(), sought, tell_found));
    let watchdog = notifier.watchdog();
    let turn = watchdog.interval().unwrap_or(TURN);
    let (counted, writing) = (metrics.clone(), Writing::default());
    tokio::spawn(writing.clone().serve(watchdog.clone()));
    let edges = Edges {
        config: config.clone(),
        orders,
        probes,
        lookups,
        measured: Box::new(move |measured| {
            writing.note(&measured);
            counted.measured(measured);
        }),
        tell: tell(metrics.clone(), notifier.clone()),
        clock: SystemTime::now,
    };
    let dispatcher =
        Dispatcher::new(edges, Records::new(store, contents, accounts.clone())).telling(news);
    let pulse = Box::new(move || watchdog.pat());
    let (handle, task) = start(dispatcher, Ears { reports, probed, looked_up }, (pulse, turn));
    tokio::spawn(cpusets::watch(handle.clone(), engine.clone()));
    tokio::spawn(pressure::watch(handle.clone(), config.borrow().roots()));
    metrics.accounts(accounts.clone());
    let text = metrics.clone();
    let obstacles = obstacles(engine.clone(), config.clone(), missing_sockets);
    let parts = Parts {
        handle,
        engine,
        accounts: accounts.clone(),
        metrics: Arc::new(move || text.text()),
        obstacles,
        ending,
        stop,
    };
    (parts, tokio::spawn(task))
}

/// Properties of the host that keep the daemon from its work, by the configuration in force, and the sockets that it
/// lacks.
fn obstacles(
    engine: Engine,
    config: watch::Receiver<Arc<Config>>,
    missing_sockets: Vec<String>,
) -> Arc<dyn Fn() -> Vec<String> + Send + Sync> {
    Arc::new(move || {
        let shortage = threads::shortage(&Roots::default(), &config.borrow());
        let missing = missing_sockets.iter().cloned();
        engine.obstacles().into_iter().chain(shortage).chain(missing).collect()
    })
}

/// Puts back what a dead daemon has left changed, before any job begins.
fn balancing() -> Balancing {
    let balancing = Balancing::new(Roots::default());
    if let Err(error) = balancing.put_back() {
        tracing::error!(%error, "kernel.numa_balancing stays as a daemon that died has left it");
    }
    balancing
}

/// Puts back what a dead daemon has left changed, before any job begins.
fn offloading() -> Offloading {
    let offloading = Offloading::new(Roots::default());
    if let Err(error) = offloading.put_back() {
        tracing::error!(%error, "the kernel's settings of offload stay as a daemon that died has left them");
    }
    offloading
}

/// Finds out whether the targets of schedules are there. The engine bounds how many are probed at a time.
async fn probe(
    engine: Engine,
    mut asked: mpsc::UnboundedReceiver<Probe>,
    answered: mpsc::UnboundedSender<ProbeAnswer>,
) {
    while let Some(probe) = asked.recv().await {
        let (engine, answered) = (engine.clone(), answered.clone());
        tokio::spawn(async move {
            let Probe { schedule, etag, aim, options, creator } = probe;
            let found = engine.probe(&creator, aim, options).await;
            // Fails only when the daemon ends.
            let _ = answered.send(ProbeAnswer { schedule, etag, found });
        });
    }
}

/// Finds the targets of jobs that were open at the start, one after the other.
async fn answer_lookups(
    engine: Engine,
    mut sought: mpsc::UnboundedReceiver<Lookup>,
    found: mpsc::UnboundedSender<(JobId, Option<FoundTarget>)>,
) {
    while let Some(Lookup { job, aim, options, owner }) = sought.recv().await {
        let there = engine.probe(&owner, aim, options).await;
        let there = there.inspect_err(|refusal| tracing::debug!(%job, %refusal, "not looked up"));
        // Fails only when the daemon ends.
        let _ = found.send((job, there.ok()));
    }
}

/// Reports to the metrics and the service manager what the daemon is doing.
fn tell(metrics: Metrics, notifier: Notifier) -> Box<dyn FnMut(&DaemonStatus) + Send> {
    let mut told = String::new();
    Box::new(move |status| {
        metrics.jobs(&status.jobs);
        metrics.schedules(status.schedules);
        metrics.workloads(status.workloads);
        metrics.holds(&status.holds);
        metrics.contested_schedules(status.contests);
        let line = line(status);
        if line != told {
            notifier.status(&line);
            told = line;
        }
    })
}
