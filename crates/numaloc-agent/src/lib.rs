//! The node agent for Kubernetes. Declarations of its node's pods and of their cluster become schedules of numalocd,
//! and their results are posted back as events and annotations.
//!
//! ```text
//! API server -> watch ... known -> keeper <-> numalocd
//! API server <- writer <- outbox <--/
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `cluster` | the API server: calls with time limits, objects as far as they are read, lists and watches |
//! | `facts` | the facts about a pod, from its object; pure |
//! | `known` | the known state of the cluster, shared by the tasks that follow it and the keeper |
//! | `sources` | sources of decisions besides annotations: ConfigMaps, and policies as objects of the cluster; pure |
//! | `wanted` | from a pod to the records that numalocd should have: workloads and schedules; pure |
//! | `results` | from numalocd's events to the reports about a pod; pure |
//! | `devices` | the nodes of the devices that the kubelet has given to containers |
//! | `relay` | passes connections on to the kubelet, for an agent that may not connect itself |
//! | `nri` | the records of numaloc-nri at numalocd; pure |
//! | `keeper` | gives `numaloc-node` the wanted records of each pod, and reports the results |
//! | `clock` | the clock of the host |
//! | `token` | renews the token of an agent that is a service of its host |
//! | `lead` | one agent of the cluster writes the status of policies, and gives turns |
//! | `outbox`, `budget` | pending writes: events, and the newest status of each pod within a budget |
//! | `writer` | writes them |
//! | `health` | what shows that this process works: when each kind was last read, and that the keeper continues |
//! | `metrics`, `serve` | figures of the agent, and its state of health, by HTTP |
//! | `reading` | the memory of the node by numalocd's metrics; pure |
//! | `figures` | numalocd's figures beside those of the agent, by pod, and their readers |
//! | `locality` | the NodeMemoryLocality of the node, from the same reading |
//! | `feature` | the class of the node's remote memory, for Node Feature Discovery |
//! | `labels` | marks of our workloads and schedules |
//!
//! **The agent stores nothing** but its token, on a host. From the pods that run, and these alone, it derives the records that numalocd should
//! have, under names that are made of pods' uids and containers' names; numalocd has the timers. The reports already
//! made about a pod are in its annotations: the time of the last result in its status is a cursor into numalocd's
//! events. An event's name is made of its content, so one that was posted before a crash is not posted again after it.
//! Nothing is declared before the API server has listed everything, and so nothing is removed while it is away.
#![forbid(unsafe_code)]

mod args;
mod budget;
mod clock;
mod cluster;
mod config;
mod devices;
mod facts;
mod feature;
mod figures;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod health;
mod keeper;
mod known;
mod labels;
mod lead;
mod locality;
mod metrics;
mod nri;
mod outbox;
mod reading;
mod relay;
mod results;
mod serve;
mod sources;
#[cfg(test)]
mod tests;
mod token;
mod wanted;
mod writer;

use anyhow::Context;
use args::Args;
use clap::{Command, CommandFactory, Parser};
use cluster::{
    api::{Api, Form},
    watch::{Selection, follow},
};
use config::Config;
use numaloc_policy::{GROUP, PolicyKind, VERSION};
use std::{path::Path, process::ExitCode, sync::Arc};

/// The command line, of which its man page is made.
pub fn command() -> Command {
    Args::command()
}

/// Runs the agent with the arguments of this process.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let (config, checks_only) = (args.node.configuration(), args.node.check_config);
    numaloc_node::main("numaloc-agent", config, checks_only, |config| match &*args.relay {
        [socket, kubelet] => pass_on(socket, kubelet),
        _ => run(args.node_name, config),
    })
}

fn pass_on(socket: &Path, kubelet: &Path) -> anyhow::Result<()> {
    numaloc_node::start_log("numaloc-agent", "info", false).context("cannot log")?;
    numaloc_node::until_stopped(async { match relay::relay(socket, kubelet).await? {} })
}

fn run(node: Option<String>, config: Config) -> anyhow::Result<()> {
    // The HTTP clients log only errors.
    let levels = "info,kube=off,kube_client=off,hyper=warn,hyper_util=warn";
    numaloc_node::start_log("numaloc-agent", levels, false).context("cannot log")?;
    if config.register != config::Register::Auto {
        tracing::warn!(
            "the key register is obsolete, and the next version does not know it: without it, the agent registers containers where \
             numaloc-nri has registered none. Remove it from agent.toml"
        );
    }
    let node = node.filter(|node| !node.is_empty());
    let node = node.context("the name of this node is not known: set NODE_NAME, in a pod from spec.nodeName, or --node-name")?;
    numaloc_node::until_stopped(async {
        let daemon = numaloc_node::Grpc::new(&config.endpoint, labels::MARK)?;
        let mut cluster = cluster::from_env().await?;
        let token = token::Renewable::take(&mut cluster, token::state_directory(), clock::now());
        let mut api = Api::new(cluster)?;
        if let Some(token) = &token {
            if token.node() != node {
                tracing::error!(
                    "the token is bound to the Node {}, and this is {node}: the API server refuses all changes. Make one for {node}, or \
                     set NODE_NAME",
                    token.node()
                );
            }
            api = api.with_bearer(token.bearer());
        }
        work(Arc::new(config), node, api, token, daemon).await
    })
}

