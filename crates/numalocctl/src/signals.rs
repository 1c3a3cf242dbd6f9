//! Ctrl-C and SIGTERM.

use crate::exit::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::{Arc, atomic::AtomicBool};

/// A flag that the first SIGINT or SIGTERM sets. The second does what it does by default: end the program.
pub fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Handlers run in the order of their registration: the first one acts only once the flag is set already.
        signal_hook::flag::register_conditional_default(signal, flag.clone())
            .map_err(Failure::Signals)?;
        signal_hook::flag::register(signal, flag.clone()).map_err(Failure::Signals)?;
    }
    Ok(flag)
}
