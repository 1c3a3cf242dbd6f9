//! Alibaba Cloud Linux: files in /sys/kernel/mm/migrate. Two switches belong together, `batch_migrate_enabled` (folios are copied
//! in batches) and `dma_migrate_enabled` (by a DMA engine); `dma_migrate_polling` is how the end of a copy is noticed. The
//! distribution's node agent writes these three. Some kernels have `dma_migrate_min_pages` besides, the shortest copy that is given
//! to an engine. The kernel takes 1 or true, shows true or 1, and counts nothing.

use super::interface::{Counters, Interface, Knob, Settings};
use numaloc_host::{Error, Roots};
use std::path::{Path, PathBuf};

const DMA: &str = "dma_migrate_enabled";
const BATCH: &str = "batch_migrate_enabled";
const POLLING: &str = "dma_migrate_polling";

/// The files of this kernel.
#[derive(Debug)]
pub(super) struct Alibaba {
    directory: PathBuf,
}

impl Alibaba {
    pub(super) fn find(roots: &Roots) -> Option<Self> {
        let directory = roots.sys.join("kernel/mm/migrate");
        directory.join(DMA).exists().then_some(Self { directory })
    }
}

impl Interface for Alibaba {
    fn name(&self) -> &'static str {
        "alibaba"
    }

    fn directory(&self) -> &Path {
        &self.directory
    }

    fn switch(&self) -> &'static str {
        DMA
    }

    fn knobs(&self) -> &'static [&'static str] {
        &[POLLING, BATCH, DMA]
    }

    fn wanted(&self, settings: &Settings) -> Vec<Knob> {
        let polling = Some(Knob { name: POLLING, value: u8::from(settings.polling).to_string() });
        let on = [BATCH, DMA].map(|name| Some(Knob { name, value: "1".into() }));
        let all = [polling].into_iter().chain(on).flatten();
        all.filter(|knob| self.directory.join(knob.name).exists()).collect()
    }

    fn counters(&self) -> Result<Option<Counters>, Error> {
        // Tells whether it is still there.
        self.is_on().map(|_| None)
    }
}
