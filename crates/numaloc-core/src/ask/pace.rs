//! The pace of a migration: what a request sets, and the bounds that follow from it.

use std::time::Duration;

/// Preset that bounds the time which a migration takes from the application and its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// Short calls and long pauses: latency hardly changes, and the move takes longest.
    Gentle,
    /// Short stalls, with pauses between them that let the application work.
    #[default]
    Balanced,
    /// As fast as the machine allows, whatever it costs the application meanwhile.
    Fast,
}

impl Profile {
    /// Every profile, from the gentlest to the fastest.
    pub const ALL: [Profile; 3] = [Self::Gentle, Self::Balanced, Self::Fast];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gentle => "gentle",
            Self::Balanced => "balanced",
            Self::Fast => "fast",
        }
    }

    /// The bounds of the profile.
    fn pace(self) -> Pace {
        let guard = |io_percent, cpu_percent| {
            Some(GuardBounds { io_percent, cpu_percent, node_cpu_percent: 100 })
        };
        let ms = Duration::from_millis;
        match self {
            Self::Gentle => Pace {
                max_stall: ms(5),
                starts_full: false,
                duty_percent: 10,
                workers: 1,
                most_workers: 1,
                batch_bytes: 4 << 20,
                pagelist_bytes: Some(64 << 10),
                guard: guard(20, 40),
                waits_for_huge_pages: true,
                drop_bytes_per_second: Some(32 << 20),
            },
            Self::Balanced => Pace {
                max_stall: ms(10),
                starts_full: false,
                duty_percent: 42,
                workers: 1,
                most_workers: 1,
                batch_bytes: 16 << 20,
                pagelist_bytes: Some(256 << 10),
                guard: guard(40, 60),
                waits_for_huge_pages: true,
                drop_bytes_per_second: Some(256 << 20),
            },
            Self::Fast => Pace {
                max_stall: ms(250),
                starts_full: true,
                duty_percent: 100,
                workers: 2,
                most_workers: 8,
                batch_bytes: 64 << 20,
                pagelist_bytes: None,
                guard: None,
                waits_for_huge_pages: false,
                drop_bytes_per_second: None,
            },
        }
    }
}

/// Pace options that a request sets. The profile sets the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pacing {
    /// Where each bound that is `None` here comes from.
    pub profile: Profile,
    /// The longest that one move_pages(2) call may take.
    pub max_stall: Option<Duration>,
    /// Share of CPU time that other processes may use on a target node before the move is throttled, in percent of
    /// the CPUs' time. With 100 the move is never throttled for this.
    pub node_cpu_percent_max: Option<u8>,
    /// Threads that scan, and threads that move, at the same time: neither more nor fewer.
    pub workers: Option<usize>,
}

impl Pacing {
    /// The profile's pace, changed by what the request says.
    pub fn pace(&self) -> Pace {
        let pace = self.profile.pace();
        let guard = match (pace.guard, self.node_cpu_percent_max) {
            (Some(guard), Some(percent)) => {
                Some(GuardBounds { node_cpu_percent: percent, ..guard })
            }
            // A request that names this bound wants it kept, but no other guard.
            (None, Some(percent)) => {
                Some(GuardBounds { io_percent: 100, cpu_percent: 100, node_cpu_percent: percent })
            }
            (guard, None) => guard,
        };
        Pace {
            max_stall: self.max_stall.unwrap_or(pace.max_stall),
            starts_full: pace.starts_full && self.max_stall.is_none(),
            workers: self.workers.unwrap_or(pace.workers),
            most_workers: self.workers.unwrap_or(pace.most_workers),
            guard,
            ..pace
        }
    }
}

/// Bounds that a run keeps to, so that it disturbs others little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The longest that one move_pages(2) call may take; a single folio may take longer.
    pub max_stall: Duration,
    /// Whether the first calls hold [`Self::batch_bytes`], so that they may take longer; otherwise they are small until the speed of the
    /// machine is known.
    pub starts_full: bool,
    /// Share of the time that a worker may spend in calls, in percent from 1 to 100.
    pub duty_percent: u8,
    /// Threads that move at the same time, as long as nothing is known of their rate.
    pub workers: usize,
    /// Threads that may move at the same time where CPUs are idle and each further thread has been measured to add to the rate.
    pub most_workers: usize,
    /// Largest number of bytes in one call; a single folio may be larger.
    pub batch_bytes: u64,
    /// The largest number of bytes that the kernel unmaps at once within a call; a single folio may be larger. `None`:
    /// the kernel's own number, which is 2 MiB from 6.3 on and one folio before that (mm/migrate.c,
    /// NR_MAX_BATCHED_MIGRATION).
    pub pagelist_bytes: Option<u64>,
    /// Bounds of pressure beyond which the run holds back; `None`: it never does.
    pub guard: Option<GuardBounds>,
    /// Whether the run holds back for some time when huge pages are split because the target has no free huge pages.
    pub waits_for_huge_pages: bool,
    /// Most bytes of page cache per second that are dropped for room on the targets. The processes that used that cache read it from its
    /// disk again, and whether much of it was in use shows only afterwards. `None`: as fast as the kernel drops it.
    pub drop_bytes_per_second: Option<u64>,
}

