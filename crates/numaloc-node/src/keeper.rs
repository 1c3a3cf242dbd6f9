//! The loop of a client that keeps its records at numalocd.

use crate::back_off::BackOff;
use std::{convert::Infallible, time::Duration};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};
use tonic::Status;

/// Each lease is renewed this often within its time.
const RENEWALS: u32 = 3;
/// The longest time from one renewal to the next: what others do at numalocd is looked at by the way.
const RENEWAL_MAX: Duration = Duration::from_secs(100);
/// From this number of changes on all is declared at once.
pub const MANY: usize = 50;

/// Keeps numalocd as a client wants it. Each attempt begins with the whole wanted state, so it does not matter how the
/// last one ended.
pub trait Keeper {
    /// The effect while numalocd is unreachable, for the log.
    const MEANWHILE: &'static str;

    /// Declares everything, and then each change, until numalocd is lost.
    fn serve(&mut self) -> impl Future<Output = Result<Infallible, Status>> + Send;

    /// Notes that numalocd is lost.
    fn lost(&mut self, _status: &Status) {}
}

/// Works forever. After a failure it waits, longer each time.
pub async fn keep<K: Keeper>(mut keeper: K) -> Infallible {
    let mut back_off = BackOff::default();
    loop {
        let begin = Instant::now();
        let Err(status) = keeper.serve().await;
        keeper.lost(&status);
        let wait = back_off.after(begin.elapsed());
        let (message, code) = (status.message(), status.code());
        let meanwhile = K::MEANWHILE;
        tracing::warn!(
            "numalocd: {message} ({code:?}); again in {wait:?}. Meanwhile nothing is lost: {meanwhile}"
        );
        sleep(wait).await;
    }
}

/// When leases of this length are renewed, for the first time after a part of it.
pub fn renewals(lease: Duration) -> Interval {
    let mut renewal = interval((lease / RENEWALS).min(RENEWAL_MAX));
    renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
    renewal.reset();
    renewal
}
