//! How a worker has others make room on a target.

use crate::{
    room::{cache::Patience, exchange::Answer},
    work::{Work, rest::Rests},
};
use numaloc_core::{MakeRoom, NodeId, Supply};
use std::time::{Duration, Instant};

/// Pause before the next look at what the other side of an exchange has done. Its calls take longer.
pub const PAUSE: Duration = Duration::from_millis(2);

/// Waits a moment for others to take memory away from `node`, after having asked them for it; false if nobody does, or nobody any
/// more.
pub fn await_room(
    work: &Work<'_>,
    rests: &mut Rests<'_>,
    node: NodeId,
    waiting_bytes: u64,
    patience: &mut Option<Patience>,
) -> bool {
    let Some(exchange) = work.exchange else { return false };
    let now = Instant::now();
    match exchange.ask(node, waiting_bytes, |source| room_for_others(work, source)) {
        Answer::Wait => *patience = None,
        Answer::Unless(done) => {
            if !patience.get_or_insert_with(|| Patience::new(done, now)).lasts(done, now) {
                exchange.give_up(node);
                return false;
            }
        }
        Answer::No => return false,
    }
    rests.pause(PAUSE);
    true
}

/// Bytes that a node can take of the memory of others, by the same bounds as a target of this run.
fn room_for_others(work: &Work<'_>, node: NodeId) -> u64 {
    let Ok(memory) = work.memory.read_for(node, Supply::BASE) else { return 0 };
    let reserve = work.plan.options.reserve(memory.total_bytes);
    let by_cache = memory.room_by_cache(Supply::BASE, reserve, MakeRoom::Cache);
    memory.room(Supply::BASE, reserve) + by_cache
}
