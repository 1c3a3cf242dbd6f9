//! Ctrl-C, SIGTERM, and a terminal that goes away.

use crate::exit::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// A flag that the first SIGINT or SIGTERM sets. The second one has its default effect: it ends the program.
pub fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Handlers run in the order of their registration. The first one acts only if the flag is set already, so the
        // first signal only sets the flag.
        signal_hook::flag::register_conditional_default(signal, flag.clone())
            .map_err(Failure::Signals)?;
        signal_hook::flag::register(signal, flag.clone()).map_err(Failure::Signals)?;
    }
    Ok(flag)
}

/// The longest time until a flag is noticed.
const TURN: Duration = Duration::from_millis(50);

/// Sleeps until then, or until the flag is set.
pub fn sleep(flag: &AtomicBool, until: Instant) {
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if flag.load(Relaxed) {
            return;
        }
        thread::sleep(left.min(TURN));
    }
}

/// A flag that SIGHUP sets: the terminal has gone.
pub fn hung_up() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, flag.clone()).map_err(Failure::Signals)?;
    Ok(flag)
}
