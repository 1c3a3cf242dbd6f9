//! The arguments of the command line.

#[cfg(test)]
#[path = "../../../tests/docs/commands.rs"]
mod documented;

use crate::config::{self, Config};
use clap::Parser;
use numaloc_config::FileError;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  numaloc-agent                                in a pod that has NODE_NAME from spec.nodeName
  numaloc-agent --check-config                 say what is wrong with the configuration
  KUBECONFIG=admin.conf numaloc-agent --node-name node-1 --endpoint unix:///tmp/n.sock

Exit codes: 0 done, 1 failure, 2 usage.";

/// Makes schedules of numalocd of what pods of this node and their cluster declare, and posts what became of them.
#[derive(Clone, Debug, Default, Parser)]
#[command(name = "numaloc-agent", version, after_help = EXAMPLES)]
pub struct Args {
    /// The name of this node in the cluster.
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: Option<String>,
    /// Address of numalocd [default: endpoint in the configuration, or unix:///run/numaloc/numalocd.sock].
    #[arg(long, value_name = "URI")]
    pub endpoint: Option<String>,
    /// Configuration file, which has to exist [default: /etc/numaloc/agent.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the configuration, print what is wrong, and exit.
    #[arg(long)]
    pub check_config: bool,
}

impl Args {
    /// The configuration, with what the command line says instead.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn configuration(&self) -> Result<Config, FileError> {
        let mut config = match &self.config {
            Some(path) => config::read(path, true)?,
            None => config::read(Path::new(config::PATH), false)?,
        };
        self.endpoint.iter().for_each(|endpoint| config.endpoint.clone_from(endpoint));
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_commands_parse() {
        documented::all_parse("numaloc-agent", 1, |words| Args::try_parse_from(words).map(drop));
    }
}
