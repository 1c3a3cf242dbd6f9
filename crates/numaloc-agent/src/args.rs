//! The arguments of the command line.

#[cfg(test)]
#[path = "../../../tests/docs/commands.rs"]
mod documented;

use crate::config::Config;
use clap::Parser;
use numaloc_node::NodeArgs;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  numaloc-agent                                in a pod that has NODE_NAME from spec.nodeName
  numaloc-agent --check-config                 report errors in the configuration
  KUBECONFIG=admin.conf numaloc-agent --node-name node-1 --endpoint unix:///tmp/n.sock

Exit codes: 0 done, 1 failure, 2 usage.";

/// Turn policies of pods into schedules, and post the results.
#[derive(Clone, Debug, Default, Parser)]
#[command(name = "numaloc-agent", version, after_help = EXAMPLES)]
pub struct Args {
    /// The name of this node in the cluster.
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: Option<String>,
    /// Do nothing but pass connections at SOCKET on to KUBELET, the kubelet's socket for devices, which is for root alone.
    #[arg(long, num_args = 2, value_names = ["SOCKET", "KUBELET"])]
    pub relay: Vec<PathBuf>,
    #[command(flatten)]
    pub node: NodeArgs<Config>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_commands_parse() {
        documented::all_parse("numaloc-agent", 1, |words| Args::try_parse_from(words).map(drop));
    }
}
