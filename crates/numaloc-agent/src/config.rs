//! The configuration: TOML, checked strictly.

use crate::labels::MARK;
use numaloc_config::value::{DAY_MS, count, duration};
use numaloc_node::{Configuration, ENDPOINT, Mark};
use numaloc_policy::Defaults;
use serde::{Deserialize, Deserializer, de::Error};
use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Config {
    /// Address of numalocd: `unix:///PATH`.
    pub endpoint: String,
    /// Address of the server for metrics and health; `None`: not served.
    #[serde(deserialize_with = "listen")]
    pub listen: Option<SocketAddr>,
    /// The part of numalocd's figures that is served.
    pub metrics: Metrics,
    /// The program that registers containers with numalocd.
    pub register: Register,
    /// Time that numalocd keeps containers that are not renewed.
    #[serde(deserialize_with = "duration::<30_000, DAY_MS, _, _>")]
    pub lease: Duration,
    /// ConfigMaps with policies for classes. The first that has a key counts for it.
    pub config_maps: Vec<ObjectName>,
    /// The socket of the kubelet for devices that it has given to containers; `None`: it is not asked.
    #[serde(deserialize_with = "socket")]
    pub pod_resources: Option<PathBuf>,
    /// Whether Node Feature Discovery is to label the node with the class of its remote memory.
    pub node_feature: bool,
    /// The agent that acts for a pod whose status another program has written.
    pub other_agent: OtherAgent,
    /// The agents besides us that write the status: how their names begin as managers of fields. What others have
    /// written, such as a restored backup, is no agent's.
    pub other_agents: Vec<String>,
    /// The component that events of Koordinator's contract are of.
    pub event_component: String,
    /// Most events that may be posted at once.
    #[serde(deserialize_with = "count::<1, 10_000, _, _>")]
    pub event_burst: u32,
    /// The time after which one more may be posted.
    #[serde(deserialize_with = "duration::<10, DAY_MS, _, _>")]
    pub event_interval: Duration,
    /// Most status annotations that may be written at once.
    #[serde(deserialize_with = "count::<1, 10_000, _, _>")]
    pub status_burst: u32,
    /// The time after which one more may be written.
    #[serde(deserialize_with = "duration::<10, DAY_MS, _, _>")]
    pub status_interval: Duration,
    /// Policies for pods that name none, and the most that pods may ask for.
    pub pods: Defaults,
}

/// Bounds of the metrics that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Metrics {
    /// Most containers with series of their own, which name their pods; 0: none, and no name of a pod is served.
    #[serde(deserialize_with = "count::<0, 1000, _, _>")]
    pub containers: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { containers: 50 }
    }
}

/// The program that registers the containers of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Register {
    /// numaloc-nri where it has registered any, else the agent.
    Auto,
    Always,
    /// numaloc-nri, for which the agent waits.
    Never,
}

/// The agent that acts for a pod whose status another program has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OtherAgent {
    /// The other program. This agent stands back, and reports it.
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

/// A path; an empty text is none.
fn socket<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    let path = PathBuf::deserialize(from)?;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let bad = || D::Error::custom(format!("{} is not an absolute path", path.display()));
    if path.is_absolute() { Ok(Some(path)) } else { Err(bad()) }
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
            endpoint: ENDPOINT.to_owned(),
            listen: Some(([0u16; 8], 9469).into()),
            metrics: Metrics::default(),
            register: Register::Auto,
            // While the agent is away, for example for an upgrade, the schedules of containers that run continue.
            lease: Duration::from_secs(3600),
            config_maps: vec![config_map("kube-system", "ack-slo-config")],
            pod_resources: Some(podresources::SOCKET.into()),
            node_feature: false,
            other_agent: OtherAgent::StandBack,
            other_agents: vec!["koordlet".to_owned()],
            event_component: "koordlet".to_owned(),
            event_burst: 100,
            event_interval: Duration::from_secs(1),
            status_burst: 20,
            status_interval: Duration::from_secs(5),
            pods: Defaults::default(),
        }
    }
}

impl Configuration for Config {
    const PATH: &'static str = "/etc/numaloc/agent.toml";
    const MARK: Mark = MARK;

    fn endpoint(&mut self) -> &mut String {
        &mut self.endpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_node::fake::{assert_documented, assert_sample, parsed};

    #[test]
    fn the_sample_has_the_defaults() {
        assert_sample::<Config>(include_str!("../../../systemd/agent.toml"));
    }

    #[test]
    fn documented_keys_are_those_that_are_read() {
        let page = include_str!("../../../docs/kubernetes.md");
        assert_documented::<Config>(page, "\n## The node agent\n");
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
            ("pod_resources = \"kubelet.sock\"", "kubelet.sock is not an absolute path"),
            ("status_burst = 0", "0 is out of range"),
            ("endpoint = \"here\"", "endpoint"),
            ("[pods]\nlsx = {}", "lsx"),
        ] {
            let error = parsed::<Config>(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(parsed::<Config>("listen = \"\"").expect("valid").listen, None);
        let without = parsed::<Config>("pod_resources = \"\"").expect("valid");
        assert_eq!(without.pod_resources, None);
    }
}
