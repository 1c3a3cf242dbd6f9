//! The most that pods may ask for.

use crate::Settings;
use numaloc_api::value::QosClass;
use numaloc_core::{HugetlbSource, MakeRoom, NumaBalancing, Offload, Pacing, Profile};
use std::time::Duration;

/// The most that pods may ask for by annotations. It is the operator's: pods cannot change it. The default ceilings keep a pod from
/// harming its neighbours. The daemon has ceilings of its own for whoever passes the request on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceilings {
    /// The fastest profile. The longest stall and the batch size may not exceed those of this profile.
    pub profile: Profile,
    /// Most bytes per second, also of pods that name no rate; `None`: only the profile limits the rate.
    pub rate_bytes_per_second: Option<u64>,
    /// Most threads of a run.
    pub workers: usize,
    /// The shortest interval of repeating schedules.
    pub min_interval: Duration,
    /// Whether pages that processes outside the container map may be moved.
    pub include_shared: bool,
    /// Whether memory may be moved against the application's own memory policy.
    pub include_bound: bool,
    /// Whether memory may be brought to other nodes than its home.
    pub named_nodes: bool,
    /// Whether the sizes of the nodes' hugetlb pools may be changed (`hugetlb` `fresh`).
    pub fresh_hugetlb: bool,
    /// Whether page cache may go to other nodes for room (`make_room` `move-cache`). It may be that of files of any pod, because the
    /// request comes with the plugin's rights.
    pub move_cache: bool,
    /// Whether kernel.numa_balancing may be switched off for a time.
    pub pause_numa_balancing: bool,
    /// Whether offload may be required: it changes settings of the host.
    pub offload: bool,
}

impl Default for Ceilings {
    fn default() -> Self {
        Self {
            profile: Profile::Balanced,
            rate_bytes_per_second: None,
            workers: 1,
            min_interval: Duration::from_secs(60),
            include_shared: false,
            include_bound: false,
            named_nodes: false,
            fresh_hugetlb: false,
            move_cache: false,
            pause_numa_balancing: false,
            offload: false,
        }
    }
}

impl Ceilings {
    /// What of `settings` is within the ceilings, for a container of this class. `notes` gets a sentence for each thing that is less
    /// than was asked for. `None` if nothing is to be done at all: memory that is to go to named nodes goes nowhere else instead.
    pub(crate) fn bound(
        &self,
        mut settings: Settings,
        class: QosClass,
        notes: &mut Vec<String>,
    ) -> Option<Settings> {
        let mut say =
            |what: &str| notes.push(format!("{what}; the operator of the node allows no more"));
        let policy = &mut settings.policy;
        let options = &mut policy.options;
        if options.to.is_some() && !self.named_nodes {
            say("nothing is moved, because pods may not name the nodes that memory goes to");
            return None;
        }
        if options.include_shared && !self.include_shared {
            options.include_shared = false;
            say("pages that other containers map stay where they are");
        }
        if options.include_bound && !self.include_bound {
            options.include_bound = false;
            say("memory that the application has bound stays where it is");
        }
        if options.hugetlb == HugetlbSource::Fresh && !self.fresh_hugetlb {
            options.hugetlb = HugetlbSource::Pool;
            say("hugetlb pages come from the node's pool alone");
        }
        if options.make_room == MakeRoom::MoveCache && !self.move_cache {
            options.make_room = MakeRoom::Cache;
            say("page cache makes room by being dropped");
        }
        if policy.numa_balancing == NumaBalancing::Pause && !self.pause_numa_balancing {
            policy.numa_balancing = NumaBalancing::Warn;
            say("the kernel's NUMA balancing is not switched off");
        }
        if policy.offload == Offload::Require && !self.offload {
            policy.offload = Offload::Auto;
            say("a DMA engine copies only where the node's operator has it copy");
        }
        // Classes are ordered from the best to the worst.
        if policy.qos_class.is_some_and(|asked| asked < class) {
            policy.qos_class = Some(class);
            say(&format!("the class is {}, that of the container", class.name()));
        }
        self.bound_pace(&mut settings, &mut say);
        if settings.repeats() && settings.interval < self.min_interval {
            settings.interval = self.min_interval;
            say(&format!("it runs once in {:?}", self.min_interval));
        }
        Some(settings)
    }

