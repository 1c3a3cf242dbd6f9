//! The inputs and bounds of a run, its participants, and the state that the runs of a process share. Here: the bounds.

pub(crate) mod allowance;
pub(crate) mod assignment;
pub(crate) mod bounded;
pub(crate) mod calls;
pub(crate) mod compaction;
pub(crate) mod control;
pub(crate) mod drops;
pub(crate) mod party;
pub(crate) mod rate;
pub(crate) mod real_time;
pub(crate) mod rooms;

use crate::limits::{rate::SharedRate, rooms::SharedRooms};
use numaloc_core::Pacing;
use numaloc_host::Whose;
use std::{sync::Arc, time::Duration};

/// Bounds on the speed and duration of a run, and the state that it shares with other runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Largest number of bytes in one move_pages call; a single folio may be larger. `None`: the profile's value.
    pub batch_bytes: Option<u64>,
    /// Number of attempts at a page that the kernel could not move. The pauses between attempts grow.
    pub attempts: u32,
    /// Longest duration of the run. Memory that has not moved by then is left, with the reason `OutOfTime`.
    pub timeout: Option<Duration>,
    /// Most bytes that the run moves. Memory that is left then has the reason `OutOfBudget`.
    pub budget_bytes: Option<u64>,
    /// Most bytes per second that are passed to calls, whether they then move or not.
    pub rate_bytes_per_second: Option<u64>,
    /// Share of its time that a worker may be busy (calls, scans and verifications), in percent from 1 to 100. `None`: the
    /// profile's value.
    pub duty_percent: Option<u8>,
    /// A limit like `rate_bytes_per_second` that several runs share. It applies in addition to each run's own limit.
    pub shared_rate: Option<Arc<SharedRate>>,
    /// Where runs into the same nodes note what they are about to put there. `None`: only this run moves.
    pub rooms: Option<Arc<SharedRooms>>,
    /// Owners of the files whose page cache may be moved to another node, if the plan's options make room so.
    pub cache_of: Whose,
    /// Scheduling of the moving threads.
    pub scheduling: Scheduling,
}

/// Scheduling of the moving threads. A mover that waits for a CPU keeps its locks meanwhile, so a high nice value can
/// hurt the target more than it helps the target's neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// Use SCHED_BATCH: a mover that wakes up does not preempt other threads (sched(7)).
    pub batch: bool,
    /// Nice value to set, from -20 to 19. `None`: keep the caller's.
    pub nice: Option<i8>,
}

impl Default for Scheduling {
    fn default() -> Self {
        Self { batch: true, nice: None }
    }
}

impl RunLimits {
    /// The bounds of best-effort memory that makes room for a run with these bounds, at the pace of `pacing`: half of the run's
    /// rate, or of the share of time if the rate is not bounded. It ends with that run, so it has no time limit of
    /// its own.
    pub fn best_effort(&self, pacing: &Pacing) -> Self {
        let half = |amount: u64| (amount / 2).max(1);
        let rate_bytes_per_second = self.rate_bytes_per_second.map(half);
        let duty_percent = match rate_bytes_per_second {
            Some(_) => self.duty_percent,
            None => {
                let whole = self.duty_percent.unwrap_or(pacing.pace().duty_percent);
                Some((whole / 2).max(1))
            }
        };
        Self {
            timeout: None,
            budget_bytes: None,
            rate_bytes_per_second,
            duty_percent,
            ..self.clone()
        }
    }
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            batch_bytes: None,
            attempts: 4,
            timeout: None,
            budget_bytes: None,
            rate_bytes_per_second: None,
            duty_percent: None,
            shared_rate: None,
            rooms: None,
            cache_of: Whose::default(),
            scheduling: Scheduling::default(),
        }
    }
}
