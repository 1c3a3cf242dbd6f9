//! The module dcbm, "DMA Core Batch Migrator" (drivers/migrate_offload/dcbm/dcbm.c of the series). Its files have been in two
//! places: /sys/kernel/dcbm up to RFC v4, without counters up to v3, and /sys/module/dcbm/parameters since.
//!
//! `offloading` is the switch; the kernel refuses it with EBUSY while another module copies (`migrate_offload_register`).
//! `nr_dma_chan` is 1 to 16, else EINVAL; it is written before the switch, because it counts when channels are taken.
//! `reason_mask` says which migrations are meant, by names; since it is new, without it all are. The counters begin again when
//! any process writes to them.

use super::interface::{Counters, Interface, Knob, Settings, count};
use numaloc_host::{Error, Roots};
use std::path::{Path, PathBuf};

const OFFLOADING: &str = "offloading";
const CHANNELS: &str = "nr_dma_chan";
const REASONS: &str = "reason_mask";
/// move_pages(2) among the reasons (include/trace/events/migrate.h, MR_SYSCALL).
const MOVE_PAGES: &str = "syscall_or_cpuset";

/// The files of this kernel.
#[derive(Debug)]
pub(super) struct Dcbm {
    directory: PathBuf,
}

impl Dcbm {
    pub(super) fn find(roots: &Roots) -> Option<Self> {
        let places = ["module/dcbm/parameters", "kernel/dcbm"].map(|place| roots.sys.join(place));
        let directory = places.into_iter().find(|place| place.join(OFFLOADING).exists())?;
        Some(Self { directory })
    }
}

impl Interface for Dcbm {
    fn name(&self) -> &'static str {
        "dcbm"
    }

    fn directory(&self) -> &Path {
        &self.directory
    }

    fn switch(&self) -> &'static str {
        OFFLOADING
    }

    fn knobs(&self) -> &'static [&'static str] {
        &[CHANNELS, REASONS, OFFLOADING]
    }

    fn wanted(&self, settings: &Settings) -> Vec<Knob> {
        let channels = settings.channels_max;
        let channels =
            channels.map(|channels| Knob { name: CHANNELS, value: channels.to_string() });
        // Only move_pages: the kernel's other migrations are not what a job asked for.
        let reasons = Some(Knob { name: REASONS, value: MOVE_PAGES.into() });
        let on = Some(Knob { name: OFFLOADING, value: "1".into() });
        let all = [channels, reasons, on].into_iter().flatten();
        all.filter(|knob| self.directory.join(knob.name).exists()).collect()
    }

    fn refusal(&self) -> Option<String> {
        if !self.is_on().ok()? {
            return None;
        }
        let reasons = self.read(REASONS).ok()?;
        let is_meant = reasons.split(',').any(|name| name == MOVE_PAGES);
        (!is_meant).then(|| {
            format!(
                "another program has switched dcbm on for {reasons} alone: add {MOVE_PAGES} to {}",
                self.directory.join(REASONS).display()
            )
        })
    }

    fn counters(&self) -> Result<Option<Counters>, Error> {
        let offloaded = count(&self.directory, "folios_migrated")?;
        let failed = count(&self.directory, "folios_failures")?;
        Ok(offloaded.zip(failed).map(|(offloaded, failed)| Counters { offloaded, failed }))
    }
}
