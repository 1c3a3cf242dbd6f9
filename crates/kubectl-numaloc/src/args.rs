//! The command line.

use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const NOTES: &str = "\
Exit codes: 0 done, 1 failure or something needs attention, 2 usage, 3 not found, 4 a right is missing, 5 unreachable.";

/// Shows how much memory of a cluster's containers is on the NUMA nodes of their CPUs, and brings it there.
#[derive(Debug, Parser)]
#[command(name = "kubectl-numaloc", bin_name = "kubectl numaloc", version, after_help = NOTES)]
pub struct Args {
    /// Which cluster, and where in it.
    #[command(flatten)]
    pub place: Place,
    /// What is to be done.
    #[command(subcommand)]
    pub action: Action,
}

/// Which cluster, and where in it.
#[derive(Debug, Default, clap::Args)]
pub struct Place {
    /// Namespace of the pods [default: that of the kubeconfig's context].
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Context of the kubeconfig [default: the current one].
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// File with the kubeconfig [default: $KUBECONFIG, or ~/.kube/config].
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Show where remote memory is, as the agents have reported it.
    Top {
        /// What of.
        #[command(subcommand)]
        of: View,
        /// Output format.
        #[arg(short, long, global = true, default_value = "table")]
        output: Output,
    },
    /// Say which policy decides for the containers of a pod, what came of it, and why memory stays where it is.
    Explain {
        /// Name of the pod.
        pod: String,
    },
    /// Have the memory of a pod brought home once, now. It takes the right to patch the pod.
    Run {
        /// Name of the pod.
        pod: String,
        /// Name of this run: the same name runs once [default: the time].
        #[arg(long)]
        id: Option<String>,
    },
    /// List policies, how many pods they select, and what is wrong with them.
    Policies {
        /// Policies of all namespaces.
        #[arg(short = 'A', long)]
        all_namespaces: bool,
        /// Output format.
        #[arg(short, long, default_value = "table")]
        output: Output,
    },
    /// Check that agents run on all nodes, reach their daemon, and understand the policies.
    Doctor,
    /// Print what a shell may offer for the last of these words; kubectl_complete-numaloc calls it.
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
