//! The configuration: plain data, how it is read from files, and which of it a reload may change.
//!
//! `declared` has schedules of files. `grant` has roles and ceilings, which `access` applies. `file` has the tables of
//! the file that differ from the configuration. `check` has what makes keys invalid together. `value` parses single
//! values, such as users and sockets.

mod check;
mod declared;
mod file;
mod grant;
mod load;
mod reload;
#[cfg(test)]
mod tests;
mod value;

pub use declared::Declared;
pub use grant::{Ceilings, Grant, Grantee, NOBODY, Reserved, Role};
pub use load::{DropIns, Loaded};
pub use numaloc_config::{FileError, Mistake};
pub use reload::{has_found_accounts, reload};
pub(crate) use value::path;

use crate::{log::Levels, tls::Tls};
use numaloc_api::value::Limits;
use numaloc_config::{
    Resctrl, Tiers,
    value::{DAY_MS, count, duration, rate},
};
use numaloc_core::Options;
use numaloc_dma::{Dma, WorkQueues};
use numaloc_executor::Scheduling;
use numaloc_host::Roots;
use serde::Deserialize;
use std::{net::SocketAddr, path::PathBuf, time::Duration};
use value::MANY;

/// The configuration file, unless another is named.
pub const DEFAULT_PATH: &str = "/etc/numaloc/numalocd.toml";

/// The settings of the daemon. The default ones hold without a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Where to listen. Not changed at run time.
    pub listen: Listen,
    /// Number of jobs that run at once, and their rate together.
    pub queue: Queue,
    /// Scheduling of the threads that move.
    pub mover: Scheduling,
    /// The limits of a job that names none itself.
    pub limits: Limits,
    /// Most bytes a second for which the memory of a target node may be used, for jobs that name no bound.
    pub node_bandwidth_max: Option<u64>,
    /// Resources that one client may use up.
    pub quota: Quota,
    /// Time limits for calls of clients.
    pub calls: Calls,
    /// Bounds on the ended jobs and events that are kept.
    pub retention: Retention,
    /// Whether DMA engines may copy, and how.
    pub offload: Dma,
    /// Rights of callers. The first grant that matches decides. root and the daemon's own user are always admins.
    pub grants: Vec<Grant>,
    /// Accounts that grants are to and that this host does not have now, for people. Those grants have no effect.
    pub missing_accounts: Vec<String>,
    /// Names of jobs, schedules and workloads that are kept for those whom a grant names.
    pub reserved: Vec<Reserved>,
    /// Where metrics are served: by plain HTTP at a loopback address, with TLS at others. Not changed at run time.
    pub metrics: Option<SocketAddr>,
    /// Metrics of the memory of the host's processes.
    pub host_metrics: HostMetrics,
    /// The least severe level that is logged, also for parts of the program.
    pub log: Levels,
    /// Time that running calls may take when the daemon stops.
    pub stop: Stop,
    /// Work queues of accelerators for the kernel. Not changed at run time.
    pub dsa: WorkQueues,
    /// The memory tiers of the host. Not changed at run time.
    pub tiers: Tiers,
    /// The resctrl group in which memory is moved. Not changed at run time.
    pub resctrl: Resctrl,
    /// Schedules that files declare, each with another id.
    pub schedules: Vec<Declared>,
}

impl Config {
    /// The options of a job or a plan, with the bounds that it does not name itself.
    pub fn bounded(&self, options: Options) -> Options {
        let most = options.node_bandwidth_max_bytes_per_second.or(self.node_bandwidth_max);
        Options { node_bandwidth_max_bytes_per_second: most, ..options }
    }

    /// The host, as its operator describes it.
    pub fn roots(&self) -> Roots {
        Roots { tiers: self.tiers.order.clone(), ..Roots::default() }
    }
}

/// The sockets and addresses at which the API is served.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Listen {
    /// The main Unix socket, also for root.
    #[serde(deserialize_with = "value::socket")]
    pub socket: PathBuf,
    /// Permission bits of `socket`.
    #[serde(deserialize_with = "value::mode")]
    pub mode: u32,
    /// The group that owns it; `None`: that of the daemon.
    #[serde(deserialize_with = "value::some_group")]
    pub group: Option<String>,
    /// Additional Unix sockets, such as one for a container.
    pub sockets: Vec<Socket>,
    /// A TCP address to listen on as well. Without `tls` it is plain: only at a loopback address, and only if
    /// explicitly allowed.
    #[serde(deserialize_with = "value::some_address")]
    pub tcp: Option<SocketAddr>,
    /// Whether `tcp` may be a loopback address without `tls`.
    pub plain_loopback: bool,
    /// Keys for TCP, and for metrics at an address other than loopback. The files are read again with each reload.
    #[serde(deserialize_with = "file::tls")]
    pub tls: Option<Tls>,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            socket: "/run/numaloc/numalocd.sock".into(),
            mode: value::usual_mode(),
            group: None,
            sockets: Vec::new(),
            tcp: None,
            plain_loopback: false,
            tls: None,
        }
    }
}

/// An additional Unix socket. A caller there has the rights that the grants give it, but at most the socket's role.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Socket {
    /// Its path. No other socket is in its directory or below, so that the directory can be mounted into a container.
    #[serde(deserialize_with = "value::socket")]
    pub path: PathBuf,
    /// Permission bits of `path`.
    #[serde(default = "value::usual_mode", deserialize_with = "value::mode")]
    pub mode: u32,
    /// The group that owns it; `None`: that of the daemon.
    #[serde(default, deserialize_with = "value::some_group")]
    pub group: Option<String>,
    /// The highest role of a caller there, also of root.
    pub max_role: Role,
}

