//! A VMA's memory policy as /proc/PID/numa_maps prints it (mm/mempolicy.c, `mpol_to_str`).

use crate::machine::ids::NodeSet;
use std::{convert::Infallible, fmt, str::FromStr};

/// The memory policy that the application has set.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Mempolicy {
    /// No wish for particular nodes: first touch decides (`default`, `local`).
    #[default]
    Default,
    /// Not read, because reading it would hold up the application. Treated as no wish.
    Unasked,
    /// These nodes first, others when they are full (`prefer`, `prefer (many)`).
    Preferred(NodeSet),
    /// `bind` (MPOL_BIND): pages may be on these nodes only.
    Bind(NodeSet),
    /// Spread over these nodes page by page (`interleave`, `weighted interleave`).
    Interleave(NodeSet),
    /// A policy that this version does not know, as numa_maps prints it. No page is moved against it.
    Other(String),
}

impl Mempolicy {
    /// The nodes of `targets` that a page may be moved to without acting against the policy. Interleaved memory is
    /// meant to be spread over its nodes, so no node is permitted.
    pub fn permits(&self, targets: &NodeSet) -> NodeSet {
        match self {
            Self::Default | Self::Unasked => targets.clone(),
            Self::Preferred(nodes) | Self::Bind(nodes) => targets.and(nodes),
            Self::Interleave(_) | Self::Other(_) => NodeSet::new(),
        }
    }
}

impl FromStr for Mempolicy {
    type Err = Infallible;

    /// Reads `mode[=flags][:nodes]`; a text that is not known becomes [`Mempolicy::Other`].
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (mode, nodes) = text.split_once(':').unwrap_or((text, ""));
        let mode = mode.split_once('=').map_or(mode, |(mode, _flags)| mode);
        let other = || Self::Other(text.to_owned());
        let Ok(nodes) = nodes.parse::<NodeSet>() else { return Ok(other()) };
        Ok(match mode {
            "default" | "local" => Self::Default,
            "prefer" | "prefer (many)" if nodes.is_empty() => Self::Default,
            "prefer" | "prefer (many)" => Self::Preferred(nodes),
            "bind" => Self::Bind(nodes),
            "interleave" | "weighted interleave" => Self::Interleave(nodes),
            _ => other(),
        })
    }
}

impl fmt::Display for Mempolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::Unasked => write!(f, "not asked"),
            Self::Preferred(nodes) => write!(f, "prefer:{nodes}"),
            Self::Bind(nodes) => write!(f, "bind:{nodes}"),
            Self::Interleave(nodes) => write!(f, "interleave:{nodes}"),
            Self::Other(text) => write!(f, "{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_numa_maps_prints_is_read() {
        let permits = |text: &str| {
            text.parse::<Mempolicy>().unwrap().permits(&"0-1".parse().unwrap()).to_string()
        };
        assert_eq!(permits("default"), "0-1");
        assert_eq!(permits("local"), "0-1");
        assert_eq!(permits("bind:1"), "1");
        assert_eq!(permits("bind=static:0,3"), "0");
        assert_eq!(permits("bind=static|balancing:2"), "");
        assert_eq!(permits("prefer:1"), "1");
        assert_eq!(permits("prefer (many):0-1"), "0-1");
        assert_eq!(permits("interleave:0-1"), "");
        assert_eq!(permits("weighted interleave:0-1"), "");
        assert_eq!(permits("something new:0"), "");
        assert_eq!(permits("bind:x"), "");
    }
}