impl Pace {
    /// The number of workers to request so that there are at most `most`. `None`: the default is not above it.
    pub fn workers_within(&self, most: usize) -> Option<usize> {
        (self.most_workers > most).then(|| self.workers.min(most))
    }
}

/// Bounds beyond which a run holds back, each in percent of the time; 100: never. Only pressure that the run itself
/// causes counts, not pressure that is there anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardBounds {
    /// Time in which some task of the target waits for IO: `some` of its cgroup's io.pressure. Waits for pages under
    /// migration show there (mm/migrate.c, `migration_entry_wait` sleeps in io_schedule).
    pub io_percent: u8,
    /// Time in which some runnable task of the target has no CPU: `some` of its cgroup's cpu.pressure.
    pub cpu_percent: u8,
    /// CPU time of the target node that processes other than the target and the mover use, whatever the run does.
    pub node_cpu_percent: u8,
}

/// Treatment of the kernel's own NUMA balancing (sysctl kernel.numa_balancing), which moves pages to where they are
/// touched, and so may work against a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumaBalancing {
    /// Balancing stays as it is, without a warning.
    Ignore,
    /// A message says that it is on.
    #[default]
    Warn,
    /// It is switched off while memory is moved, and restored afterwards.
    Pause,
}

impl NumaBalancing {
    /// Every choice, from the one that does least.
    pub const ALL: [NumaBalancing; 3] = [Self::Ignore, Self::Warn, Self::Pause];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ignore => "ignore",
            Self::Warn => "warn",
            Self::Pause => "pause",
        }
    }
}

/// In which order the extents of a plan are visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Most used first, if the kernel can measure this at no cost to the application and the move is long enough to be
    /// worth the measurement; else by address.
    #[default]
    Probed,
    /// By ascending address, without any measurement.
    Address,
    /// Most used first, measured with DAMON's sysfs interface (Documentation/admin-guide/mm/damon/usage.rst).
    Damon,
    /// Most used mappings first, by the Referenced bits of /proc/PID/smaps some time after a write to
    /// /proc/PID/clear_refs. The write walks all page tables with mmap_lock held for writing (fs/proc/task_mmu.c,
    /// `clear_refs_write`). During the walk the application can neither fault nor map.
    Referenced,
}

impl Order {
    /// Every order that a request may name.
    pub const ALL: [Order; 4] = [Self::Probed, Self::Address, Self::Damon, Self::Referenced];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Probed => "probed",
            Self::Address => "address",
            Self::Damon => "damon",
            Self::Referenced => "referenced",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gentler_the_less_time() {
        let paces = Profile::ALL.map(Profile::pace);
        assert!(paces.is_sorted_by_key(|pace| (
            pace.max_stall,
            pace.duty_percent,
            pace.batch_bytes
        )));
        assert!(paces.iter().all(|pace| (1..=100).contains(&pace.duty_percent)));
        let dropped = paces.map(|pace| pace.drop_bytes_per_second.unwrap_or(u64::MAX));
        assert!(dropped.is_sorted() && dropped[0] < dropped[2]);
    }

    #[test]
    fn what_is_asked_goes_before_the_profile() {
        let ms = Duration::from_millis;
        let asked = Pacing { max_stall: Some(ms(3)), ..Pacing::default() };
        assert_eq!(asked.pace(), Pace { max_stall: ms(3), ..Profile::Balanced.pace() });
        let node = |profile| {
            Pacing { profile, node_cpu_percent_max: Some(80), ..Pacing::default() }.pace().guard
        };
        assert_eq!(node(Profile::Balanced).map(|guard| guard.node_cpu_percent), Some(80));
        let fast = node(Profile::Fast).expect("it was named");
        assert_eq!((fast.io_percent, fast.node_cpu_percent), (100, 80));
    }

    #[test]
    fn a_number_of_workers_is_asked_for_where_there_could_be_too_many() {
        let within = |pacing: Pacing| [1, 2, 7, 8].map(|most| pacing.pace().workers_within(most));
        assert_eq!(within(Pacing::default()), [None; 4]);
        let fast = Pacing { profile: Profile::Fast, ..Pacing::default() };
        assert_eq!(within(fast), [Some(1), Some(2), Some(2), None]);
        let asked = Pacing { workers: Some(7), ..fast };
        assert_eq!(within(asked), [Some(1), Some(2), None, None]);
    }
}
