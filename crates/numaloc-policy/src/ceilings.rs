//! The most that pods may ask for.

mod reduce;

use crate::Settings;
use numaloc_api::{
    Excess,
    value::{MigrationSpec, QosClass},
};
use numaloc_config::value::{DAY_MS, count, duration, profile, rate};
use numaloc_core::Profile;
use serde::Deserialize;
use std::time::Duration;

/// Upper bound of times in milliseconds: a year.
const TIME_MAX: u64 = 366 * DAY_MS;

/// Upper bound of schedules for one pod.
const CONTAINERS_MAX: u64 = 1000;
/// Upper bound of threads: that of the API.
const WORKERS_MAX: u64 = 256;

/// The most that pods may ask for by annotations. It is the operator's: pods cannot change it. The default ceilings
/// keep a pod from harming its neighbours. The daemon has ceilings of its own for the client that passes the request
/// on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Ceilings {
    /// The fastest profile. The longest stall and the batch size may not exceed those of this profile.
    #[serde(deserialize_with = "profile")]
    pub profile: Profile,
    /// Most bytes per second, also of pods that name no rate; `None`: only the profile limits the rate.
    #[serde(deserialize_with = "rate")]
    pub rate_bytes_per_second: Option<u64>,
    /// The least rate in bytes per second that a pod may ask for: a run keeps its target node and its processes from
    /// others for as long as it moves. `rate_bytes_per_second` goes before it.
    #[serde(deserialize_with = "rate")]
    pub min_rate_bytes_per_second: u64,
    /// The longest time that a run moves, also of pods that name none.
    #[serde(deserialize_with = "duration::<1, TIME_MAX, _, _>")]
    pub timeout: Duration,
    /// Most containers of one pod that get a schedule by annotations. The daemon's quota of schedules is for all pods
    /// together.
    #[serde(deserialize_with = "count::<0, CONTAINERS_MAX, _, _>")]
    pub containers: usize,
    /// Whether the label `koordinator.sh/qosClass` may give a container a better class than its cgroup and its
    /// resources do.
    pub qos_label: bool,
    /// Most threads of a run.
    #[serde(deserialize_with = "count::<1, WORKERS_MAX, _, _>")]
    pub workers: usize,
    /// The shortest interval of repeating schedules.
    #[serde(deserialize_with = "duration::<0, TIME_MAX, _, _>")]
    pub min_interval: Duration,
    /// Whether pages that processes outside the container map may be moved.
    pub include_shared: bool,
    /// Whether pages of files on network file systems and FUSE may be moved, for whose servers a call may wait without
    /// end.
    pub include_network: bool,
    /// Whether memory may be moved against the application's own memory policy.
    pub include_bound: bool,
    /// Whether pods may move hugetlb pages that take longer than one call may take.
    pub include_gigantic: bool,
    /// Whether pods may name nodes: nodes that memory goes to, instead of its home, or nodes that it comes from, which
    /// may be of another memory tier.
    pub named_nodes: bool,
    /// Whether pods may name how much is kept free on the nodes that memory goes to.
    pub reserve_bytes: bool,
    /// Whether the sizes of the nodes' hugetlb pools may be changed (`hugetlb` `fresh`).
    pub fresh_hugetlb: bool,
    /// Whether page cache may go to other nodes for room (`make_room` `move-cache`). It may be that of files of any
    /// pod, because the request comes with the plugin's rights.
    pub move_cache: bool,
    /// Whether memory of best-effort containers may go to other nodes for room (`make_room` `exchange`). It may be that
    /// of any pod, for the same reason.
    pub exchange: bool,
    /// Whether kernel.numa_balancing may be switched off for a time.
    pub pause_numa_balancing: bool,
    /// Whether offload may be required: it changes settings of the host.
    pub offload: bool,
}

/// The type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Flag,
    /// A whole number within these bounds.
    Count(u64, u64),
    /// Bytes per second, as a number or as text.
    Rate,
    /// A duration as text.
    Duration,
    /// The name of a profile.
    Profile,
}

/// The keys of [`Ceilings`], for descriptions of their form.
pub(crate) const KEYS: [(&str, Sort); 19] = [
    ("profile", Sort::Profile),
    ("rate_bytes_per_second", Sort::Rate),
    ("min_rate_bytes_per_second", Sort::Rate),
    ("timeout", Sort::Duration),
    ("containers", Sort::Count(0, CONTAINERS_MAX)),
    ("qos_label", Sort::Flag),
    ("workers", Sort::Count(1, WORKERS_MAX)),
    ("min_interval", Sort::Duration),
    ("include_shared", Sort::Flag),
    ("include_network", Sort::Flag),
    ("include_bound", Sort::Flag),
    ("include_gigantic", Sort::Flag),
    ("named_nodes", Sort::Flag),
    ("reserve_bytes", Sort::Flag),
    ("fresh_hugetlb", Sort::Flag),
    ("move_cache", Sort::Flag),
    ("exchange", Sort::Flag),
    ("pause_numa_balancing", Sort::Flag),
    ("offload", Sort::Flag),
];

