//! Enums by their numbers in the API, and other small conversions in both directions.

use crate::{Problem, Violations, v1, value};
use numaloc_core::{
    BesideKernel, CacheStop, Compact, FixedKind, HeatSource, HomeRule, HugetlbSource, Kind,
    LatencySource, MakeRoom, NodeKind, NumaBalancing, Offload, Order, Profile, Reason, Skip,
    StorageMode, TierSource, Watch, WeightSource, advise::FindingKind, contents::ContentKind,
};
use std::time::{Duration, SystemTime};

macro_rules! enum_names {
    ($value:ty => $proto:ty { $($from:ident => $to:ident),+ $(,)? }) => {
        impl From<$value> for $proto {
            fn from(value: $value) -> Self {
                match value { $(<$value>::$from => Self::$to),+ }
            }
        }
    };
    (both $value:ty => $proto:ty { $($from:ident => $to:ident),+ $(,)? }) => {
        enum_names!($value => $proto { $($from => $to),+ });
        impl Known for $value {
            fn known(number: i32) -> Option<Option<Self>> {
                match <$proto>::try_from(number).ok()? {
                    <$proto>::Unspecified => Some(None),
                    $(<$proto>::$to => Some(Some(<$value>::$from))),+
                }
            }
        }
    };
}

/// A value that the API has as a number.
pub trait Known: Sized {
    /// The value. `Some(None)` for the number of "unspecified", `None` for a number that is not known.
    fn known(number: i32) -> Option<Option<Self>>;
}

enum_names!(both value::QosClass => v1::QosClass { Lsr => Lsr, Ls => Ls, Be => Be });
enum_names!(both value::OnInterrupt => v1::InterruptAction { Stop => Stop, Resume => Resume });
enum_names!(both value::OnConflict => v1::ConflictAction { Refuse => Refuse, Join => Join });
enum_names!(both Profile => v1::Profile { Gentle => Gentle, Balanced => Balanced, Fast => Fast });
enum_names!(both NumaBalancing => v1::NumaBalancingAction {
    Ignore => Ignore, Warn => Warn, Pause => Pause,
});
enum_names!(both Order => v1::MoveOrder {
    Probed => Probed, Address => Address, Damon => Damon, Referenced => Referenced,
});
enum_names!(both HomeRule => v1::HomeRule { Cpus => Cpus, Busy => Busy, Devices => Devices, Near => Near });
enum_names!(both HugetlbSource => v1::HugetlbSource { Pool => Pool, Fresh => Fresh });
enum_names!(both Compact => v1::Compact { Auto => Auto, Never => Never, Always => Always });
enum_names!(both Offload => v1::Offload { Auto => Auto, Off => Off, Require => Require });
enum_names!(both MakeRoom => v1::MakeRoom {
    None => None, Cache => Cache, MoveCache => MoveCache, Exchange => Exchange,
});
enum_names!(both CacheStop => v1::CacheStop {
    Refaults => Refaults, Swap => Swap, Stuck => Stuck, Spent => Spent,
    NoOtherRoom => NoOtherRoom, NoFiles => NoFiles,
});
enum_names!(both BesideKernel => v1::BesideKernel { Refuse => Refuse, Warn => Warn, Ignore => Ignore });
enum_names!(both Watch => v1::UseWatch { Damon => Damon, Referenced => Referenced });
enum_names!(HeatSource => v1::MoveOrder {
    Address => Address, Damon => Damon, Referenced => Referenced,
});
enum_names!(both value::EventType => v1::EventType {
    Completed => Completed, Skipped => Skipped, Failed => Failed, Started => Started,
    Paused => Paused, Resumed => Resumed, TargetGone => TargetGone,
    ScheduleRemoved => ScheduleRemoved, PlacementContested => PlacementContested, PlacementStable => PlacementStable,
    OffloadFailed => OffloadFailed, DsaQueueFailed => DsaQueueFailed,
});
enum_names!(both value::Emit => v1::Emit { Always => Always, OnChange => OnChange });
enum_names!(both value::MemberState => v1::MemberState {
    Waiting => Waiting, Succeeded => Succeeded, Partial => Partial, Skipped => Skipped,
    Failed => Failed, Missing => Missing, Refused => Refused,
});
enum_names!(both value::JobState => v1::JobState {
    Queued => Queued, Planning => Planning, Running => Running, Paused => Paused,
    Succeeded => Succeeded, Partial => Partial, Skipped => Skipped, Failed => Failed,
    Cancelled => Cancelled, Interrupted => Interrupted, Suspended => Suspended,
});
enum_names!(both Reason => v1::LeftReason {
    Busy => Busy, Pinned => Pinned, Shared => Shared, Bound => Bound, NoMemory => NoMemory,
    NotAllowed => NotAllowed, NotMovable => NotMovable, ProcessGone => ProcessGone,
    Cancelled => Cancelled, OutOfTime => OutOfTime, FileExcluded => FileExcluded,
    RatioReached => RatioReached, StallBound => StallBound, OtherTier => OtherTier,
    NodeExcluded => NodeExcluded, Unreadable => Unreadable,
    NotNeeded => NotNeeded, KernelPage => KernelPage, NetworkFile => NetworkFile,
    NotReturned => NotReturned, TargetSaturated => TargetSaturated,
    OutOfBudget => OutOfBudget,
});
enum_names!(both NodeKind => v1::NodeKind {
    Dram => Dram, Hbm => Hbm, Cxl => Cxl, Persistent => Persistent, Gpu => Gpu,
    Private => Private, MemoryOnly => MemoryOnly, Empty => Empty,
});
enum_names!(both TierSource => v1::TierSource {
    Configuration => Configuration, Kernel => Kernel, Hmat => Hmat, Kind => Kind,
    Distance => Distance,
});
enum_names!(both StorageMode => v1::StorageMode {
    Raw => Raw, Sector => Sector, Fsdax => Fsdax, Devdax => Devdax, SystemRam => SystemRam,
});
enum_names!(FixedKind => v1::FixedKind {
    Kernel => Kernel, Secret => Secret, Device => Device, Dax => Dax,
});
enum_names!(both value::ScheduleState => v1::ScheduleState {
    Waiting => Waiting, Active => Active, TargetGone => TargetGone, Paused => Paused,
    Completed => Completed,
});
impl Known for v1::LabelSelectorOperator {
    fn known(number: i32) -> Option<Option<Self>> {
        let known = Self::try_from(number).ok()?;
        Some((known != Self::Unspecified).then_some(known))
    }
}