    fn bound_pace(&self, settings: &mut Settings, say: &mut impl FnMut(&str)) {
        let pacing = &mut settings.policy.options.pacing;
        let limits = &mut settings.limits;
        if pacing.profile > self.profile {
            pacing.profile = self.profile;
            say(&format!("the profile is {}", self.profile.name()));
        }
        let most = Pacing { profile: self.profile, ..Pacing::default() }.pace();
        // The fastest profile bounds neither: a request may ask for more than it has by itself.
        let is_bounded = self.profile < Profile::Fast;
        if is_bounded && pacing.max_stall.is_some_and(|stall| stall > most.max_stall) {
            pacing.max_stall = Some(most.max_stall);
            say(&format!("one call takes at most {:?}", most.max_stall));
        }
        if is_bounded && limits.batch_bytes.is_some_and(|bytes| bytes > most.batch_bytes) {
            limits.batch_bytes = Some(most.batch_bytes);
            say(&format!("one call moves at most {} bytes", most.batch_bytes));
        }
        if limits.workers.is_some_and(|workers| workers > self.workers) {
            say(&format!("memory is moved by at most {} thread(s)", self.workers));
        }
        // The profile's own number counts where none is asked for.
        let own = pacing.pace().workers;
        let workers = limits.workers.or((own > self.workers).then_some(own));
        limits.workers = workers.map(|workers| workers.min(self.workers));
        if let Some(rate) = self.rate_bytes_per_second {
            if limits.rate_bytes_per_second.is_some_and(|asked| asked > rate) {
                say(&format!("the rate is {rate} bytes per second"));
            }
            let asked = limits.rate_bytes_per_second.unwrap_or(rate);
            limits.rate_bytes_per_second = Some(asked.min(rate));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{own, tree::Tree};

    const ALL: &str = r#"{
        "options": {
            "include_shared": true, "include_bound": true, "hugetlb": "fresh", "make_room": "move-cache", "profile": "fast",
            "max_stall_seconds": 1
        },
        "qos_class": "lsr",
        "numa_balancing": "pause",
        "offload": "require",
        "limits": {"workers": 8, "batch_bytes": 1073741824, "rate_bytes_per_second": 1000000000},
        "interval_seconds": 1
    }"#;

    fn settings(text: &str) -> Settings {
        let tree: Tree = serde_json::from_str(text).expect("JSON");
        own::read("", &tree).expect("a policy").expect("it is not off")
    }

    #[test]
    fn what_exceeds_a_ceiling_is_lowered_and_said() {
        let ceilings = Ceilings { rate_bytes_per_second: Some(1 << 20), ..Ceilings::default() };
        let mut notes = Vec::new();
        let bounded = ceilings.bound(settings(ALL), QosClass::Ls, &mut notes).expect("not off");
        let expected = settings(
            r#"{
            "options": {"profile": "balanced", "max_stall_seconds": 0.01},
            "qos_class": "ls",
            "limits": {"workers": 1, "batch_bytes": 16777216, "rate_bytes_per_second": 1048576},
            "interval_seconds": 60
        }"#,
        );
        assert_eq!(bounded, expected);
        insta::assert_snapshot!(notes.join("\n"));
    }

    #[test]
    fn what_a_ceiling_allows_is_left_alone() {
        let ceilings = Ceilings {
            profile: Profile::Fast,
            rate_bytes_per_second: None,
            workers: 8,
            min_interval: Duration::from_secs(1),
            include_shared: true,
            include_bound: true,
            named_nodes: true,
            fresh_hugetlb: true,
            move_cache: true,
            pause_numa_balancing: true,
            offload: true,
        };
        let mut asked = settings(ALL);
        asked.policy.options.to = "0,8".parse().ok();
        let mut notes = Vec::new();
        assert_eq!(ceilings.bound(asked.clone(), QosClass::Lsr, &mut notes), Some(asked));
        assert_eq!(notes, [""; 0]);
    }

    #[test]
    fn the_rate_and_the_threads_are_bounded_unasked() {
        let ceilings = Ceilings {
            profile: Profile::Fast,
            rate_bytes_per_second: Some(4096),
            ..Ceilings::default()
        };
        let mut notes = Vec::new();
        let asked = settings(r#"{"options": {"profile": "fast"}}"#);
        let bounded = ceilings.bound(asked, QosClass::Be, &mut notes).expect("not off");
        let limits = bounded.limits;
        assert_eq!((limits.rate_bytes_per_second, limits.workers), (Some(4096), Some(1)));
        assert_eq!(notes, [""; 0], "nothing was asked for");
    }

    #[test]
    fn memory_for_named_nodes_goes_nowhere_else() {
        let mut notes = Vec::new();
        let asked = settings(r#"{"options": {"to_nodes": [1]}}"#);
        assert_eq!(Ceilings::default().bound(asked, QosClass::Ls, &mut notes), None);
        assert_eq!(notes.len(), 1);
    }
}
