//! The rollout of a policy: the nodes that it has reached, and when its first runs may begin there.

mod hours;

pub use hours::PATTERN as HOURS_PATTERN;

use hours::Hours;
use numaloc_api::Fnv;
use numaloc_config::{
    value::DAY_MS,
    written::{Object, Problem, SHOWN_MAX, Tree, flag, list, shown, text, whole},
};
use numaloc_core::amount;
use std::{
    hash::Hasher,
    time::{Duration, SystemTime},
};

/// Longest time over which first runs are spread.
pub const OVER_MAX: Duration = Duration::from_millis(7 * DAY_MS);
/// Most nodes that may be allowed at a time: the status of the policy names each of them.
pub const NODES_MAX: u16 = 256;
/// Most ranges of hours.
pub const HOURS_MAX: usize = 8;

/// When first runs of a policy may begin: those of containers that it has not decided for in its present form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The time over which they are spread, from the last change of the policy on.
    pub over: Duration,
    /// Most nodes on which they are under way at a time; `None`: any number.
    pub max_nodes: Option<u16>,
    /// Whether they are under way on one replica of a workload at a time.
    pub one_replica: bool,
    /// The hours of a day in which they may begin; empty: all.
    hours: Vec<Hours>,
}

impl Rollout {
    /// Reads `spec.rollout`.
    ///
    /// # Errors
    /// The first mistake.
    pub fn read(path: &str, tree: &Tree) -> Result<Self, Problem> {
        let mut object = Object::of(path, tree)?;
        let over = object.take("over", duration)?.unwrap_or_default();
        let max_nodes = object.take("maxNodes", whole(1..=NODES_MAX.into()))?;
        let one_replica = object.take("oneReplica", flag)?.unwrap_or_default();
        let hours = object.take("hours", |path, tree| list(path, tree, Hours::read))?;
        object.end()?;
        Ok(Self { over, max_nodes, one_replica, hours: hours.unwrap_or_default() })
    }

    /// Whether the agents have to take turns.
    pub fn takes_turns(&self) -> bool {
        self.max_nodes.is_some() || self.one_replica
    }

    /// When the first run of a pod may begin at the earliest, `now` or later, if the policy was last changed at `changed`.
    /// It is the same for each agent, and after its restart.
    pub fn first_run(
        &self,
        policy_uid: &str,
        pod_uid: &str,
        changed: SystemTime,
        now: SystemTime,
    ) -> SystemTime {
        let part = f64::from(u32::try_from(mixed(pod_uid, policy_uid) >> 32).unwrap_or_default());
        let place = self.over.mul_f64(part / (f64::from(u32::MAX) + 1.0));
        hours::next(&self.hours, now.max(changed + place))
    }
}

fn duration(path: &str, tree: &Tree) -> Result<Duration, Problem> {
    let given = text(path, tree)?;
    match amount::duration(given) {
        Ok(over) if over <= OVER_MAX => Ok(over),
        _ => {
            let problem = format!("is \"{}\"", shown(given, SHOWN_MAX));
            Err(Problem::new(path, problem, "expected a duration of at most 7 days, such as 1h"))
        }
    }
}

/// Whether a policy is in force on a node when it is rolled out to this percentage of nodes. Each agent decides for
/// itself: a node that is reached at some percentage is reached at every higher one, and each policy begins with other
/// nodes.
pub fn reaches(percent: u8, node: &str, policy_uid: &str) -> bool {
    place(node, policy_uid) < u64::from(percent.min(100))
}

/// The place of a node in the order of a rollout, from 0 to 99.
fn place(node: &str, policy_uid: &str) -> u64 {
    mixed(node, policy_uid) % 100
}

/// A number that is the same in each version of the agent, because agents of several versions take part in one rollout:
/// FNV-1a with the finalizer of MurmurHash3.
pub fn mixed(name: &str, policy_uid: &str) -> u64 {
    let mut hash = Fnv::default();
    for part in [name.as_bytes(), &[0], policy_uid.as_bytes()] {
        hash.write(part);
    }
    let hash = hash.finish();
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
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

    fn read(text: &str) -> Result<Rollout, String> {
        let tree = serde_json::from_str(text).expect("JSON");
        Rollout::read("spec.rollout", &tree).map_err(|problem| problem.to_string())
    }

    #[test]
    fn first_runs_are_spread_over_the_time_and_stay_where_they_are() {
        let rollout = read(r#"{"over": "1h"}"#).expect("valid");
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
        let first = |pod: usize, now| rollout.first_run("5f1c", &pod.to_string(), changed, now);
        let mut tenths = [0; 10];
        for pod in 0..1000 {
            let at = first(pod, changed).duration_since(changed).expect("later");
            tenths[(at.as_secs() / 360) as usize] += 1;
            let later = first(pod, changed + Duration::from_secs(60));
            assert_eq!(later, first(pod, changed).max(changed + Duration::from_secs(60)));
        }
        assert!(tenths.iter().all(|count| (60..=140).contains(count)), "{tenths:?}");
        let past = changed + Duration::from_secs(3600);
        assert_eq!(first(7, past), past, "a pod that comes later does not wait");
    }

    #[test]
    fn first_runs_begin_within_the_hours_alone() {
        let rollout = read(r#"{"hours": ["22:30-06:00", "12:00-13:00"]}"#).expect("valid");
        let at = |hours: u64, minutes: u64| {
            SystemTime::UNIX_EPOCH + Duration::from_secs((24 + hours) * 3600 + minutes * 60)
        };
        for (now, expected) in [
            (at(0, 0), at(0, 0)),
            (at(5, 59), at(5, 59)),
            (at(6, 0), at(12, 0)),
            (at(12, 30), at(12, 30)),
            (at(13, 0), at(22, 30)),
            (at(23, 0), at(23, 0)),
        ] {
            assert_eq!(rollout.first_run("a", "b", at(0, 0), now), expected);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_path() {
        for (text, expected) in [
            (
                r#"{"over": "8d"}"#,
                "spec.rollout.over is \"8d\"; expected a duration of at most 7 days, such as 1h",
            ),
            (r#"{"maxNodes": 0}"#, "spec.rollout.maxNodes"),
            (r#"{"oneReplica": 1}"#, "spec.rollout.oneReplica must be true or false"),
            (
                r#"{"hours": ["22-6"]}"#,
                "spec.rollout.hours[0] is \"22-6\"; expected two times of a day in UTC",
            ),
            (r#"{"hours": ["06:00-06:00"]}"#, "spec.rollout.hours[0] is"),
            (r#"{"nodes": 3}"#, "spec.rollout.nodes is not known"),
        ] {
            let problem = read(text).expect_err(text);
            assert!(problem.starts_with(expected), "{problem}");
        }
    }

    proptest! {
        #[test]
        fn more_percent_reach_no_fewer_nodes(percent in 0..100_u8, node in ".{0,20}", policy in ".{0,20}") {
            prop_assert!(!reaches(percent, &node, &policy) || reaches(percent + 1, &node, &policy));
        }
    }
}
