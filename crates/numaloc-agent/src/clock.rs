//! The clock of the host. In tests it goes with that of the runtime, which a test may advance.

use std::time::SystemTime;

#[cfg(not(test))]
pub fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
pub fn now() -> SystemTime {
    use std::sync::LazyLock;
    static BEGIN: LazyLock<(SystemTime, std::time::Instant)> =
        LazyLock::new(|| (SystemTime::now(), std::time::Instant::now()));
    let (wall, begin) = *BEGIN;
    wall + tokio::time::Instant::now().into_std().saturating_duration_since(begin)
}