/// Runs until a task fails, which none does.
async fn work(
    config: Arc<Config>,
    node: String,
    api: Api,
    token: Option<token::Renewable>,
    daemon: impl numaloc_node::Daemon + Send + 'static,
) -> anyhow::Result<()> {
    let known = Arc::new(known::Known::new(node.clone(), config.config_maps.len()));
    let served = serve::Served { metrics: api.metrics(), ..serve::Served::default() };
    let (outbox, figures) = (Arc::clone(&served.outbox), Arc::clone(&served.figures));
    let share = Arc::clone(&served.share);
    let health = Arc::clone(&served.health);
    let mut tasks = tokio::task::JoinSet::new();
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    if let Some(address) = config.listen {
        let served = served.clone();
        tasks.spawn(async move {
            if let Err(error) = serve::serve(address, served, stopped).await {
                tracing::error!("cannot listen at {address} for metrics: {error}; set 'listen' in the configuration");
            }
            // Pods are served without it.
            std::future::pending().await
        });
    }
    if let Some(token) = token {
        let (api, health) = (api.clone(), Arc::clone(&health));
        tasks.spawn(async move { token::renew(token, &api, &health).await });
    }
    let select = |path: &str, fields: String, form| Selection {
        path: path.to_owned(),
        fields,
        form,
        is_optional: false,
    };
    let pods = select("/api/v1/pods", format!("spec.nodeName={node}"), Form::Whole);
    let (sink, seen) = (known::Pods(Arc::clone(&known)), health.watch(&pods.path));
    tasks.spawn({
        let api = api.clone();
        async move { follow(&api, &pods, &sink, &seen).await }
    });
    let own = select("/api/v1/nodes", format!("metadata.name={node}"), Form::Metadata);
    let (sink, seen) = (known::Node(Arc::clone(&known)), health.watch(&own.path));
    tasks.spawn({
        let api = api.clone();
        async move { follow(&api, &own, &sink, &seen).await }
    });
    for (at, object) in config.config_maps.iter().enumerate() {
        let path = format!("/api/v1/namespaces/{}/configmaps", object.namespace);
        let selection = select(&path, format!("metadata.name={}", object.name), Form::Whole);
        let (api, sink) = (api.clone(), known::ConfigMap(Arc::clone(&known), at));
        let seen = health.watch(&selection.path);
        tasks.spawn(async move { follow(&api, &selection, &sink, &seen).await });
    }
    for kind in PolicyKind::ALL {
        let selection = Selection {
            path: format!("/apis/{GROUP}/{VERSION}/{}", kind.plural()),
            fields: String::new(),
            form: Form::Whole,
            is_optional: true,
        };
        let (api, sink) = (api.clone(), known::PoliciesOf(Arc::clone(&known), kind));
        let seen = health.watch(&selection.path);
        tasks.spawn(async move { follow(&api, &selection, &sink, &seen).await });
    }
    let namespaces = select("/api/v1/namespaces", String::new(), Form::Metadata);
    tasks.spawn({
        let (api, known, health) = (api.clone(), Arc::clone(&known), Arc::clone(&health));
        async move {
            known.namespaces_needed().await;
            let seen = health.watch(&namespaces.path);
            follow(&api, &namespaces, &known::Namespaces(known), &seen).await
        }
    });
    tasks.spawn({
        let (api, known, node) = (api.clone(), Arc::clone(&known), node.clone());
        async move { lead::lead(&api, &known, &node).await }
    });
    let slot = Arc::new(locality::Slot::default());
    let keeper = keeper::Keeper::new(
        Arc::clone(&config),
        node.clone(),
        daemon,
        known,
        served,
        Arc::clone(&slot),
    );
    tasks.spawn({
        let (api, node) = (api.clone(), node.clone());
        let figures = Arc::clone(&figures);
        async move { writer::write_node(&node, &api, &slot, &figures).await }
    });
    if config.node_feature {
        figures.always();
        let (api, node) = (api.clone(), node.clone());
        tasks.spawn(async move { feature::write(&node, &api, &share).await });
    }
    tasks.spawn({
        let (config, outbox) = (Arc::clone(&config), Arc::clone(&outbox));
        async move { writer::write(&config, &node, &api, &outbox).await }
    });
    tasks.spawn(numaloc_node::keep(keeper));
    match tasks.join_next().await {
        Some(Err(error)) => Err(error).context("a task has failed"),
        Some(Ok(never)) => match never {},
        None => Ok(()),
    }
}