enum_names!(both ContentKind => v1::ContentKind {
    Anonymous => Anonymous, Shmem => Shmem, Cache => Cache, Hugetlb => Hugetlb,
    FreeHugetlb => FreeHugetlb, Slab => Slab, PageTables => PageTables,
    KernelStack => KernelStack, Other => Other,
});
enum_names!(both LatencySource => v1::LatencySource {
    Bench => Bench, Hmat => Hmat, Distances => Distances,
});
enum_names!(both WeightSource => v1::WeightSource {
    Kernel => Kernel, Hmat => Hmat, Bench => Bench,
});
enum_names!(both FindingKind => v1::FindingKind {
    PinnedRemote => PinnedRemote, PinnedAcross => PinnedAcross, UnpinnedFits => UnpinnedFits,
    Bound => Bound, Uneven => Uneven, Overcommitted => Overcommitted, Helper => Helper,
    Balancing => Balancing, Thp => Thp, Hugetlb => Hugetlb, MemsForbid => MemsForbid,
    Device => Device, Storage => Storage,
});
enum_names!(Kind => v1::MemoryKind {
    Anonymous => Anonymous, Heap => Heap, Stack => Stack, File => File, NetworkFile => NetworkFile, Shmem => Shmem,
});
enum_names!(Skip => v1::SkipReason {
    NoTargetNode => NoTargetNode, NoLocalMemory => NoLocalMemory, OneNode => OneNode,
});

macro_rules! plain_names {
    ($($value:ty => $proto:ty, $prefix:literal;)+) => {$(
        impl $value {
            /// Its name in the API without the prefix, such as `QUEUED`.
            pub fn name(self) -> &'static str {
                let name = <$proto>::from(self).as_str_name();
                name.strip_prefix($prefix).unwrap_or(name)
            }
        }
    )+};
}

plain_names! {
    value::JobState => v1::JobState, "JOB_STATE_";
    value::ScheduleState => v1::ScheduleState, "SCHEDULE_STATE_";
    value::EventType => v1::EventType, "EVENT_TYPE_";
    value::MemberState => v1::MemberState, "MEMBER_STATE_";
    value::QosClass => v1::QosClass, "QOS_CLASS_";
}

/// Reads an enum field; `None` if it is unspecified.
pub fn named<T: Known>(field: &str, value: i32, bad: &mut Violations) -> Option<T> {
    let known = T::known(value);
    if known.is_none() {
        bad.push(field, Problem::UnknownValue { value });
    }
    known.flatten()
}

/// Reads an enum field that is required.
pub fn must_name<T: Known>(field: &str, value: i32, bad: &mut Violations) -> Option<T> {
    if value == 0 {
        bad.push(field, Problem::Missing);
        return None;
    }
    named(field, value, bad)
}

/// Reads a list of enum values. Unspecified ones are refused.
pub fn all_named<T: Known>(field: &str, values: &[i32], bad: &mut Violations) -> Vec<T> {
    const LIST_MAX: usize = 32;
    if !super::check::count(field, values.len(), LIST_MAX, bad) {
        return Vec::new();
    }
    let mut one = |(index, &value): (usize, &i32)| {
        let known = T::known(value).flatten();
        if known.is_none() {
            bad.push(format!("{field}[{index}]"), Problem::UnknownValue { value });
        }
        known
    };
    values.iter().enumerate().filter_map(&mut one).collect()
}

/// A number of bytes, pages or calls for the API; at most the largest i64.
pub fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of processes or other things for the API; at most the largest i32.
pub fn int32(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Index of a node for the API.
pub fn index(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A duration for the API.
pub fn duration(span: Duration) -> prost_types::Duration {
    // Below 1_000_000_000, so it fits into an i32.
    prost_types::Duration { seconds: int(span.as_secs()), nanos: span.subsec_nanos() as i32 }
}

/// A time for the API. A time before 1970 becomes 1970.
pub fn timestamp(time: SystemTime) -> prost_types::Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    prost_types::Timestamp { seconds: int(since.as_secs()), nanos: since.subsec_nanos() as i32 }
}

/// The number in the resource name `events/{number}`.
pub fn event_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("events/")?;
    number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse().ok())?
}
