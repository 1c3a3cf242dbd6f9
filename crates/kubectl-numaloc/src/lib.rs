//! `kubectl numaloc`: the reports of a cluster's agents, its policies, and runs on demand. It speaks to the API server
//! alone, with the rights of its caller.
//!
//! | module | what it holds |
//! |---|---|
//! | `args` | the command line |
//! | `cluster` | requests to the API server |
//! | `top`, `policies`, `explain`, `run`, `doctor` | the commands: from objects to output; pure but for requests |
//! | `table`, `object` | tables, and fields of objects |
//! | `complete` | completions in a shell |
#![forbid(unsafe_code)]

mod args;
mod cluster;
mod complete;
mod doctor;
mod explain;
mod object;
mod policies;
mod run;
mod table;
#[cfg(test)]
mod tests;
mod top;

use args::{Action, Args, View};
use clap::{Command, CommandFactory, Parser};
use cluster::{Api, Failure, Kube};
use std::{process::ExitCode, time::SystemTime};

/// The command line, of which its man pages are made.
pub fn command() -> Command {
    Args::command()
}

/// Runs the plugin with the arguments of this process.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(connected(&args)),
        Err(error) => Err(Failure::Other(format!("cannot start: {error}"))),
    };
    match done {
        Ok(Answer { text, is_well }) => {
            print!("{}", plain(&text));
            if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failure) => {
            eprintln!("kubectl-numaloc: {}", plain(&failure.to_string()));
            failure.code()
        }
    }
}

/// A text without control characters but ends of lines: any user who may create a pod may write its annotations, and
/// terminals obey some of them.
fn plain(text: &str) -> String {
    let plain = |c: char| if c.is_control() && c != '\n' { '\u{fffd}' } else { c };
    text.chars().map(plain).collect()
}

/// The output of a command.
#[derive(Debug)]
struct Answer {
    text: String,
    /// Whether nothing needs attention.
    is_well: bool,
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Self { text, is_well: true }
    }
}

async fn connected(args: &Args) -> Result<Answer, Failure> {
    if let Action::Complete { words } = &args.action {
        return Ok(complete::run(words).await.into());
    }
    let cluster = Kube::connect(&args.place).await?;
    let namespace = args.place.namespace.clone().unwrap_or_else(|| cluster.default_namespace());
    answer(&cluster, &args.action, &namespace, SystemTime::now()).await
}

async fn answer(
    cluster: &impl Api,
    action: &Action,
    namespace: &str,
    now: SystemTime,
) -> Result<Answer, Failure> {
    match action {
        Action::Top { of: View::Nodes, output } => top::nodes(cluster, *output, now).await,
        Action::Top { of: View::Containers { all_namespaces }, output } => {
            let namespace = (!all_namespaces).then_some(namespace);
            top::containers(cluster, namespace, *output).await
        }
        Action::Explain { pod } => explain::run(cluster, namespace, pod, now).await,
        Action::Run { pod, id } => run::run(cluster, namespace, pod, id.as_deref(), now).await,
        Action::Policies { all_namespaces, output } => {
            let namespace = (!all_namespaces).then_some(namespace);
            policies::run(cluster, namespace, *output).await
        }
        Action::Doctor => doctor::run(cluster, now).await,
        // It answers without a cluster, too.
        Action::Complete { .. } => Ok(String::new().into()),
    }
}
