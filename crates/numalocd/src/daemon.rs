//! Starts the parts of the daemon, connects them, and stops them again.

mod cpusets;
mod host_memory;
mod opening;
mod pressure;
mod reading;
mod signals;
mod threads;
mod wire;
mod writing;

use crate::{
    access::Access,
    accounts::Accounts,
    cli::Args,
    config::{Config, Loaded, has_found_accounts},
    dispatch::{DaemonStatus, Handle},
    listen::{self, Listeners, Passed},
    log::{self, Logs},
    metrics::{self, Admission, CountLayer, Metrics},
    notify::Notifier,
    service,
    store::Store,
    tls::Keys,
};
use anyhow::Context;
use numaloc_api::value::EventType;
use numaloc_dma::Accelerators;
use numaloc_host::{Roots, Source, heat};
use std::{
    env,
    ffi::OsString,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    process::Command,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle, time::timeout};

/// Interval at which accounts that grants are to, and that this host does not have, are looked up again.
const LOOK_AGAIN: Duration = Duration::from_secs(300);
/// Time for open calls to end once all jobs have been saved.
const GOODBYE: Duration = Duration::from_secs(1);
/// Time for storing the jobs and putting settings back.
const SAVING: Duration = Duration::from_secs(5);

/// Starts the program again without its HWLOC_ variables, if there are any. With them hwloc may read another topology
/// than that of this machine (hwloc's manual, "Environment Variables"). They cannot be removed in place, because the
/// environment of a process with threads must not be changed.
///
/// # Errors
/// The program cannot be started again.
fn leave_hwloc_environment() -> anyhow::Result<()> {
    let is_hwloc = |name: &OsString| name.as_bytes().starts_with(b"HWLOC_");
    let names: Vec<OsString> = env::vars_os().map(|(name, _)| name).filter(is_hwloc).collect();
    if names.is_empty() {
        return Ok(());
    }
    let mut again = Command::new(env::current_exe().context("cannot find this program")?);
    again.args(env::args_os().skip(1));
    for name in &names {
        again.env_remove(name);
    }
    // exec keeps the pid, so what the service manager has passed stays valid.
    Err(again.exec()).context("cannot start again without HWLOC_ variables")
}

/// Runs the daemon until it is stopped.
///
/// # Errors
/// The daemon could not start, or a part of it has failed.
pub fn start(args: Args) -> anyhow::Result<()> {
    leave_hwloc_environment()?;
    numaloc_host::allow_files();
    let config = args.configuration()?;
    let runtime = threads::runtime().context("cannot start threads")?;
    let done = runtime.block_on(run(args, config));
    // A run that did not end in time is not waited for: the kernel finishes its current call.
    runtime.shutdown_background();
    done
}

/// Takes down the DAMON setup that a killed run has left behind.
fn take_down_damon() {
    match heat::recover(&Roots::default()) {
        Ok(false) => {}
        Ok(true) => tracing::warn!("DAMON was still set up by a run that was killed: taken down"),
        Err(error) => tracing::warn!(%error, "DAMON may still be set up by a run that was killed"),
    }
}

/// Says which memory stays, if page frames are hidden from this process.
fn tell_what_is_hidden() {
    if Source::probe(&Roots::default()) == Source::Query {
        tracing::info!(
            "page frames are hidden, so memory that several processes map stays where it is: see Rights in /usr/share/doc/numaloc/daemon.md"
        );
    }
}

