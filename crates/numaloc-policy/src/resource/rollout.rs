//! The nodes that a policy has reached during a gradual rollout.

use numaloc_api::Fnv;
use std::hash::Hasher;

/// Whether a policy is in force on a node when it is rolled out to this percentage of nodes. Each agent decides for
/// itself: a node that is reached at some percentage is reached at every higher one, and each policy begins with other
/// nodes.
pub fn reaches(percent: u8, node: &str, policy_uid: &str) -> bool {
    place(node, policy_uid) < u64::from(percent.min(100))
}

/// The place of a node in the order of a rollout, from 0 to 99. It is the same in each version of the agent, because
/// agents of several versions take part in one rollout: FNV-1a with the finalizer of MurmurHash3.
fn place(node: &str, policy_uid: &str) -> u64 {
    let mut hash = Fnv::default();
    for part in [node.as_bytes(), &[0], policy_uid.as_bytes()] {
        hash.write(part);
    }
    let hash = hash.finish();
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (hash ^ (hash >> 33)) % 100
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reached(percent: u8, policy: &str) -> Vec<usize> {
        (0..10_000).filter(|node| reaches(percent, &format!("node-{node}"), policy)).collect()
    }

    #[test]
    fn a_percentage_of_the_nodes_is_reached() {
        for (percent, range) in
            [(0, 0..=0), (1, 60..=140), (10, 900..=1100), (50, 4800..=5200), (100, 10_000..=10_000)]
        {
            let count = reached(percent, "5f1c").len();
            assert!(range.contains(&count), "{percent} %: {count}");
        }
    }

    #[test]
    fn policies_begin_with_different_nodes() {
        let (one, other) = (reached(10, "a"), reached(10, "b"));
        let both = one.iter().filter(|node| other.contains(node)).count();
        assert!(both < 200, "{both} of {}", one.len());
    }

    #[test]
    fn versions_agree() {
        assert_eq!([place("node-1", "a"), place("node-2", "a"), place("", "")], PLACES);
    }
    const PLACES: [u64; 3] = [79, 20, 67];

    proptest! {
        #[test]
        fn more_percent_reach_no_fewer_nodes(percent in 0..100_u8, node in ".{0,20}", policy in ".{0,20}") {
            prop_assert!(!reaches(percent, &node, &policy) || reaches(percent + 1, &node, &policy));
        }
    }
}