impl Default for Ceilings {
    fn default() -> Self {
        Self {
            profile: Profile::Balanced,
            rate_bytes_per_second: None,
            min_rate_bytes_per_second: 16 << 20,
            timeout: Duration::from_secs(3600),
            containers: 8,
            qos_label: false,
            workers: 1,
            min_interval: Duration::from_secs(60),
            include_shared: false,
            include_network: false,
            include_bound: false,
            include_gigantic: false,
            named_nodes: false,
            reserve_bytes: false,
            fresh_hugetlb: false,
            move_cache: false,
            exchange: false,
            pause_numa_balancing: false,
            offload: false,
        }
    }
}

impl Ceilings {
    /// Reduces `settings` to the ceilings, for a container of this class. `notes` gets a sentence for each reduction.
    /// `None` if the container may get nothing at all: memory for named nodes is not moved to others instead.
    pub(crate) fn bound(
        &self,
        mut settings: Settings,
        class: QosClass,
        notes: &mut Vec<String>,
    ) -> Option<Settings> {
        let mut say =
            |what: &str| notes.push(format!("{what}; the operator of the node has set this bound"));
        let ceilings = self.shared(class);
        let asked = settings.asked();
        for excess in ceilings.excesses(&asked.policy, &asked.limits, false) {
            reduce::lower(excess, &ceilings, &mut settings);
            say(&reduce::note(excess, &ceilings));
            if matches!(excess, Excess::NodesTo | Excess::NodesFrom | Excess::Cache) {
                return None;
            }
        }
        self.bound_limits(&mut settings, &mut say);
        if settings.repeats() && settings.interval() < self.min_interval {
            settings.set_interval(self.min_interval);
            say(&format!("it runs once in {:?}", self.min_interval));
        }
        Some(settings)
    }

    /// In the form that requests of the daemon's clients are checked against, too.
    fn shared(&self, qos_class: QosClass) -> numaloc_api::Ceilings {
        let Self {
            profile,
            rate_bytes_per_second,
            timeout,
            workers,
            include_shared,
            include_network,
            include_bound,
            include_gigantic,
            named_nodes,
            reserve_bytes,
            fresh_hugetlb,
            move_cache,
            exchange,
            pause_numa_balancing,
            offload,
            // Bounds of a schedule, not of a migration.
            min_interval: _,
            containers: _,
            qos_label: _,
            // A least rate: see [`Self::bound_limits`].
            min_rate_bytes_per_second: _,
        } = *self;
        numaloc_api::Ceilings {
            qos_class,
            profile,
            rate_bytes_per_second,
            timeout: Some(timeout),
            workers,
            include_shared,
            include_network,
            include_bound,
            include_gigantic,
            named_nodes,
            reserve_bytes,
            fresh_hugetlb,
            move_cache,
            exchange,
            pause_numa_balancing,
            offload,
        }
    }

    /// Sets the bounds that hold also where nothing is asked for, and the least rate.
    fn bound_limits(&self, settings: &mut Settings, say: &mut impl FnMut(&str)) {
        let MigrationSpec { policy, limits: asked, .. } = settings.asked();
        let limits = settings.limits();
        if asked.workers.is_none() {
            // The profile's own number counts where none is asked for.
            let workers = policy.options.pacing.pace().workers_within(self.workers);
            limits.workers = workers.map(threads);
        }
        let most = self.rate_bytes_per_second.unwrap_or(u64::MAX);
        let least = self.min_rate_bytes_per_second.min(most);
        if asked.rate_bytes_per_second.is_some_and(|rate| rate < least) {
            limits.rate_bytes_per_second = Some(bytes(least));
            say(&format!("the rate is {least} bytes per second"));
        }
        let rate = self.rate_bytes_per_second.map(bytes);
        limits.rate_bytes_per_second = limits.rate_bytes_per_second.or(rate);
        limits.timeout = limits.timeout.or(self.timeout.try_into().ok());
    }
}

