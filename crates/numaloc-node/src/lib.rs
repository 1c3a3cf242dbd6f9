//! The common part of numalocd's clients on a node: `numaloc-nri`, which container runtimes notify of containers, and
//! `numaloc-agent`, which watches pods at the API server of Kubernetes. They are two programs because their rights
//! differ. Each derives in its own way which containers exist; the further steps are here.
//!
//! ```text
//! args, config -> program: start, log, end
//! containers of the client -> container: workload, schedule -> keeper -> records -> daemon: numalocd
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `args`, `config` | arguments and configuration that each client has |
//! | `program`, `log`, `stopped` | the start of a client, its log, and its end |
//! | `mark` | the mark of one client's records, and the state that a schedule was made of |
//! | `container` | the workload of a container, and the schedule of a policy for it |
//! | `keeper`, `pulse` | the loop: all is declared, then each change; again after each failure; and what shows that it continues |
//! | `records` | the wanted records; compares numalocd's with them, and reconciles the difference |
//! | `daemon` | the calls of numalocd that this takes |
//! | `answer`, `back_off` | answers in time, and the wait before a retry |
//!
//! **It compares, it does not replay.** A client of [`Records`] names the wanted state as a whole or of one record, and
//! each step may be done twice. So it may begin again after any failure on either side, and nothing is stored.
//!
//! **Who registers, who decides.** `numaloc-nri` registers containers wherever it runs. `numaloc-agent` decides about
//! policies wherever it runs, and registers containers where the plugin has none. Each reads the other's records at
//! numalocd: [`AGENT_SOURCE`], [`YIELDS_TO`].
#![forbid(unsafe_code)]

mod answer;
mod args;
mod back_off;
mod config;
mod container;
mod daemon;
#[cfg(feature = "fake")]
pub mod fake;
mod keeper;
mod log;
mod mark;
mod program;
mod pulse;
mod records;
mod stopped;

pub use answer::within;
pub use args::NodeArgs;
pub use back_off::BackOff;
pub use config::{Configuration, ENDPOINT, LEASE, parse};
pub use container::{CONTAINER_NAME, Container, POD_UID, Registration, Terms, agent_id};
pub use daemon::{Daemon, Events, Grpc, Others, is_lost};
pub use keeper::{Keeper, MANY, keep, renewals};
pub use log::start_log;
pub use mark::{
    AGENT_SOURCE, CONTAINER, MANAGED, Mark, NAMESPACE, POD, RUN, STATE, YIELDS_TO, fitting, hash,
    state, token,
};
pub use program::{main, until_stopped};
pub use pulse::Pulse;
pub use records::{AGAIN, Records, Wanted};
