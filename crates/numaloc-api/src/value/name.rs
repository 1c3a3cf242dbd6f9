//! Resource names.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $collection:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// What stands before the id in a resource name.
            pub const PREFIX: &str = concat!($collection, "/");

            /// Wraps an id of 1 to 128 letters, digits, `.`, `_` or `-`.
            pub fn new(id: &str) -> Option<Self> {
                is_token(id, TOKEN_MAX).then(|| Self(id.to_owned()))
            }
            /// Reads a resource name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::new(name.strip_prefix(Self::PREFIX)?)
            }
            /// The id that the daemon gives to the `number`th.
            pub fn numbered(number: u64) -> Self {
                Self(number.to_string())
            }
            /// The number, if it is an id that the daemon gives.
            pub fn number(&self) -> Option<u64> {
                self.0.parse().ok().filter(|number: &u64| number.to_string() == self.0)
            }
            /// The id alone.
            pub fn id(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            /// The resource name.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", Self::PREFIX, self.0)
            }
        }
    };
}

id!(
    /// A job, `jobs/{id}`.
    JobId,
    "jobs"
);
id!(
    /// A schedule, `schedules/{id}`.
    ScheduleId,
    "schedules"
);
id!(
    /// A workload, `workloads/{id}`.
    WorkloadId,
    "workloads"
);

/// Longest id in bytes.
pub(crate) const TOKEN_MAX: usize = 128;

/// Whether `text` is 1 to `max` letters, digits, `.`, `_` or `-`.
pub(crate) fn is_token(text: &str, max: usize) -> bool {
    let fits = (1..=max).contains(&text.len());
    fits && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}
