//! Strategies of a ConfigMap's value by node: `clusterStrategy` for all nodes, and `nodeStrategies` for some, each merged over it.

use super::field;
use crate::selector::Selector;
use numaloc_config::written::{Problem, Tree};
use std::collections::BTreeMap;

/// What holds on the nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByNode<T> {
    cluster: T,
    /// What holds on some nodes. `None`: on none of them.
    nodes: Vec<(Option<Selector>, T)>,
}

impl<T> ByNode<T> {
    /// Reads all strategies: `of` one at its path, and `over` puts one over the cluster's.
    pub fn read(
        tree: &Tree,
        of: impl Fn(&str, &Tree) -> Result<T, Problem>,
        over: impl Fn(T, &T) -> T,
    ) -> Result<Self, Problem> {
        let (path, cluster) = field("", tree, "clusterStrategy")?;
        let cluster = of(&path, cluster)?;
        let (path, nodes) = field("", tree, "nodeStrategies")?;
        let nodes = match nodes {
            Tree::Null => &[][..],
            Tree::List(nodes) => nodes,
            other => return Err(Problem::sort(&path, "a list", other)),
        };
        let one = |(at, node): (usize, &Tree)| {
            let path = format!("{path}[{at}]");
            let (selector_path, selector) = field(&path, node, "nodeSelector")?;
            // As in Kubernetes, a missing selector selects nothing.
            let selector = match selector {
                Tree::Null => None,
                tree => Some(Selector::read(&selector_path, tree)?),
            };
            Ok((selector, over(of(&path, node)?, &cluster)))
        };
        let nodes = nodes.iter().enumerate().map(one).collect::<Result<_, Problem>>()?;
        Ok(Self { cluster, nodes })
    }

    /// The same, with what `read` makes of each strategy.
    pub fn try_map<U>(self, read: impl Fn(T) -> Result<U, Problem>) -> Result<ByNode<U>, Problem> {
        let nodes = self.nodes.into_iter().map(|(selector, own)| Ok((selector, read(own)?)));
        Ok(ByNode { nodes: nodes.collect::<Result<_, Problem>>()?, cluster: read(self.cluster)? })
    }

    /// What holds on a node with these labels: the first strategy that selects it, or the cluster's.
    pub fn for_node(&self, labels: &BTreeMap<String, String>) -> &T {
        let selecting = self.nodes.iter().find(|(selector, _)| {
            selector.as_ref().is_some_and(|selector| selector.matches(labels))
        });
        selecting.map_or(&self.cluster, |(_, own)| own)
    }
}