/// Runs until a signal or a failure ends the daemon.
async fn run(args: Args, loaded: Loaded) -> anyhow::Result<()> {
    let Loaded { config, notes, .. } = loaded;
    let logs = log::start(config.log.clone()).context("cannot log")?;
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    let notifier = Notifier::from_env();
    let mut signals = signals::Signals::new().context("cannot take signals")?;
    let listeners = Listeners::open(&config.listen, Passed::from_env()?).await?;
    let mut missing_sockets = listeners.missing().to_vec();
    let metrics_listener = match config.metrics.map(|address| (address, TcpListener::bind(address)))
    {
        None => None,
        Some((address, bound)) => match bound.await {
            Ok(listener) => Some(listener),
            // Jobs and schedules do without it.
            Err(error) => {
                missing_sockets.push(format!(
                    "metrics are not served at {address}: {error}; change metrics.listen if it is taken, and add the drop-in \
                     numalocd-network.conf if numalocd.service has no network, then restart it"
                ));
                None
            }
        },
    };
    let addresses = listeners.to_string();
    let keys = listeners.keys();
    let is_loopback = config.metrics.is_none_or(|address| address.ip().is_loopback());

    // Before jobs begin, which may use them. Dropping this takes them down, also if the start fails below.
    let (accelerators, failed) = Accelerators::begin(&Roots::default(), &config.dsa);
    let news = failed.into_iter().map(|line| (EventType::DsaQueueFailed, line)).collect();
    // The configuration that was last read as a whole, because an administrator asked for it.
    let mut asked_for = config.clone();
    let (config, in_force) = watch::channel(Arc::new(config));
    let (end, ending) = watch::channel(false);
    let (stop, stopping) = watch::channel(false);
    take_down_damon();
    tell_what_is_hidden();
    let metrics = Metrics::default();
    metrics.missing_accounts(asked_for.missing_accounts.len());
    metrics.missing_sockets(listeners.missing().len());
    let accounts = Accounts::new(in_force.clone());
    let state_dir = args.state_directory();
    let opening = state_dir.clone();
    let opened = opening::patiently(move || Store::open(&opening), &notifier, signals.stop());
    let Some(opened) = opened.await? else { return Ok(()) };
    let (store, contents) = opened?;
    let (parts, dispatcher) = wire::dispatcher(wire::Wiring {
        store,
        contents,
        config: &in_force,
        metrics: &metrics,
        notifier: &notifier,
        accounts: &accounts,
        ending,
        stop: stopping.clone(),
        missing_sockets,
        news,
    });
    (parts.obstacles)().iter().for_each(|obstacle| tracing::warn!("{obstacle}"));
    let handle = parts.handle.clone();
    let admission = keys.clone().filter(|_| !is_loopback);
    let admission = admission.map(|keys| Admission { keys, config: in_force.clone() });
    host_memory::start(in_force.clone(), metrics.clone()).context("cannot start a thread")?;
    let access = Access::new(in_force, accounts);
    let (counted, connecting) = (metrics.clone(), access.clone());
    let routes = service::routes(&parts).await.context("the API's definitions cannot be read")?;
    let router = move |server: tonic::transport::Server| {
        server.layer(CountLayer(counted.clone())).layer(access.clone()).add_routes(routes.clone())
    };
    let stopped = {
        let mut stopping = stopping.clone();
        // An error means that the sender is gone, which is the end, too.
        async move { drop(stopping.wait_for(|stop| *stop).await) }
    };
    let server =
        tokio::spawn(async move { listen::serve(listeners, router, &connecting, stopped).await });
    let scrape = metrics_listener.map(|listener| {
        tokio::spawn(metrics::serve(listener, metrics.clone(), admission, stopping))
    });
    notifier.ready(&format!("listening on {addresses}"));
    tracing::info!(%addresses, state = %state_dir.display(), version = env!("CARGO_PKG_VERSION"), "ready");

    let mut dispatcher = dispatcher;
    let mut server = server;
    let mut reading = reading::Reading::default();
    let mut is_asked = false;
    let mut look_again = tokio::time::interval(LOOK_AGAIN);
    loop {
        tokio::select! {
            signal = signals.next() => match signal {
                signals::Signal::Reload => {
                    notifier.reloading();
                    is_asked = true;
                    reading.begin(&args);
                }
                signals::Signal::Stop => break,
            },
            _ = look_again.tick(), if !asked_for.missing_accounts.is_empty() => reading.begin(&args),
            read = reading.done(&args) => {
                let is_news = |new: &Loaded| is_asked || has_found_accounts(&asked_for, &new.config);
                // Mistakes in files are reported only if an administrator has asked to read them.
                if !is_asked && !read.as_ref().is_ok_and(is_news) {
                    continue;
                }
                let done = read.and_then(|new| {
                    let read = new.config.clone();
                    reload(new, &config, &logs, keys.as_ref()).map(|()| read)
                });
                if let Ok(read) = &done {
                    metrics.missing_accounts(read.missing_accounts.len());
                    asked_for.clone_from(read);
                }
                metrics.reloaded(done.is_ok(), SystemTime::now());
                told(done.map(drop), &notifier);
                is_asked = false;
            }
            ended = &mut dispatcher => {
                return Err(anyhow::anyhow!("the dispatcher has ended: {ended:?}; the service manager starts it again"));
            }
            ended = &mut server => {
                ended.context("the server has panicked")??;
                return Err(anyhow::anyhow!("the server has ended"));
            }
        }
    }
    // Health checks fail from now on, so that clients send their changes elsewhere.
    end.send_replace(true);
    let grace = config.borrow().stop.grace;
    self::end(&handle, &stop, dispatcher, server, &notifier, grace).await;
    // Jobs that did not end in time cannot put the setting back any more.
    if let Err(error) = parts.engine.put_back() {
        tracing::error!(%error, "kernel.numa_balancing stays as a job has left it");
    }
    if let Err(error) = parts.engine.put_offload_back() {
        tracing::error!(%error, "the kernel's settings of offload stay as a job has left them");
    }
    parts.engine.remove_group();
    drop(accelerators);
    scrape.into_iter().for_each(|scrape| scrape.abort());
    Ok(())
}

