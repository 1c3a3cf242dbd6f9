//! The way a migration is carried out.

use super::OptionArgs;
use crate::{
    exit::Failure,
    units::{parse_batch, parse_duration, parse_rate, whole},
};
use clap::{Args, ValueEnum};
use numaloc_api::value::{self, OnInterrupt};
use numaloc_core::NodeSet;
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Bounds")]
pub struct LimitArgs {
    /// Give up after this time, for example 500ms, 10s, 5m or 1h.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    pub timeout: Option<Duration>,
    /// Largest amount in one call, such as 4M or 64M [default: 16M; gentle: 4M, fast: 64M]
    #[arg(long, value_name = "SIZE", value_parser = parse_batch, allow_hyphen_values = true)]
    pub batch_bytes: Option<u64>,
    /// Threads that move at the same time [default: 1; fast: 2 to 8]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1, Some(256)), allow_hyphen_values = true)]
    pub workers: Option<u16>,
    /// Most to move in a second, averaged, such as 512M or 1.5G/s.
    #[arg(long, value_name = "RATE", value_parser = parse_rate, allow_hyphen_values = true)]
    pub rate: Option<u64>,
    /// Most to move in an hour, such as 4G; the runs of a schedule share it [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_batch, allow_hyphen_values = true)]
    pub hourly_budget: Option<u64>,
}

impl LimitArgs {
    /// Whether no option is given.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
    /// `limits` changed by the options that are given, for the daemon.
    pub fn change(&self, limits: value::Limits) -> value::Limits {
        value::Limits {
            batch_bytes: self.batch_bytes.or(limits.batch_bytes),
            workers: self.workers.map(usize::from).or(limits.workers),
            timeout: self.timeout.or(limits.timeout),
            rate_bytes_per_second: self.rate.or(limits.rate_bytes_per_second),
            hourly_budget_bytes: self.hourly_budget.or(limits.hourly_budget_bytes),
        }
    }
}

/// Options for the daemon alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Queue (with the daemon only)")]
pub struct QueueArgs {
    /// Place in the queue [default: the class of the registered workload, else ls]
    #[arg(long, value_enum, value_name = "CLASS")]
    pub qos: Option<Qos>,
    /// Plan the job again when the daemon is back, if it stops or dies while the job runs.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub resume: Option<bool>,
    /// Which runs are reported as events: each start and end, or ends that differ from the one before [default: on-change]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub emit: Option<EmitArg>,
}

/// Which runs are reported as events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EmitArg {
    /// Each start and each end.
    Always,
    /// Each end; for a schedule that repeats, only ends that differ from the one before.
    OnChange,
}

impl From<EmitArg> for value::Emit {
    fn from(emit: EmitArg) -> Self {
        match emit {
            EmitArg::Always => Self::Always,
            EmitArg::OnChange => Self::OnChange,
        }
    }
}

/// Quality-of-service classes, in the order in which they are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Qos {
    /// Latency-sensitive with reserved CPUs.
    Lsr,
    /// Latency-sensitive.
    Ls,
    /// Best effort.
    Be,
}

impl From<Qos> for value::QosClass {
    fn from(class: Qos) -> Self {
        match class {
            Qos::Lsr => Self::Lsr,
            Qos::Ls => Self::Ls,
            Qos::Be => Self::Be,
        }
    }
}

impl QueueArgs {
    /// Whether no option is given.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
    /// `policy` changed by the options that are given.
    pub fn change(&self, policy: value::Policy) -> value::Policy {
        let on_interrupt = |resume| if resume { OnInterrupt::Resume } else { OnInterrupt::Stop };
        value::Policy {
            qos_class: self.qos.map(Into::into).or(policy.qos_class),
            on_interrupt: self.resume.map_or(policy.on_interrupt, on_interrupt),
            emit: self.emit.map_or(policy.emit, Into::into),
            ..policy
        }
    }
}

/// The migration that options describe, for the daemon.
///
/// # Errors
/// No node is left to move to.
pub fn spec(
    target: value::Target,
    options: &OptionArgs,
    queue: &QueueArgs,
    limits: &LimitArgs,
    with_memory: &NodeSet,
) -> Result<value::MigrationSpec, Failure> {
    let policy = options.change(value::Policy::default(), with_memory)?;
    Ok(value::MigrationSpec {
        target,
        policy: queue.change(policy),
        limits: limits.change(value::Limits::default()),
    })
}
