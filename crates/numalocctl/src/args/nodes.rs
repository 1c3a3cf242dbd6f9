//! Nodes, by number, by `all`, or by a device that is attached to them.

use crate::exit::Failure;
use numaloc_core::NodeSet;
use numaloc_host::{Device, Roots};

/// Nodes as numactl takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// The default, as if the option had never been given.
    Default,
    /// `all`: every node that has memory.
    All,
    /// The nodes of a list such as `0-1,3`.
    Only(NodeSet),
    /// Every node with memory but these.
    Except(NodeSet),
    /// The nodes that a device of this host is attached to, such as `iface:eth0`.
    Of(Device),
}

/// Nodes that memory goes to.
pub fn parse_targets(text: &str) -> Result<Nodes, String> {
    parse_nodes(text, "local")
}

/// Nodes that memory comes from.
pub fn parse_sources(text: &str) -> Result<Nodes, String> {
    parse_nodes(text, "default")
}

fn parse_nodes(text: &str, default: &str) -> Result<Nodes, String> {
    match text.trim() {
        "all" => return Ok(Nodes::All),
        word if word == default => return Ok(Nodes::Default),
        _ => {}
    }
    if ["device:", "iface:", "block:", "path:"].iter().any(|kind| text.starts_with(kind)) {
        return text.parse().map(Nodes::Of);
    }
    let (except, list) = match text.trim().strip_prefix('!') {
        Some(list) => (true, list),
        None => (false, text),
    };
    match list.parse::<NodeSet>() {
        Ok(nodes) if !nodes.is_empty() => {
            Ok(if except { Nodes::Except(nodes) } else { Nodes::Only(nodes) })
        }
        _ => Err(format!(
            "'{text}' is not a valid list of nodes: expected for example 0-1,8, all, !0, iface:eth0 or {default}"
        )),
    }
}

impl Nodes {
    /// These nodes on a machine with memory on `with_memory`, given by the option `name`; `None`: the default.
    ///
    /// # Errors
    /// No node is left; nothing says which node a device is attached to.
    pub fn among(&self, with_memory: &NodeSet, name: &str) -> Result<Option<NodeSet>, Failure> {
        match self {
            Self::Default => Ok(None),
            Self::All => Ok(Some(with_memory.clone())),
            Self::Only(nodes) => Ok(Some(nodes.clone())),
            Self::Of(device) => Ok(Some(device.nodes(&Roots::default())?)),
            Self::Except(nodes) => {
                let rest = with_memory.minus(nodes);
                match rest.is_empty() {
                    true => {
                        Err(Failure::Usage(format!("{name} !{nodes} leaves no node with memory")))
                    }
                    false => Ok(Some(rest)),
                }
            }
        }
    }
}
