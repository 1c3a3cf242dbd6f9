//! The command line.

use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const NOTES: &str = "\
Exit codes: 0 done, 1 failure or something needs attention, 2 usage, 3 not found, 4 permission, 5 unreachable.";

/// Show and improve the memory locality of pods.
#[derive(Debug, Parser)]
#[command(name = "kubectl-numaloc", bin_name = "kubectl numaloc", version, after_help = NOTES)]
pub struct Args {
    /// The cluster, and the namespace in it.
    #[command(flatten)]
    pub place: Place,
    /// The subcommand.
    #[command(subcommand)]
    pub action: Action,
}

/// The cluster, and the namespace in it.
#[derive(Debug, Default, clap::Args)]
pub struct Place {
    /// Namespace of the pods [default: the namespace of the kubeconfig's context].
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Context of the kubeconfig [default: the current one].
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// File with the kubeconfig [default: $KUBECONFIG, or ~/.kube/config].
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// The subcommand.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Show where remote memory is, as the agents have reported it.
    Top {
        /// Nodes or containers.
        #[command(subcommand)]
        of: View,
        /// Output format.
        #[arg(short, long, global = true, default_value = "table")]
        output: Output,
    },
    /// Show the policies of a pod, and their results.
    ///
    /// It shows which policy applies to each container, the last result, and why memory stays where it is.
    Explain {
        /// Name of the pod.
        pod: String,
    },
    /// Run the policies of a pod once, now.
    ///
    /// It needs the permission to patch the pod.
    Run {
        /// Name of the pod.
        pod: String,
        /// Name of this run: the same name runs once [default: the time].
        #[arg(long)]
        id: Option<String>,
    },
    /// List policies, the pods that they select, and their errors.
    Policies {
        /// Policies of all namespaces.
        #[arg(short = 'A', long)]
        all_namespaces: bool,
        /// Output format.
        #[arg(short, long, default_value = "table")]
        output: Output,
    },
    /// Check the agents, their daemons and the policies.
    ///
    /// It checks that an agent runs on each node and reaches its daemon, and that policies are valid.
    Doctor,
    /// Print completions of the last word, for kubectl_complete-numaloc.
    #[command(name = "__complete", hide = true)]
    Complete {
        /// The words after `kubectl numaloc`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// What `top` shows.
#[derive(Debug, Subcommand)]
pub enum View {
    /// Nodes, those with the most remote memory first.
    Nodes,
    /// Containers with remote memory: the first ten of each node.
    Containers {
        /// Containers of all namespaces.
        #[arg(short = 'A', long)]
        all_namespaces: bool,
    },
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table.
    Table,
    /// JSON.
    Json,
}
