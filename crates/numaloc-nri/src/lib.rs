//! The plugin of containerd and CRI-O. It registers every container with numalocd, and makes a schedule of the policy
//! that a container's pod declares.
//!
//! ```text
//! NRI -> handlers ----\
//!                      inbox -> keeper -> numalocd
//! containerd -> events /
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `handlers` | handlers of the runtime's calls. They put facts into the inbox and answer at once |
//! | `facts` | the facts about a container, from the runtime's messages |
//! | `queue` | facts that wait, one change for each container; pure |
//! | `inbox` | the queue between two tasks |
//! | `cgroup` | from a runtime's name of a cgroup to its path; pure |
//! | `wanted` | from facts to the records that the daemon should have: a workload, and a schedule; pure |
//! | `agent` | the records of numaloc-agent at numalocd; where it runs, it decides about policies; pure |
//! | `labels` | marks of our workloads and schedules |
//! | `keeper` | gives `numaloc-node` the containers with the records wanted for them, and again after each failure |
//! | `source` | the source of containers: NRI or containerd's events |
//! | `runtime` | the connection to the runtime by NRI, made again with back-off |
//! | `events` | the connection to containerd's own socket, in the same way |
//! | `containers` | facts from containerd's CRI |
//! | `seen` | from events and lists of containerd to changes; pure |
//! | `align` | memory nodes for new containers, if the operator wants that |
//! | `creation` | memory policies for new containers, if the operator allows them and a pod asks for one |
//! | `account` | leaves root behind, once the connection is there |
//! | `watchdog` | notifies the service manager that both tasks continue, or ends the process where there is none |
//!
//! **The plugin compares, it does not replay.** The runtime waits for each of its plugins, so the handlers only put the
//! last change of a container into a bounded queue; if that overflows, the connection is made again, which begins with
//! all containers. From the containers that run, and these alone, the keeper derives the records that numalocd should
//! have: ids of workloads and schedules are made of container ids, and a label of the schedule encodes the policy and
//! the CPUs from which it was made. After any failure it declares all and compares, and each step may be done twice.
//! Nothing is declared before the runtime has listed all containers, and nothing is stored.
//!
//! **An event is a reason to ask.** Without NRI, containerd's events name a container and little else, and some come
//! before the reported action is done. So each is followed by a query of the CRI, and a difference from the known state
//! becomes a change. The end of a container is believed at once: lists may have it for a moment longer.
#![forbid(unsafe_code)]

mod account;
mod agent;
mod align;
mod args;
mod cgroup;
mod config;
mod containers;
mod creation;
mod events;
mod facts;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod handlers;
mod inbox;
mod keeper;
mod labels;
mod queue;
mod runtime;
mod seen;
mod source;
#[cfg(test)]
mod tests;
mod wanted;
mod watchdog;

use anyhow::Context;
use args::Args;
use clap::{Command, CommandFactory, Parser};
use config::Config;
use runtime::Begun;
use std::{env, process::ExitCode, sync::Arc};

/// The command line, of which its man page is made.
pub fn command() -> Command {
    Args::command()
}

/// Runs the plugin with the arguments of this process.
pub fn main() -> ExitCode {
    let args = Args::parse();
    numaloc_node::main("numaloc-nri", args.configuration(), args.node.check_config, run)
}

fn run(config: Config) -> anyhow::Result<()> {
    let launched = nri::Launched::read(|name| env::var(name).ok())?;
    numaloc_node::start_log("numaloc-nri", "info", launched.is_some()).context("cannot log")?;
    if config.policies == config::Policies::Nri {
        tracing::warn!(
            "policies = \"nri\" is obsolete, has the effect of \"auto\", and is unknown to the next version: numaloc-nri decides where \
             numaloc-agent does not run. Remove it from nri.toml"
        );
    }
    let begun = match launched {
        Some(launched) => Begun::Launched(launched),
        None if account::is_to_leave_root(&config.user) => Begun::by_root(&config),
        None => Begun::Nothing,
    };
    // Before there are other threads.
    account::leave_root(&config.user)?;
    numaloc_node::until_stopped(serve(Arc::new(config), begun))
}

/// Runs until the runtime that has launched this process ends the connection.
async fn serve(config: Arc<Config>, begun: Begun) -> anyhow::Result<()> {
    let inbox = Arc::new(inbox::Inbox::new(queue::MOST));
    let nodes = align::MachineNodes::default();
    let daemon = numaloc_node::Grpc::new(&config.endpoint, labels::MARK)?;
    let keeper =
        keeper::Keeper::new(Arc::clone(&config), daemon, nodes.clone(), Arc::clone(&inbox));
    let connection = source::serve(Arc::clone(&config), begun, inbox, nodes);
    let watchdog = Arc::new(watchdog::Watchdog::from_env().context("cannot start a thread")?);
    let beating = Arc::clone(&watchdog);
    // In a thread of its own: however long the keeper takes, the runtime has its answers.
    let connection = tokio::spawn(async move {
        tokio::select! {
            ended = connection => ended,
            () = beating.beat() => Ok(()),
        }
    });
    tokio::select! {
        ended = connection => ended.context("the connection's task has failed")?,
        never = numaloc_node::keep(keeper) => match never {},
        () = watchdog.pat() => Ok(()),
    }
}