/// Number of jobs that run at once, and their rate together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Queue {
    /// Jobs that move at the same time.
    #[serde(deserialize_with = "count::<1, 256, _, _>")]
    pub moves: usize,
    /// Jobs that are planned at the same time, in addition to moving jobs.
    #[serde(deserialize_with = "count::<1, 256, _, _>")]
    pub plans: usize,
    /// Jobs that move to the same node at the same time.
    #[serde(deserialize_with = "count::<1, 256, _, _>")]
    pub moves_per_node: usize,
    /// Most bytes per second that all jobs together move.
    #[serde(deserialize_with = "rate")]
    pub rate_bytes_per_second: Option<u64>,
}

impl Default for Queue {
    fn default() -> Self {
        Self { moves: 2, plans: 2, moves_per_node: 1, rate_bytes_per_second: None }
    }
}

/// Resources that one client may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Quota {
    /// Jobs that have not ended.
    #[serde(deserialize_with = "count::<1, MANY, _, _>")]
    pub open_jobs: usize,
    /// Schedules, paused ones included.
    #[serde(deserialize_with = "count::<1, MANY, _, _>")]
    pub schedules: usize,
    /// Registered workloads whose lease has not expired.
    #[serde(deserialize_with = "count::<1, MANY, _, _>")]
    pub workloads: usize,
    /// Approximate size of all of these and of the open jobs of schedules, in bytes.
    #[serde(deserialize_with = "value::bytes")]
    pub bytes: usize,
    /// The same of all clients together.
    #[serde(deserialize_with = "value::bytes")]
    pub all_bytes: usize,
    /// Bytes that changes write in a minute. All of them may come in one burst.
    #[serde(deserialize_with = "value::bytes")]
    pub written_bytes_per_minute: usize,
    /// Watches open at the same time.
    #[serde(deserialize_with = "count::<1, MANY, _, _>")]
    pub watches: usize,
    /// Calls per second. All of them may come in one burst.
    #[serde(deserialize_with = "count::<1, 1_000_000, _, _>")]
    pub requests_per_second: u32,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            open_jobs: 1000,
            schedules: 1000,
            workloads: 10_000,
            bytes: 32 << 20,
            all_bytes: 128 << 20,
            written_bytes_per_minute: 64 << 20,
            watches: 2000,
            requests_per_second: 1000,
        }
    }
}

/// Observation of the memory of the host's processes, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct HostMetrics {
    /// Whether it looks at all. It looks only while the metrics are read.
    pub enable: bool,
    /// Time between two rounds.
    #[serde(deserialize_with = "duration::<10_000, { DAY_MS }, _, _>")]
    pub period: Duration,
    /// Share of one CPU that looking may use, in percent.
    #[serde(rename = "cpu", deserialize_with = "value::cpu_percent")]
    pub cpu_percent: f64,
    /// Most units, containers and programs, each, that have series of their own.
    #[serde(deserialize_with = "count::<1, 1000, _, _>")]
    pub series: usize,
}

impl Default for HostMetrics {
    fn default() -> Self {
        Self { enable: true, period: Duration::from_secs(60), cpu_percent: 0.5, series: 20 }
    }
}

/// Time limits for calls of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Calls {
    /// Longest time until a call is answered, waiting in line included. What a call asks for answers sooner or not at
    /// all (systemd has 10 s). So only a call that is stuck, or behind too many others of its caller, is cut off.
    #[serde(deserialize_with = "duration::<1000, 3_600_000, _, _>")]
    pub timeout: Duration,
    /// The same for a call that may look at memory, because some terabytes of small pages take that long, and for a
    /// request that comes in parts.
    #[serde(deserialize_with = "duration::<1000, 3_600_000, _, _>")]
    pub long_timeout: Duration,
    /// Longest time that a piece of an answer waits for its client to take it.
    #[serde(deserialize_with = "duration::<1000, 3_600_000, _, _>")]
    pub take_timeout: Duration,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            long_timeout: Duration::from_secs(120),
            take_timeout: Duration::from_secs(60),
        }
    }
}

/// Bounds for what is kept of ended jobs and events. Records beyond a bound are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Retention {
    /// Longest age of ended jobs and events.
    #[serde(deserialize_with = "duration::<60_000, { 3660 * DAY_MS }, _, _>")]
    pub age: Duration,
    /// Most ended jobs; the oldest are removed first.
    #[serde(deserialize_with = "count::<1, MANY, _, _>")]
    pub jobs: usize,
    /// Most events; the oldest are removed first.
    #[serde(deserialize_with = "count::<1, MANY, _, _>")]
    pub events: usize,
    /// Most bytes, approximately, of ended jobs; the same number again for events.
    #[serde(deserialize_with = "value::bytes")]
    pub bytes: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            age: Duration::from_secs(30 * 24 * 3600),
            jobs: 10_000,
            events: 100_000,
            bytes: 64 << 20,
        }
    }
}

/// Bounds for the end of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Stop {
    /// Time that current batches may take to end. The unit's TimeoutStopSec has to be longer.
    #[serde(deserialize_with = "duration::<100, 300_000, _, _>")]
    pub grace: Duration,
}

impl Default for Stop {
    fn default() -> Self {
        Self { grace: Duration::from_secs(8) }
    }
}
