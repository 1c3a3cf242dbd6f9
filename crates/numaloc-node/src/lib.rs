//! Keeps numalocd as a client wants it: its workloads registered, and one schedule for each that has a policy. `numaloc-nri` and
//! `numaloc-agent` are such clients; each derives what it wants in its own way.
//!
//! | module | what it holds |
//! |---|---|
//! | `mark` | what marks the records of one client, and the state that a schedule was made of |
//! | `records` | compares what is wanted with what numalocd has, and makes it so, again after each failure |
//! | `daemon` | the calls of numalocd that this takes |
//! | `answer`, `back_off` | answers in time, and the wait before something is tried again |
//! | `log`, `stopped` | how a client logs, and its end |
//!
//! **It compares, it does not replay.** Whoever uses [`Records`] says what is wanted as a whole or of one record, and each step may be
//! done twice. So it does not matter after what failure, and whose, it begins again, and nothing is stored.
#![forbid(unsafe_code)]

mod answer;
mod back_off;
mod daemon;
#[cfg(feature = "fake")]
pub mod fake;
mod log;
mod mark;
mod records;
mod stopped;

pub use answer::within;
pub use back_off::BackOff;
pub use daemon::{Daemon, Events, Grpc, Others, is_lost};
pub use log::start_log;
pub use mark::{MANAGED, Mark, RUN, STATE, fitting, hash, state, token};
pub use records::{AGAIN, Records, Wanted};
pub use stopped::stopped;
