//! Options that say how much of the application's time a migration may take.

use crate::{
    exit::Failure,
    units::{parse_some_percent, parse_stall},
};
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use numaloc_core::{NumaBalancing, Offload, Pacing, Profile};
use std::time::Duration;

/// Options of the pace. An option that is not given has its default; in a change it leaves the value as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "How gently")]
pub struct PaceArgs {
    /// How gently to move: gentle is slow and hardly noticeable, fast is quick but slows the target down meanwhile
    /// [default: balanced]
    #[arg(long, value_name = "PROFILE", value_parser = by_name(Profile::ALL, Profile::name))]
    pub profile: Option<Profile>,
    /// Longest that one call may take, from 100us to 60s; a single page may take longer [default: as the profile says]
    #[arg(long, value_name = "DURATION", value_parser = parse_stall, allow_hyphen_values = true)]
    pub max_stall: Option<Duration>,
    /// Throttle while other processes keep the CPUs of the target node busier than this; 100: never throttle for this [default:
    /// 100]
    #[arg(long, value_name = "PERCENT", value_parser = parse_some_percent, allow_hyphen_values = true)]
    pub node_cpu_max: Option<u8>,
    /// What to do about kernel.numa_balancing; pause switches it off meanwhile and needs the daemon [default: warn]
    #[arg(long, value_name = "ACTION", value_parser = by_name(NumaBalancing::ALL, NumaBalancing::name))]
    pub numa_balancing: Option<NumaBalancing>,
    /// Whether a DMA engine copies: where the kernel can and the daemon may, never, or always, which needs the daemon
    /// [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = by_name(Offload::ALL, Offload::name))]
    pub offload: Option<Offload>,
}

impl PaceArgs {
    /// `pacing` changed by the options that are given.
    pub fn change(&self, pacing: Pacing) -> Pacing {
        Pacing {
            profile: self.profile.unwrap_or(pacing.profile),
            max_stall: self.max_stall.or(pacing.max_stall),
            node_cpu_percent_max: self.node_cpu_max.or(pacing.node_cpu_percent_max),
            ..pacing
        }
    }

    /// Refuses to pause NUMA balancing and to require offload without the daemon. Only the daemon restores these
    /// settings even after it is killed.
    ///
    /// # Errors
    /// The option that needs the daemon.
    pub fn check_here(&self) -> Result<(), Failure> {
        match (self.numa_balancing, self.offload) {
            (Some(NumaBalancing::Pause), _) => {
                Err(Failure::NeedsDaemon { option: "--numa-balancing pause" })
            }
            (_, Some(Offload::Require)) => {
                Err(Failure::NeedsDaemon { option: "--offload require" })
            }
            _ => Ok(()),
        }
    }
}

/// A parser for the names of `all`. Completions offer these names.
pub fn by_name<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let find = move |text: String| {
        let found = all.into_iter().find(|&one| name(one) == text);
        found.ok_or("it is none of them")
    };
    PossibleValuesParser::new(all.map(name)).try_map(find)
}
