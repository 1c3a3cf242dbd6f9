//! The memory policy that a new container is created with. Nothing can change the policy of a process that runs from
//! outside, so this is the only time.
//!
//! The runtime passes it to set_mempolicy(2) in the container's first process, and a policy that the kernel refuses
//! makes the creation of the container fail. So what the kernel could refuse is not asked for: nodes that the container
//! may not use, and modes that it does not have.

use crate::align::MachineNodes;
use nri::v1alpha1::{LinuxMemoryPolicy, MpolMode};
use numaloc_core::NodeSet;
use numaloc_policy::MemoryPolicy;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The facts about this host that a memory policy depends on.
#[derive(Clone, Debug)]
pub struct Creation {
    /// The policies that pods may request.
    allowed: Vec<MemoryPolicy>,
    nodes: MachineNodes,
    /// The directory of cgroups, and the kernel's directory of node weights.
    cgroups: PathBuf,
    weights: PathBuf,
}

/// The CPUs and nodes that a container is created with, as lists of the kernel; empty: all.
#[derive(Clone, Copy, Debug)]
pub struct Cpuset<'a> {
    /// `cpuset.cpus`.
    pub cpus: &'a str,
    /// `cpuset.mems`.
    pub mems: &'a str,
}

impl Creation {
    /// Policies of these kinds on this host.
    pub fn new(allowed: Vec<MemoryPolicy>, nodes: MachineNodes) -> Self {
        let (cgroups, weights) = ("/sys/fs/cgroup", "/sys/kernel/mm/mempolicy/weighted_interleave");
        Self { allowed, nodes, cgroups: cgroups.into(), weights: weights.into() }
    }

    /// Whether any container may get a policy.
    pub fn is_on(&self) -> bool {
        !self.allowed.is_empty()
    }

    /// Whether pods may ask for this one.
    pub fn allows(&self, asked: MemoryPolicy) -> bool {
        self.allowed.contains(&asked)
    }

    /// The policy of a container whose cgroup will be at this path.
    ///
    /// # Errors
    /// Why it gets none.
    pub fn policy(
        &self,
        asked: MemoryPolicy,
        Cpuset { cpus, mems }: Cpuset<'_>,
        cgroup: Option<&str>,
    ) -> Result<LinuxMemoryPolicy, String> {
        let mode = match asked {
            MemoryPolicy::Exempt => return Ok(of(MpolMode::MpolLocal, &NodeSet::new())),
            // Never MPOL_BIND: that kills the container where its nodes are full.
            MemoryPolicy::Preferred => MpolMode::MpolPreferredMany,
            MemoryPolicy::Interleave => MpolMode::MpolInterleave,
            MemoryPolicy::Weighted => MpolMode::MpolWeightedInterleave,
        };
        if asked == MemoryPolicy::Weighted && !self.weights.exists() {
            return Err(
                "this kernel has no weighted interleave: it needs Linux 6.9 or later".to_owned()
            );
        }
        let nodes = match self.nodes.of(cpus) {
            Some(nodes) => nodes,
            None if asked == MemoryPolicy::Preferred => {
                return Err("it is not pinned to CPUs of some of the nodes".to_owned());
            }
            None => self.nodes.with_cpus(),
        };
        let nodes = nodes.and(&self.allowed_nodes(mems, cgroup)?);
        let least = if asked == MemoryPolicy::Preferred { 1 } else { 2 };
        match nodes.len() >= least {
            true => Ok(of(mode, &nodes)),
            false if nodes.is_empty() => Err("it may use none of the nodes of its CPUs".to_owned()),
            false => Err(format!("it has only one node: {nodes}")),
        }
    }

    /// The nodes that a container may have memory of: the ones set for it, or those of the cgroup that its own will be
    /// in. A cgroup without a cpuset has that of its parent (Documentation/admin-guide/cgroup-v2.rst).
    fn allowed_nodes(&self, mems: &str, cgroup: Option<&str>) -> Result<NodeSet, String> {
        let parsed =
            |text: &str| text.trim().parse().ok().filter(|nodes: &NodeSet| !nodes.is_empty());
        if let Some(nodes) = parsed(mems) {
            return Ok(nodes);
        }
        let path = Path::new(cgroup.ok_or("the runtime does not report the path of its cgroup")?);
        let hierarchies = [("", "cpuset.mems.effective"), ("cpuset", "cpuset.effective_mems")];
        let above = path.ancestors().skip(1);
        let mut files = above.flat_map(|above| {
            let below = above.strip_prefix("/").unwrap_or(above);
            hierarchies.map(|(hierarchy, file)| self.cgroups.join(hierarchy).join(below).join(file))
        });
        let nodes = files.find_map(|file| parsed(&fs::read_to_string(file).ok()?));
        nodes.ok_or_else(|| {
            format!("no cgroup above {} lists the nodes that it may use", path.display())
        })
    }
}

