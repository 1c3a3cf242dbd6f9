//! The memory policy that containers of a pod are created with.

use crate::{
    BadAnnotation, MEMORY_POLICY_KEY, NUMA_BALANCING_KEY, Pod,
    decide::{text_or_json, value},
};
use numaloc_config::written::{Problem, Tree, below, one_of};
use serde::Deserialize;

/// The policy that a container's first process is created with and all its processes inherit (set_mempolicy(2)). The
/// kernel's NUMA balancing does not scan memory of a process that has any of these (mm/mempolicy.c, `vma_policy_mof`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryPolicy {
    /// Pages come from the nodes of its CPUs, and from others where these are full.
    Preferred,
    /// Pages come from the nodes in turn.
    Interleave,
    /// Pages come from the nodes in turn, by the kernel's weights of nodes.
    Weighted,
    /// Pages come from the node of the CPU that touches them first, as without a policy. It is set for the exemption
    /// from NUMA balancing alone.
    Exempt,
}

const POLICIES: [(&str, Option<MemoryPolicy>); 4] = [
    ("preferred", Some(MemoryPolicy::Preferred)),
    ("interleave", Some(MemoryPolicy::Interleave)),
    ("weighted", Some(MemoryPolicy::Weighted)),
    ("none", None),
];

const BALANCING: [(&str, Option<MemoryPolicy>); 2] =
    [("exempt", Some(MemoryPolicy::Exempt)), ("default", None)];

impl MemoryPolicy {
    /// Its word in annotations and configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preferred => "preferred",
            Self::Interleave => "interleave",
            Self::Weighted => "weighted",
            Self::Exempt => "exempt",
        }
    }

    /// A pod's request for one of its containers; `None`: none.
    ///
    /// # Errors
    /// An annotation that cannot be parsed.
    pub fn asked(pod: &Pod, container: &str) -> Result<Option<Self>, BadAnnotation> {
        let policy = for_container(pod, container, MEMORY_POLICY_KEY, POLICIES)?;
        let exempt = for_container(pod, container, NUMA_BALANCING_KEY, BALANCING)?;
        Ok(policy.or(exempt))
    }
}

fn for_container<const N: usize>(
    pod: &Pod,
    container: &str,
    key: &str,
    words: [(&'static str, Option<MemoryPolicy>); N],
) -> Result<Option<MemoryPolicy>, BadAnnotation> {
    let bad = |problem: Problem| BadAnnotation::value(pod, key, problem);
    let Some(tree) = value(pod, key, text_or_json)? else { return Ok(None) };
    let (path, word) = match &tree {
        Tree::Map(words) => match words.get(container) {
            None | Some(Tree::Null) => return Ok(None),
            Some(word) => (below("", container), word),
        },
        word => (String::new(), word),
    };
    one_of(words)(&path, word).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(
        policy: Option<&str>,
        balancing: Option<&str>,
    ) -> Result<Option<&'static str>, String> {
        let mut pod = Pod { namespace: "shop".into(), name: "db-0".into(), ..Pod::default() };
        for (key, text) in [(MEMORY_POLICY_KEY, policy), (NUMA_BALANCING_KEY, balancing)] {
            pod.annotations.extend(text.map(|text| (key.to_owned(), text.to_owned())));
        }
        let asked = MemoryPolicy::asked(&pod, "server");
        asked.map(|policy| policy.map(MemoryPolicy::name)).map_err(|bad| bad.to_string())
    }

    #[test]
    fn a_word_is_for_all_containers_and_an_object_for_those_that_it_names() {
        for (text, expected) in [
            ("preferred", Some("preferred")),
            (" interleave\n", Some("interleave")),
            ("\"weighted\"", Some("weighted")),
            ("none", None),
            (r#"{"server": "preferred", "log": "none"}"#, Some("preferred")),
            (r#"{"server": "none"}"#, None),
            (r#"{"server": null}"#, None),
            (r#"{"log": "preferred"}"#, None),
        ] {
            assert_eq!(asked(Some(text), None), Ok(expected), "{text}");
        }
        assert_eq!(asked(None, None), Ok(None));
    }

    #[test]
    fn any_policy_exempts_from_balancing() {
        assert_eq!(asked(None, Some("exempt")), Ok(Some("exempt")));
        assert_eq!(asked(None, Some("default")), Ok(None));
        assert_eq!(asked(Some("none"), Some("exempt")), Ok(Some("exempt")));
        assert_eq!(asked(Some("preferred"), Some("exempt")), Ok(Some("preferred")));
        assert_eq!(asked(Some("preferred"), Some(r#"{"log": "exempt"}"#)), Ok(Some("preferred")));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_follows() {
        let long = "x".repeat(crate::VALUE_MAX + 1);
        for (policy, balancing, expected) in [
            (
                Some("bind"),
                None,
                "annotation numaloc.io/memory-policy: is \"bind\", which is not known",
            ),
            (Some("exempt"), None, "write \"preferred\" or"),
            (Some("[1]"), None, "numaloc.io/memory-policy"),
            (Some(r#"{"server": 1}"#), None, ", server: "),
            (Some(r#"{"server": "#), None, "line 1 column"),
            (Some(&long), None, "is longer than"),
            (
                None,
                Some("off"),
                "annotation numaloc.io/numa-balancing: is \"off\", which is not known",
            ),
        ] {
            let bad = asked(policy, balancing).expect_err("it is refused");
            assert!(bad.starts_with("pod shop/db-0: ") && bad.contains(expected), "{bad}");
            assert!(bad.ends_with("; containers get no memory policy by it"), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in r#"(server|none|preferred|[\[\]{}:,"0-9a-c\\ \n]){0,16}"#) {
            let _ = asked(Some(&text), Some(&text));
        }
    }
}
