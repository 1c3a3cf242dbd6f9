//! Workloads of a live view: cgroups that have processes, each byte in one of them.

use super::{CountedMemory, ProcessNow, Snapshot};
use crate::{NodeId, NodeSet};
use std::{collections::BTreeMap, path::Path};

/// Memory in bytes by its distance from home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveShares {
    /// On home nodes.
    pub local_bytes: u64,
    /// On nodes that are neither home nor of a lower tier.
    pub remote_bytes: u64,
    /// The part of the remote bytes that is on nodes near to home.
    pub near_bytes: u64,
    /// On nodes of lower tiers.
    pub demoted_bytes: u64,
}

impl LiveShares {
    /// The shares of memory by node, where nodes of lower tiers are `lower`. `None` without a home, as where no CPU of it is online.
    #[must_use]
    pub fn of(
        nodes: &BTreeMap<NodeId, u64>,
        home: &NodeSet,
        near: &NodeSet,
        lower: &NodeSet,
    ) -> Option<Self> {
        let on = |some: &NodeSet| -> u64 {
            nodes.iter().filter(|(node, _)| some.contains(**node)).map(|(_, bytes)| bytes).sum()
        };
        let (local_bytes, demoted_bytes) = (on(home), on(&lower.minus(home)));
        let remote_bytes = nodes.values().sum::<u64>() - local_bytes - demoted_bytes;
        let shares = Self { local_bytes, remote_bytes, near_bytes: on(near), demoted_bytes };
        (!home.is_empty()).then_some(shares)
    }
}

/// A cgroup that has processes of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadNow<'a> {
    /// Its path below the mount point.
    pub cgroup: &'a str,
    /// Number of the processes directly in it.
    pub process_count: usize,
    /// The nodes of their CPUs.
    pub home: NodeSet,
    /// Other nodes that are near to these.
    pub near: NodeSet,
    /// CPU time that they use, in percent of one CPU; `None` before the second look at one of them.
    pub cpu_percent: Option<f64>,
    /// Its memory without that of workloads below it, so that each byte is in one workload; `None` where the kernel does
    /// not count it.
    pub own: Option<CountedMemory>,
}

impl Snapshot {
    /// The nodes where memory counts as demoted.
    #[must_use]
    pub fn lower_tiers(&self) -> NodeSet {
        self.nodes.iter().filter(|node| node.is_lower_tier).map(|node| node.id).collect()
    }

