//! The nodes that a scene uses on the machine that it runs on: where its CPUs are, where its memory belongs, and where
//! it is at first.

use numaloc_core::NodeSet;
use std::{fs, sync::LazyLock};

/// The nodes of this machine, as sysfs has them.
static PLACE: LazyLock<Place> = LazyLock::new(|| Place::of(&listed(), distances));

#[derive(Debug, PartialEq, Eq)]
struct Place {
    with_memory: Vec<u32>,
    cpus: u32,
    home: u32,
    away: u32,
}

/// The node whose CPUs a scene runs on: the first one that has both CPUs and memory, or CPUs alone if there is none with both.
pub fn cpus() -> u32 {
    PLACE.cpus
}

/// The node whose memory is home for these CPUs, or one of them.
pub fn home() -> u32 {
    PLACE.home
}

/// The node that a scene has its memory on at first: of those with CPUs and memory the one that is farthest from home, so that it is
/// in another socket where there are several. Where no other node has both, the farthest one with memory.
pub fn away() -> u32 {
    PLACE.away
}

pub fn both() -> [u32; 2] {
    [home(), away()]
}

pub fn with_memory() -> &'static [u32] {
    &PLACE.with_memory
}

impl Place {
    /// `row` has the distances from a node to each node of the machine, in the order of their ids.
    fn of([with_cpus, with_memory, online]: &[Vec<u32>; 3], row: impl Fn(u32) -> Vec<u32>) -> Self {
        let has_both = |node: &&u32| with_memory.contains(node) && with_cpus.contains(node);
        let cpus = *online.iter().find(has_both).unwrap_or(&with_cpus[0]);
        let row = row(cpus);
        let distance = |node: &&u32| {
            let index = online.iter().position(|other| other == *node).expect("it is online");
            row[index]
        };
        let home = *with_memory.iter().min_by_key(distance).expect("memory");
        let others = || with_memory.iter().filter(|&&node| node != home);
        // The first of several that are equally far.
        let away = others().filter(has_both).rev().max_by_key(distance);
        let away = away.or_else(|| others().rev().max_by_key(distance)).unwrap_or(&home);
        Self { cpus, home, away: *away, with_memory: with_memory.clone() }
    }
}

/// Nodes with CPUs, with memory, and all.
fn listed() -> [Vec<u32>; 3] {
    ["has_cpu", "has_memory", "online"].map(|file| {
        let path = format!("/sys/devices/system/node/{file}");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let nodes: NodeSet = text.trim().parse().expect("a list");
        nodes.iter().map(|node| node.0).collect()
    })
}

fn distances(node: u32) -> Vec<u32> {
    let path = format!("/sys/devices/system/node/node{node}/distance");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.split_whitespace().map(|word| word.parse().expect("a distance")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(cpus: &[u32], memory: &[u32], online: &[u32], row: &[u32]) -> [u32; 3] {
        let lists = [cpus, memory, online].map(<[u32]>::to_vec);
        let place = Place::of(&lists, |_| row.to_vec());
        [place.cpus, place.home, place.away]
    }

    /// The machines of tests/vm/run.
    #[test]
    fn scenes_are_remote_on_each_machine() {
        assert_eq!(place(&[0, 1], &[0, 1], &[0, 1], &[10, 21]), [0, 0, 1], "two");
        let all = [0, 1, 2, 3];
        assert_eq!(place(&all, &all, &all, &[10, 16, 22, 16]), [0, 0, 2], "sparse4");
        assert_eq!(place(&[0, 1], &[0, 1, 2], &[0, 1, 2], &[10, 21, 30]), [0, 0, 1], "memonly");
        assert_eq!(place(&all, &[1, 2], &all, &[12, 10, 12, 12]), [1, 1, 2], "nps");
        assert_eq!(place(&[0], &[1, 2, 3], &all, &[10, 20, 20, 20]), [0, 1, 2], "split");
        assert_eq!(place(&all, &all, &all, &[10, 11, 32, 32]), [0, 0, 2], "l3");
        assert_eq!(place(&[0, 1], &all, &all, &[10, 21, 13, 23]), [0, 0, 1], "hbm");
    }

    #[test]
    fn ids_of_nodes_have_gaps() {
        assert_eq!(place(&[0, 8], &[0, 8], &[0, 8], &[10, 40]), [0, 0, 8]);
    }
}
