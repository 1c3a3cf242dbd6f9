//! The configuration: TOML, checked strictly.

use numaloc_config::{
    Document, FileError, Problem, load,
    value::{DAY_MS, duration},
};
use numaloc_policy::{Defaults, MemoryPolicy};
use serde::Deserialize;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Where it is, unless the command line names another file.
pub const PATH: &str = "/etc/numaloc/nri.toml";

/// The name under which the plugin registers with the runtime.
pub const NAME: &str = "numaloc-nri";

/// Which way the containers of this host are told.
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

/// What the operator has set.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Config {
    /// Which way containers are told.
    pub source: Source,
    /// The runtime's socket for plugins.
    pub nri_socket: PathBuf,
    /// containerd's own socket, for its events and the CRI.
    pub containerd_socket: PathBuf,
    /// Address of numalocd: `unix:///PATH`.
    pub endpoint: String,
    /// Two digits: runtimes call plugins in this order. One that is launched by the runtime has the index of its file's name.
    pub index: String,
    /// The account that the process changes to if it is started as root.
    pub user: String,
    /// Whether this plugin decides about policies.
    pub policies: Policies,
    /// Whether new containers are bound to the memory of their nodes.
    pub align_mems: AlignMems,
    /// The memory policies that pods may ask for, for their containers that are created from now on.
    pub memory_policies: Vec<MemoryPolicy>,
    /// How long numalocd keeps containers and their schedules that are not renewed.
    #[serde(deserialize_with = "duration::<30_000, DAY_MS, _, _>")]
    pub lease: Duration,
    /// Policies for pods that name none, and the most that pods may ask for.
    pub pods: Defaults,
}

/// Who decides about policies, so that two never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policies {
    /// This plugin, by the annotations that a pod has when it is made.
    Nri,
    /// Somebody else, such as an agent for Kubernetes. This plugin registers containers only.
    Agent,
}

/// Whether new containers are bound to the memory of their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlignMems {
    Off,
    /// Those that are pinned to CPUs of some of the nodes, and to no memory yet.
    Preferred,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            source: Source::Auto,
            nri_socket: nri::SOCKET.into(),
            containerd_socket: containerd::SOCKET.into(),
            endpoint: "unix:///run/numaloc/numalocd.sock".to_owned(),
            index: "90".to_owned(),
            user: "numaloc-nri".to_owned(),
            policies: Policies::Nri,
            align_mems: AlignMems::Off,
            memory_policies: Vec::new(),
            lease: Duration::from_secs(300),
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

/// Reads a file. If there is none, the defaults hold, unless the file was asked for (`explicit`).
///
/// # Errors
/// The file cannot be read, or its contents are invalid.
pub fn read(path: &Path, explicit: bool) -> Result<Config, FileError> {
    load(path, explicit, parse)
}

/// Reads the text of a file.
///
/// # Errors
/// All mistakes in it.
pub fn parse(text: &str) -> Result<Config, Vec<Problem>> {
    let (config, mut document) = Document::read::<Config>(text);
    if let Err(error) = nri::Identity::new(NAME, &config.index) {
        document.refuse("index", error);
    }
    if let Err(error) = numaloc_node::Grpc::new(&config.endpoint, crate::labels::MARK) {
        document.refuse("endpoint", error);
    }
    document.conclude(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_config::samples::uncommented;

    fn parsed(text: &str) -> Result<Config, String> {
        parse(text).map_err(|problems| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            lines.join("\n")
        })
    }

    #[test]
    fn the_sample_has_the_defaults() {
        let sample = include_str!("../../../systemd/nri.toml");
        let bare = parsed(sample).expect("it is valid");
        let all = parsed(&uncommented(sample)).expect("it is valid");
        for config in [bare, all] {
            assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
        }
    }

    #[test]
    fn documented_keys_are_those_that_are_read() {
        let error = parsed("surely_not = 1").expect_err("there is no such key");
        let (_, known) =
            error.split_once("expected one of ").expect("it lists those that are known");
        let mut read: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        let page = include_str!("../../../docs/containerd.md");
        let (_, page) = page.split_once("\n## Configuration\n").expect("a section");
        let section = page.split("\n## ").next().expect("what there is up to the next one");
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let mut documented: Vec<&str> = rows.map(|(key, _)| key).collect();
        read.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, read);
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
            let error = parsed(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }
}