/// Bytes as messages have them. A configuration has none that do not fit.
fn bytes(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Threads in the same way.
fn threads(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own;
    use numaloc_api::v1;
    use numaloc_config::written::Tree;
    use numaloc_core::MakeRoom;

    const ALL: &str = r#"{
        "spec": {
            "policy": {
                "include_shared": true, "include_bound": true, "hugetlb_source": "fresh", "make_room": "move_cache", "profile": "fast",
                "include_gigantic": true, "include_network": true, "reserve_bytes": 0, "compact": "always", "max_stall": "1s", "qos_class": "lsr",
                "numa_balancing": "pause", "offload": "require"
            },
            "limits": {"workers": 8, "batch_bytes": 1073741824, "rate_bytes_per_second": 1000000000, "timeout": "1d"}
        },
        "interval": "1s"
    }"#;

    fn settings(text: &str) -> Settings {
        let tree: Tree = serde_json::from_str(text).expect("JSON");
        own::read("", &tree).expect("a policy").expect("it is not off")
    }

    #[test]
    fn what_exceeds_a_ceiling_is_lowered_and_said() {
        let ceilings = Ceilings {
            profile: Profile::Gentle,
            rate_bytes_per_second: Some(1 << 20),
            ..Ceilings::default()
        };
        let mut notes = Vec::new();
        let bounded = ceilings.bound(settings(ALL), QosClass::Ls, &mut notes).expect("not off");
        let expected = settings(
            r#"{
            "spec": {
                "policy": {"profile": "gentle", "max_stall": "5ms", "qos_class": "ls"},
                "limits": {"workers": 1, "batch_bytes": "4M", "rate_bytes_per_second": "1M", "timeout": "1h"}
            },
            "interval": "60s"
        }"#,
        );
        assert_eq!(bounded.meant(), expected.meant());
        let shared = ceilings.shared(QosClass::Ls);
        let asked = bounded.asked();
        let left = shared.excesses(&asked.policy, &asked.limits, false);
        assert_eq!(left, [], "what is reduced is within the ceilings");
        insta::assert_snapshot!(notes.join("\n"));
    }

    #[test]
    fn what_a_ceiling_allows_is_left_alone() {
        let ceilings = Ceilings {
            profile: Profile::Fast,
            rate_bytes_per_second: None,
            min_rate_bytes_per_second: 4096,
            timeout: Duration::from_secs(86_400),
            containers: 8,
            qos_label: false,
            workers: 8,
            min_interval: Duration::from_secs(1),
            include_shared: true,
            include_network: true,
            include_bound: true,
            include_gigantic: true,
            named_nodes: true,
            reserve_bytes: true,
            fresh_hugetlb: true,
            move_cache: true,
            exchange: true,
            pause_numa_balancing: true,
            offload: true,
        };
        let mut asked = settings(ALL);
        let nodes = v1::NodesPlacement { node_ids: vec![0, 8] };
        asked.policy().placement = Some(v1::policy::Placement::Nodes(nodes));
        asked.policy().from_node_ids = vec![1];
        for make_room in [v1::MakeRoom::MoveCache, v1::MakeRoom::Exchange] {
            asked.policy().make_room = make_room.into();
            let mut notes = Vec::new();
            assert_eq!(
                ceilings.bound(asked.clone(), QosClass::Lsr, &mut notes),
                Some(asked.clone())
            );
            assert_eq!(notes, [""; 0]);
        }
    }

    #[test]
    fn a_pod_keeps_its_node_from_others_for_no_longer_than_it_may() {
        let bounded = |ceilings: &Ceilings, text: &str| {
            let mut notes = Vec::new();
            let bounded = ceilings.bound(settings(text), QosClass::Ls, &mut notes);
            let limits = bounded.expect("not off").asked().limits;
            (limits.rate_bytes_per_second, limits.timeout.map(|time| time.as_secs()), notes.len())
        };
        let default = Ceilings::default();
        let slow = r#"{"spec": {"limits": {"rate_bytes_per_second": 4096, "timeout": "1d"}}}"#;
        assert_eq!(bounded(&default, slow), (Some(16 << 20), Some(3600), 2));
        assert_eq!(bounded(&default, "{}"), (None, Some(3600), 0));
        let within = r#"{"spec": {"limits": {"rate_bytes_per_second": "32M", "timeout": "60s"}}}"#;
        assert_eq!(bounded(&default, within), (Some(32 << 20), Some(60), 0));
        // The operator wants it slow.
        let low = Ceilings { rate_bytes_per_second: Some(1 << 20), ..default };
        assert_eq!(bounded(&low, slow), (Some(1 << 20), Some(3600), 2));
        assert_eq!(bounded(&low, "{}"), (Some(1 << 20), Some(3600), 0));
    }

    #[test]
    fn memory_of_other_pods_makes_no_room() {
        let mut notes = Vec::new();
        let asked = settings(r#"{"spec": {"policy": {"make_room": "exchange"}}}"#);
        let bounded = Ceilings::default().bound(asked, QosClass::Ls, &mut notes).expect("not off");
        assert_eq!(bounded.asked().policy.options.make_room, MakeRoom::Cache);
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn the_rate_and_the_threads_are_bounded_unasked() {
        let ceilings = Ceilings {
            profile: Profile::Fast,
            rate_bytes_per_second: Some(4096),
            ..Ceilings::default()
        };
        let mut notes = Vec::new();
        let asked = settings(r#"{"spec": {"policy": {"profile": "fast"}}}"#);
        let bounded = ceilings.bound(asked, QosClass::Be, &mut notes).expect("not off");
        let limits = bounded.asked().limits;
        assert_eq!((limits.rate_bytes_per_second, limits.workers), (Some(4096), Some(1)));
        assert_eq!(notes, [""; 0], "nothing was asked for");
    }

    #[test]
    fn memory_for_named_nodes_goes_nowhere_else() {
        for nodes in [r#""nodes": {"node_ids": [1]}"#, r#""from_node_ids": [1]"#] {
            let mut notes = Vec::new();
            let asked = settings(&format!(r#"{{"spec": {{"policy": {{{nodes}}}}}}}"#));
            assert_eq!(Ceilings::default().bound(asked, QosClass::Ls, &mut notes), None);
            assert_eq!(notes.len(), 1);
        }
    }
}
