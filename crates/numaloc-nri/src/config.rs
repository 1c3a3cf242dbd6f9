//! The configuration: TOML, checked strictly.

use crate::labels::MARK;
use numaloc_config::{
    Document,
    value::{DAY_MS, duration},
};
use numaloc_node::{Configuration, ENDPOINT, LEASE, Mark};
use numaloc_policy::{Defaults, MemoryPolicy};
use serde::Deserialize;
use std::{path::PathBuf, time::Duration};

/// The name under which the plugin registers with the runtime.
pub const NAME: &str = "numaloc-nri";

/// The source of this host's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// NRI where the runtime has it, else containerd's events. Changes over when that changes.
    Auto,
    /// NRI alone: without it the plugin waits.
    Nri,
    /// containerd's events and its CRI alone, at containerd's own socket.
    Containerd,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Config {
    pub source: Source,
    /// The runtime's socket for plugins.
    pub nri_socket: PathBuf,
    /// containerd's own socket, for its events and the CRI.
    pub containerd_socket: PathBuf,
    /// Address of numalocd: `unix:///PATH`.
    pub endpoint: String,
    /// Two digits: runtimes call plugins in this order. One that is launched by the runtime has the index of its file's
    /// name.
    pub index: String,
    /// The account that the process changes to if it is started as root.
    pub user: String,
    /// Whether this plugin decides about policies.
    pub policies: Policies,
    /// Whether new containers are bound to the memory of their nodes.
    pub align_mems: AlignMems,
    /// The memory policies that pods may ask for, for their containers that are created from now on.
    pub memory_policies: Vec<MemoryPolicy>,
    /// Time that numalocd keeps containers and their schedules that are not renewed.
    #[serde(deserialize_with = "duration::<30_000, DAY_MS, _, _>")]
    pub lease: Duration,
    /// Policies for pods that name none, and the most that pods may ask for.
    pub pods: Defaults,
}

/// The program that decides about policies, so that two never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policies {
    /// numaloc-agent where it is, as its records at numalocd show, else this plugin.
    Auto,
    /// As `Auto`. Obsolete: a plugin that decided beside the agent kept schedules of pods that the agent was to switch
    /// off.
    Nri,
    /// Another program, such as an agent for Kubernetes, also before it runs. This plugin registers containers only.
    Agent,
}

impl Policies {
    /// Whether this plugin decides where numaloc-agent does not.
    pub fn yields(self) -> bool {
        self != Self::Agent
    }
}

/// Whether new containers are bound to the memory of their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlignMems {
    Off,
    /// Containers that are pinned to CPUs of some of the nodes, and not yet to memory.
    Preferred,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            source: Source::Auto,
            nri_socket: nri::SOCKET.into(),
            containerd_socket: containerd::SOCKET.into(),
            endpoint: ENDPOINT.to_owned(),
            index: "90".to_owned(),
            user: "numaloc-nri".to_owned(),
            policies: Policies::Auto,
            align_mems: AlignMems::Off,
            memory_policies: Vec::new(),
            lease: LEASE,
            pods: Defaults::default(),
        }
    }
}

impl Config {
    /// Whether new containers are changed, for which the machine's nodes have to be known.
    pub fn needs_nodes(&self) -> bool {
        self.align_mems != AlignMems::Off || !self.memory_policies.is_empty()
    }
}

impl Configuration for Config {
    const PATH: &'static str = "/etc/numaloc/nri.toml";
    const MARK: Mark = MARK;

    fn endpoint(&mut self) -> &mut String {
        &mut self.endpoint
    }

    fn check(&self, document: &mut Document<'_>) {
        if let Err(error) = nri::Identity::new(NAME, &self.index) {
            document.refuse("index", error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_node::fake::{assert_documented, assert_sample, parsed};

    #[test]
    fn the_sample_has_the_defaults() {
        assert_sample::<Config>(include_str!("../../../systemd/nri.toml"));
    }

    #[test]
    fn documented_keys_are_those_that_are_read() {
        let page = include_str!("../../../docs/containerd.md");
        assert_documented::<Config>(page, "\n## Configuration\n");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, expected) in [
            ("polices = \"nri\"", "polices"),
            ("policies = \"both\"", "both"),
            ("source = \"cri\"", "cri"),
            ("index = \"7\"", "two digits"),
            ("lease = \"5s\"", "5s is out of range: 30s to 1d"),
            ("lease = \"5w\"", "expected a duration"),
            ("endpoint = \"here\"", "endpoint"),
            ("memory_policies = [\"bind\"]", "bind"),
            ("memory_policies = \"exempt\"", "memory_policies"),
            ("[pods]\nlsx = {}", "lsx"),
        ] {
            let error = parsed::<Config>(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }
}
