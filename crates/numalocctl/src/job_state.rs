//! The states of a job, as arguments name them and documents show them.

use clap::ValueEnum;
use numaloc_api::value;
use serde::Serialize;

macro_rules! states {
    ($($(#[$doc:meta])* $state:ident $name:literal),+ $(,)?) => {
        /// The states of a job.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
        #[serde(rename_all = "snake_case")]
        pub enum JobState {
            $($(#[$doc])* $state,)+
            /// A state that only a newer daemon knows.
            #[value(skip)]
            Unknown,
        }

        impl JobState {
            /// Its name for people.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$state => $name,)+
                    Self::Unknown => "unknown",
                }
            }

            /// The state in a request; `None`: no request can name it.
            pub fn asked(self) -> Option<value::JobState> {
                match self {
                    $(Self::$state => Some(value::JobState::$state),)+
                    Self::Unknown => None,
                }
            }
        }
    };
}

states! {
    /// Waits for its turn.
    Queued "queued",
    /// Its target is being looked at.
    Planning "planning",
    /// Memory is being moved.
    Running "running",
    /// Paused by a client.
    Paused "paused",
    /// All memory that was to be moved is local.
    Succeeded "succeeded",
    /// It ended, and some of the memory that was to be moved is still remote.
    Partial "partial",
    /// There was nothing to do.
    Skipped "skipped",
    /// It could not be carried out.
    Failed "failed",
    /// Cancelled by a client.
    Cancelled "cancelled",
    /// The daemon stopped or died while it was running.
    Interrupted "interrupted",
    /// As interrupted, but it goes on when the daemon is back.
    Suspended "suspended",
}

impl JobState {
    /// Whether a job in this state has ended.
    pub fn is_end(self) -> bool {
        use JobState::{Cancelled, Failed, Interrupted, Partial, Skipped, Succeeded};
        matches!(self, Succeeded | Partial | Skipped | Failed | Cancelled | Interrupted)
    }
}
