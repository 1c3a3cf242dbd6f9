//! The configuration: TOML, checked strictly.

use crate::labels::MARK;
use numaloc_config::{
    Document, FileError, Problem, load,
    value::{DAY_MS, count, duration},
};
use numaloc_node::Grpc;
use numaloc_policy::Defaults;
use serde::{Deserialize, Deserializer, de::Error};
use std::{fmt, net::SocketAddr, path::Path, str::FromStr, time::Duration};

/// Where it is, unless the command line names another file.
pub const PATH: &str = "/etc/numaloc/agent.toml";

/// What the operator has set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Config {
    /// Address of numalocd: `unix:///PATH`.
    pub endpoint: String,
    /// Where the metrics and the state of health are served; `None`: nowhere.
    #[serde(deserialize_with = "listen")]
    pub listen: Option<SocketAddr>,
    /// What is served of numalocd's figures.
    pub metrics: Metrics,
    /// Who registers containers with numalocd.
    pub register: Register,
    /// How long numalocd keeps containers that are not renewed.
    #[serde(deserialize_with = "duration::<30_000, DAY_MS, _, _>")]
    pub lease: Duration,
    /// ConfigMaps with policies for classes. The first that has a key counts for it.
    pub config_maps: Vec<ObjectName>,
    /// Who acts for a pod whose status another program has written.
    pub other_agent: OtherAgent,
    /// The component that events of Koordinator's contract are of.
    pub event_component: String,
    /// How many status annotations may be written at once.
    #[serde(deserialize_with = "count::<1, 10_000, _, _>")]
    pub status_burst: u32,
    /// The time after which one more may be written.
    #[serde(deserialize_with = "duration::<10, DAY_MS, _, _>")]
    pub status_interval: Duration,
    /// Policies for pods that name none, and the most that pods may ask for.
    pub pods: Defaults,
}

/// What the metrics have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Metrics {
    /// Most containers with series of their own, which name their pods; 0: none, and no name of a pod is served.
    #[serde(deserialize_with = "count::<0, 1000, _, _>")]
    pub containers: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { containers: 500 }
    }
}

/// Who registers the containers of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Register {
    /// numaloc-nri where it has registered any, else the agent.
    Auto,
    /// The agent.
    Always,
    /// numaloc-nri, for which the agent waits.
    Never,
}

/// Who acts for a pod whose status another program has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OtherAgent {
    /// That one. This agent stands back, and says so.
    StandBack,
    /// This agent: the other one has been removed.
    TakeOver,
}

/// The namespace and the name of an object, as `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    pub namespace: String,
    pub name: String,
}

impl FromStr for ObjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            let is_known = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte)
            };
            (1..=253).contains(&name.len()) && name.bytes().all(is_known)
        };
        match text.split_once('/') {
            Some((namespace, name)) if is_name(namespace) && is_name(name) => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(format!("\"{text}\" is not the name of an object: write NAMESPACE/NAME")),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl<'de> Deserialize<'de> for ObjectName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// An address and a port; an empty text is none.
fn listen<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    let bad = || {
        D::Error::custom(format!(
            "\"{text}\" is not an address: write ADDRESS:PORT, such as [::]:9469"
        ))
    };
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| bad()) }
}

impl Default for Config {
    fn default() -> Self {
        let config_map = |namespace: &str, name: &str| ObjectName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        Self {
            endpoint: "unix:///run/numaloc/numalocd.sock".to_owned(),
            listen: Some(([0u16; 8], 9469).into()),
            metrics: Metrics::default(),
            register: Register::Auto,
            lease: Duration::from_secs(300),
            config_maps: vec![config_map("kube-system", "ack-slo-config")],
            other_agent: OtherAgent::StandBack,
            event_component: "koordlet".to_owned(),
            status_burst: 20,
            status_interval: Duration::from_secs(5),
            pods: Defaults::default(),
        }
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
    if let Err(error) = Grpc::new(&config.endpoint, MARK) {
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
        let sample = include_str!("../../../systemd/agent.toml");
        let bare = parsed(sample).expect("it is valid");
        let all = parsed(&uncommented(sample)).expect("it is valid");
        for config in [bare, all] {
            assert_eq!(config, Config::default());
        }
    }

    #[test]
    fn documented_keys_are_those_that_are_read() {
        let error = parsed("surely_not = 1").expect_err("there is no such key");
        let (_, known) =
            error.split_once("expected one of ").expect("it lists those that are known");
        let mut read: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        let page = include_str!("../../../docs/kubernetes.md");
        let (_, page) = page.split_once("\n## The node agent\n").expect("a section");
        let section = page.split("\n## ").next().expect("what there is up to the next one");
        let (_, table) = section.split_once("| key |").expect("a table of them");
        let table = table.split("\n\n").next().expect("what there is up to an empty line");
        let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        let mut documented: Vec<&str> =
            rows.flat_map(|(keys, _)| keys.split('`').skip(1).step_by(2)).collect();
        read.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, read);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, expected) in [
            ("polices = \"nri\"", "polices"),
            ("register = \"both\"", "both"),
            ("lease = \"5s\"", "5s is out of range: 30s to 1d"),
            ("config_maps = [\"ack-slo-config\"]", "write NAMESPACE/NAME"),
            ("config_maps = [\"kube-system/\"]", "write NAMESPACE/NAME"),
            ("listen = \"9469\"", "write ADDRESS:PORT"),
            ("metrics = {containers = 1001}", "1001 is out of range: 0 to 1000"),
            ("[metrics]\nseries = 1", "series"),
            ("status_burst = 0", "0 is out of range"),
            ("endpoint = \"here\"", "endpoint"),
            ("[pods]\nlsx = {}", "lsx"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(parsed("listen = \"\"").expect("valid").listen, None);
    }
}