/// Waits for the batches under way, ends the watches, and waits for open calls for a short time.
async fn end(
    handle: &Handle,
    stop: &watch::Sender<bool>,
    dispatcher: JoinHandle<()>,
    server: JoinHandle<Result<(), listen::ServeError>>,
    notifier: &Notifier,
    grace: Duration,
) {
    let begin = Instant::now();
    notifier.stopping("ending the batches in hand", grace + GOODBYE + SAVING);
    tracing::info!("stopping: the batches in hand are ended, the jobs saved");
    handle.stop().await;
    // The dispatcher itself bounds how long it waits for runs.
    if let Err(error) = dispatcher.await {
        tracing::error!(%error, "the dispatcher has failed");
    }
    stop.send_replace(true);
    // Clients that do not end their calls do not keep the daemon running.
    let _ = timeout(GOODBYE, server).await;
    tracing::info!(seconds = begin.elapsed().as_secs_f64(), "stopped");
}

/// Takes over a configuration that was read again, and reads the TLS files again. If anything in these is wrong,
/// nothing changes.
fn reload(
    new: Loaded,
    config: &watch::Sender<Arc<Config>>,
    logs: &Logs,
    keys: Option<&Keys>,
) -> anyhow::Result<()> {
    let old = config.borrow().clone();
    let Loaded { config: new, notes, .. } = new;
    let (new, later) = crate::config::reload(&old, new);
    if let (Some(keys), Some(tls)) = (keys, &new.listen.tls) {
        keys.read_again(tls)?;
    }
    later.iter().chain(&notes).for_each(|line| tracing::warn!("{line}"));
    logs.set(new.log.clone());
    threads::shortage(&Roots::default(), &new).iter().for_each(|line| tracing::warn!("{line}"));
    config.send_replace(Arc::new(new));
    Ok(())
}

/// Reports to the log and the service manager how a reload has ended.
fn told(reloaded: anyhow::Result<()>, notifier: &Notifier) {
    match reloaded {
        Ok(()) => {
            tracing::info!("the configuration and the TLS files have been read again");
            notifier.ready("configuration read again");
        }
        Err(error) => {
            tracing::error!(%error, "the previous configuration and TLS files stay in force");
            notifier.ready("the new configuration is wrong, the old one holds: see the log");
        }
    }
}

/// The line that `systemctl status` shows.
fn line(status: &DaemonStatus) -> String {
    use numaloc_api::value::JobState;
    let count =
        |state| status.jobs.iter().find(|(of, _)| *of == state).map_or(0, |(_, count)| *count);
    let moving = count(JobState::Planning) + count(JobState::Running);
    let problem = status.problems.first().map(|problem| format!("; {problem}")).unwrap_or_default();
    let holds = status.holds.why().map(|why| format!("; {why}")).unwrap_or_default();
    format!("{moving} jobs under way, {} queued{holds}{problem}", count(JobState::Queued))
}