fn of(mode: MpolMode, nodes: &NodeSet) -> LinuxMemoryPolicy {
    let nodes = if nodes.is_empty() { String::new() } else { nodes.to_string() };
    LinuxMemoryPolicy { mode: mode.into(), nodes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{CpuSet, NodeId};

    const ALL: [MemoryPolicy; 4] = [
        MemoryPolicy::Preferred,
        MemoryPolicy::Interleave,
        MemoryPolicy::Weighted,
        MemoryPolicy::Exempt,
    ];
    const CGROUP: Option<&str> = Some("/kubepods.slice/pod.slice/c.scope");

    /// Nodes 0, 1 and 8 with four CPUs each, and node 9 with memory alone.
    fn creation(dir: &Path, allowed: &[MemoryPolicy]) -> Creation {
        let nodes = MachineNodes::default();
        let node = |id, cpus: &str| (NodeId(id), cpus.parse().unwrap_or_else(|_| CpuSet::new()));
        nodes.set(vec![node(0, "0-3"), node(1, "4-7"), node(8, "8-11"), node(9, "")]);
        let mut creation = Creation::new(allowed.to_vec(), nodes);
        (creation.cgroups, creation.weights) = (dir.join("cgroup"), dir.join("weights"));
        creation
    }

    fn mems(dir: &Path, cgroup: &str, file: &str, nodes: &str) {
        let dir = dir.join("cgroup").join(cgroup);
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join(file), format!("{nodes}\n")).expect("a file");
    }

    fn said(
        creation: &Creation,
        asked: MemoryPolicy,
        (cpus, mems): (&str, &str),
    ) -> Result<(MpolMode, String), String> {
        let cpuset = Cpuset { cpus, mems };
        creation.policy(asked, cpuset, CGROUP).map(|policy| (policy.mode(), policy.nodes))
    }

    #[test]
    fn a_policy_has_the_nodes_of_the_cpus() {
        let dir = tempfile::tempdir().expect("a directory");
        mems(dir.path(), "", "cpuset.mems.effective", "0-1,8-9");
        let creation = creation(dir.path(), &ALL);
        let is = |asked, cpus, mode, nodes: &str| {
            let expected = Ok((mode, nodes.to_owned()));
            assert_eq!(said(&creation, asked, (cpus, "")), expected, "{asked:?} {cpus}");
        };
        is(MemoryPolicy::Preferred, "4-5", MpolMode::MpolPreferredMany, "1");
        is(MemoryPolicy::Preferred, "3,8", MpolMode::MpolPreferredMany, "0,8");
        is(MemoryPolicy::Interleave, "3-4", MpolMode::MpolInterleave, "0-1");
        is(MemoryPolicy::Interleave, "", MpolMode::MpolInterleave, "0-1,8");
        is(MemoryPolicy::Interleave, "0-11", MpolMode::MpolInterleave, "0-1,8");
        is(MemoryPolicy::Exempt, "", MpolMode::MpolLocal, "");
        let weighted = || said(&creation, MemoryPolicy::Weighted, ("", ""));
        assert!(weighted().expect_err("an older kernel").contains("6.9"));
        fs::create_dir(dir.path().join("weights")).expect("a directory");
        assert_eq!(weighted(), Ok((MpolMode::MpolWeightedInterleave, "0-1,8".to_owned())));
        for (asked, cpus, expected) in [
            (MemoryPolicy::Preferred, "", "not pinned"),
            (MemoryPolicy::Preferred, "0-11", "not pinned"),
            (MemoryPolicy::Interleave, "4", "only one node: 1"),
        ] {
            let refused = said(&creation, asked, (cpus, "")).expect_err("no policy");
            assert!(refused.contains(expected), "{asked:?} {cpus}: {refused}");
        }
    }

    #[test]
    fn nodes_that_a_container_may_not_use_are_left_out() {
        for (hierarchy, file) in
            [("", "cpuset.mems.effective"), ("cpuset", "cpuset.effective_mems")]
        {
            let dir = tempfile::tempdir().expect("a directory");
            let at =
                |cgroup: &str| format!("{hierarchy}/{cgroup}").trim_start_matches('/').to_owned();
            let creation = creation(dir.path(), &ALL);
            let wide = || said(&creation, MemoryPolicy::Interleave, ("", ""));
            assert!(wide().expect_err("nothing is known").contains("no cgroup above"));
            mems(dir.path(), &at(""), file, "0-1,8-9");
            assert_eq!(wide().map(|(_, nodes)| nodes).as_deref(), Ok("0-1,8"));
            mems(dir.path(), &at("kubepods.slice"), file, "1,8-9");
            assert_eq!(wide().map(|(_, nodes)| nodes).as_deref(), Ok("1,8"));
            // Its own cgroup is not there yet, and the one that an earlier container of its name left behind does not
            // count.
            mems(dir.path(), &at("kubepods.slice/pod.slice/c.scope"), file, "0");
            assert_eq!(wide().map(|(_, nodes)| nodes).as_deref(), Ok("1,8"));
            let local = said(&creation, MemoryPolicy::Preferred, ("0-3", ""));
            assert!(local.expect_err("its node is not allowed").contains("none of the nodes"));
            // The container's own setting counts: the runtime writes it before the process starts.
            let own = said(&creation, MemoryPolicy::Preferred, ("0-3", "0"));
            assert_eq!(own.map(|(_, nodes)| nodes).as_deref(), Ok("0"));
            let cpuset = Cpuset { cpus: "0", mems: "" };
            let unknown = creation.policy(MemoryPolicy::Preferred, cpuset, None);
            assert!(unknown.expect_err("no path").contains("does not report"));
        }
    }

    #[test]
    fn the_operator_names_what_pods_may_ask_for() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(!creation(dir.path(), &[]).is_on());
        let creation = creation(dir.path(), &[MemoryPolicy::Exempt]);
        assert!(creation.is_on() && creation.allows(MemoryPolicy::Exempt));
        assert!(!creation.allows(MemoryPolicy::Preferred));
    }
}
