//! The arguments of the command line.

#[cfg(test)]
#[path = "../../../tests/docs/commands.rs"]
mod documented;

use crate::config::{Config, Source};
use clap::Parser;
use numaloc_config::FileError;
use numaloc_node::NodeArgs;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  numaloc-nri                       as configured in /etc/numaloc/nri.toml
  numaloc-nri --check-config        report errors in the configuration
  numaloc-nri --source containerd   by containerd's events, on a host without NRI
  numaloc-nri --nri-socket /run/nri/nri.sock --endpoint unix:///tmp/n.sock

A runtime that finds it as /opt/nri/plugins/90-numaloc-nri launches it by itself.

Exit codes: 0 done, 1 failure, 2 usage.";

/// Report containers to numalocd, and schedule their policies.
#[derive(Clone, Debug, Default, Parser)]
#[command(name = "numaloc-nri", version, after_help = EXAMPLES)]
pub struct Args {
    /// Source of the containers: NRI, containerd's own events, or NRI if the runtime has it and containerd's events otherwise
    /// [default: source in the configuration, or auto].
    #[arg(long, value_enum)]
    pub source: Option<Source>,
    /// The runtime's socket for plugins [default: nri_socket in the configuration, or /var/run/nri/nri.sock].
    #[arg(long, value_name = "PATH")]
    pub nri_socket: Option<PathBuf>,
    /// containerd's own socket [default: containerd_socket in the configuration, or /run/containerd/containerd.sock].
    #[arg(long, value_name = "PATH")]
    pub containerd_socket: Option<PathBuf>,
    #[command(flatten)]
    pub node: NodeArgs<Config>,
}

impl Args {
    /// The configuration, with what the command line says instead.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn configuration(&self) -> Result<Config, FileError> {
        let mut config = self.node.configuration()?;
        self.source.iter().for_each(|source| config.source = *source);
        self.containerd_socket.iter().for_each(|path| config.containerd_socket.clone_from(path));
        self.nri_socket.iter().for_each(|path| config.nri_socket.clone_from(path));
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_commands_parse() {
        documented::all_parse("numaloc-nri", 2, |words| Args::try_parse_from(words).map(drop));
    }
}