    /// The workloads in order of their path. The kernel's count of the memory of a cgroup includes the cgroups below it:
    /// those with processes of their own are subtracted.
    #[must_use]
    pub fn workloads(&self) -> Vec<WorkloadNow<'_>> {
        let mut members: BTreeMap<&str, Vec<&ProcessNow>> = BTreeMap::new();
        for process in &self.processes {
            if let Some(cgroup) = &process.cgroup {
                members.entry(cgroup).or_default().push(process);
            }
        }
        let counted = |path: &str| self.groups.get(path).and_then(|group| group.memory.as_ref());
        let mut below: BTreeMap<&str, CountedMemory> = BTreeMap::new();
        for &path in members.keys() {
            let above = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
            // The nearest one: the count of those above it includes that one, which is subtracted there.
            let nearest = above
                .filter(|above| members.contains_key(above))
                .find(|above| counted(above).is_some());
            if let (Some(nearest), Some(memory)) = (nearest, counted(path)) {
                below.entry(nearest).or_default().add(memory);
            }
        }
        let nothing = CountedMemory::default();
        let workload = |(path, within): (_, Vec<&ProcessNow>)| {
            let home = within.iter().fold(NodeSet::new(), |home, each| home.or(&each.home));
            let near = within.iter().fold(NodeSet::new(), |near, each| near.or(&each.near));
            let used: Vec<f64> = within.iter().filter_map(|each| each.cpu_percent).collect();
            let own = |memory: &CountedMemory| memory.without(below.get(path).unwrap_or(&nothing));
            WorkloadNow {
                cgroup: path,
                process_count: within.len(),
                near: near.minus(&home),
                home,
                cpu_percent: (!used.is_empty()).then(|| used.iter().sum()),
                own: counted(path).map(own),
            }
        };
        members.into_iter().map(workload).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Identity,
        live::{GroupNow, Seen},
    };

    fn process(pid: i32, cgroup: &str, home: &str) -> ProcessNow {
        ProcessNow {
            identity: Identity { pid, start_time: 1 },
            comm: "x".into(),
            cgroup: Some(cgroup.into()),
            home: home.parse().unwrap(),
            near: Default::default(),
            resident_bytes: 0,
            cpu_percent: Some(10.0),
            threads: 1,
            seen: Seen::Never,
        }
    }

    /// As on hosts with cgroup v1, where `/` has processes of its own.
    #[test]
    fn each_byte_and_each_process_is_in_one_workload() {
        let processes = vec![
            process(1, "/", "0"),
            process(2, "/a", "0"),
            process(3, "/a/none/b", "1"),
            process(4, "/ab", "1"),
        ];
        let counted = |path: &str, nodes: &[(u32, u64)]| {
            let nodes = nodes.iter().map(|&(node, pages)| (NodeId(node), pages * 4096)).collect();
            let memory = Some(CountedMemory { nodes, ..CountedMemory::default() });
            (path.to_owned(), GroupNow { memory, ..GroupNow::default() })
        };
        let groups = [
            counted("/", &[(0, 100), (1, 50)]),
            counted("/a", &[(0, 30), (1, 20)]),
            counted("/a/none/b", &[(1, 15)]),
            // It has grown since `/` was counted.
            counted("/ab", &[(0, 5), (1, 40)]),
        ];
        let snapshot = Snapshot { processes, groups: groups.into(), ..Snapshot::default() };
        let rows = snapshot.workloads();
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                let own = row.own.as_ref().unwrap();
                let shares =
                    LiveShares::of(&own.nodes, &row.home, &row.near, &NodeSet::new()).unwrap();
                let all = own.nodes.values().sum::<u64>() / 4096;
                (row.cgroup, all, shares.remote_bytes / 4096, row.process_count, row.cpu_percent)
            })
            .collect();
        let one = Some(10.0);
        let expected = [
            ("/", 65, 0, 1, one),
            ("/a", 35, 5, 1, one),
            ("/a/none/b", 15, 0, 1, one),
            ("/ab", 45, 5, 1, one),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn memory_has_no_shares_without_a_home() {
        let nodes = [(NodeId(0), 5), (NodeId(1), 7), (NodeId(2), 9), (NodeId(3), 11)].into();
        let [home, near, lower] = ["0", "1", "3"].map(|nodes| nodes.parse().unwrap());
        let shares =
            LiveShares { local_bytes: 5, remote_bytes: 16, near_bytes: 7, demoted_bytes: 11 };
        assert_eq!(LiveShares::of(&nodes, &home, &near, &lower), Some(shares));
        assert_eq!(LiveShares::of(&nodes, &NodeSet::new(), &near, &lower), None);
        // CPUs whose home is a node of a lower tier have their memory there.
        let there = LiveShares::of(&nodes, &lower, &near, &lower).unwrap();
        assert_eq!((there.local_bytes, there.demoted_bytes), (11, 0));
    }

    #[test]
    fn a_node_that_is_home_of_one_process_is_not_near_for_the_workload() {
        let near = |pid, home: &str, near: &str| ProcessNow {
            near: near.parse().unwrap(),
            ..process(pid, "/a", home)
        };
        let processes = vec![near(1, "0", "1-2"), near(2, "1", "0,3")];
        let snapshot = Snapshot { processes, ..Snapshot::default() };
        let rows = snapshot.workloads();
        let (home, near) = ("0-1".parse().unwrap(), "2-3".parse().unwrap());
        assert_eq!((&rows[0].home, &rows[0].near), (&home, &near));
        assert_eq!(
            (rows[0].process_count, &rows[0].own, rows[0].cpu_percent),
            (2, &None, Some(20.0))
        );
    }
}
