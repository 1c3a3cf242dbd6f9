//! What became of copying by a DMA engine.

use numaloc_core::OffloadUse;
use serde::Serialize;

/// What became of it in a migration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OffloadDoc {
    /// What was asked for: `auto`, `off` or `require`.
    pub requested: &'static str,
    /// Whether it was on while memory moved, for a part of that at least.
    pub used: bool,
    /// The kernel's interface that was used; null if none was.
    pub interface: Option<String>,
    /// Why it was not used, or was given up; null if it was used to the end, or not asked for.
    pub reason: Option<String>,
    /// Whether something failed: it could not be switched on, or it was given up.
    pub failed: bool,
    /// Folios that an engine has copied meanwhile, on the whole host; null if that is not known.
    pub offloaded_folios: Option<u64>,
    /// Folios that an engine could not copy; null if that is not known.
    pub failed_folios: Option<u64>,
    /// Folios of this migration that CPUs have copied; null if that is not known.
    pub cpu_folios: Option<u64>,
    /// Whether other jobs used it at the same time.
    pub shared: bool,
    /// Bytes per second that were expected by CPU; null if they were not measured.
    pub cpu_bytes_per_second: Option<u64>,
    /// Bytes per second that were expected with the engine; null if they were not measured.
    pub engine_bytes_per_second: Option<u64>,
}

impl From<&OffloadUse> for OffloadDoc {
    fn from(offload: &OffloadUse) -> Self {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let expected = offload.expected;
        Self {
            requested: offload.requested.name(),
            used: offload.used,
            interface: text(&offload.interface),
            reason: text(&offload.reason),
            failed: offload.failed,
            offloaded_folios: offload.offloaded_folios,
            failed_folios: offload.failed_folios,
            cpu_folios: offload.cpu_folios,
            shared: offload.shared,
            cpu_bytes_per_second: expected.map(|expected| expected.cpu_bytes_per_second),
            engine_bytes_per_second: expected.map(|expected| expected.engine_bytes_per_second),
        }
    }
}
