//! Resource names such as `jobs/7`, and the ids in them.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $collection:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            id: String,
            number: Option<u64>,
        }

        impl $name {
            /// The part of a resource name before the id.
            pub const PREFIX: &str = concat!($collection, "/");

            /// An id of 1 to 128 letters, digits, `.`, `_` or `-`; `None` for other text.
            pub fn new(id: &str) -> Option<Self> {
                let number = id.parse().ok().filter(|number: &u64| number.to_string() == id);
                is_token(id, TOKEN_MAX).then(|| Self { id: id.to_owned(), number })
            }
            /// The id in a resource name; `None` if it is not a name of this kind.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::new(name.strip_prefix(Self::PREFIX)?)
            }
            /// The id in a resource name or, as people write it, without the collection: `jobs/7` and `7`; `None` for other text.
            pub fn named(text: &str) -> Option<Self> {
                Self::new(text.strip_prefix(Self::PREFIX).unwrap_or(text))
            }
            /// Reads the resource name of a stored record, whatever ids were allowed when it was written.
            pub(crate) fn from_record(name: &str) -> Option<Self> {
                let id = name.strip_prefix(Self::PREFIX)?;
                let number = id.parse().ok().filter(|number: &u64| number.to_string() == id);
                (!id.is_empty()).then(|| Self { id: id.to_owned(), number })
            }
            /// The id that the daemon gives to record number `number`.
            pub fn numbered(number: u64) -> Self {
                Self { id: number.to_string(), number: Some(number) }
            }
            /// This id as that of record number `number`. An id that the daemon has given keeps its own number.
            pub fn with_number(self, number: u64) -> Self {
                Self { number: self.number.or(Some(number)), ..self }
            }
            /// The number of the record, if it is known. It is known for ids that the daemon has given, and for ids that a
            /// client has chosen where they come from a record.
            pub fn number(&self) -> Option<u64> {
                self.number
            }
            /// The id without the collection: `7` of `jobs/7`.
            pub fn id(&self) -> &str {
                &self.id
            }
            /// Whether both name the same record. An id that a client has chosen may be chosen again when its record is gone: where
            /// both numbers are known, they have to be the same.
            pub fn is_same(&self, other: &Self) -> bool {
                let numbers = self.number.zip(other.number);
                self == other && numbers.is_none_or(|(own, others)| own == others)
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.id == other.id
            }
        }

        impl Eq for $name {}

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                self.id.cmp(&other.id)
            }
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.id.hash(state);
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", Self::PREFIX, self.id)
            }
        }
    };
}

id!(
    /// The name of a job: `jobs/{id}`.
    JobId,
    "jobs"
);
id!(
    /// The name of a schedule: `schedules/{id}`.
    ScheduleId,
    "schedules"
);
id!(
    /// The name of a workload: `workloads/{id}`.
    WorkloadId,
    "workloads"
);

/// Longest path of a cgroup or file in bytes (linux/limits.h, PATH_MAX).
pub const PATH_MAX: usize = 4096;

/// Whether `path` can name a cgroup, as /proc/PID/cgroup does, or a file: it is absolute, without `.`, `..` and empty components.
/// Its length and characters are bounded where it is asked for.
pub fn is_path(path: &str) -> bool {
    let part = |part: &str| !matches!(part, "" | "." | "..");
    path == "/" || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(part))
}

pub(crate) const TOKEN_MAX: usize = 128;

/// Whether `text` is 1 to `max` letters, digits, `.`, `_` or `-`.
pub(crate) fn is_token(text: &str, max: usize) -> bool {
    let fits = (1..=max).contains(&text.len());
    fits && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}
