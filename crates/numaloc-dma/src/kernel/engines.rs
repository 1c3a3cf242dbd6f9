//! The engines that copy: which there are, and whether they are well.

use crate::dsa;
use numaloc_host::{Roots, read};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The channels that DMA engines have registered with the kernel (drivers/dma/dmaengine.c, `dma_devclass`), for whatever use, each
/// with its device; `None` if the kernel does not say.
pub(super) fn channels(roots: &Roots) -> Option<Vec<String>> {
    let class = roots.sys.join("class/dma");
    let device = |path: &Path| {
        let device = std::fs::read_link(path.join("device")).ok()?;
        Some(device.file_name()?.to_string_lossy().into_owned())
    };
    let named = |(name, path): (String, PathBuf)| match device(&path) {
        Some(device) => format!("{name}@{device}"),
        None => name,
    };
    let entries = || read::entries(&class, |name| Some(name.to_owned()));
    class.is_dir().then(|| entries().into_iter().map(named).collect())
}

/// The states of the engines at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStates {
    channels: Vec<String>,
    /// `state` and `errors` of each idxd device and work queue (Documentation/ABI/stable/sysfs-driver-dma-idxd), by `dsa0/state`.
    states: BTreeMap<String, String>,
}

/// The states of the engines now.
pub fn condition(roots: &Roots) -> EngineStates {
    EngineStates { channels: channels(roots).unwrap_or_default(), states: dsa::conditions(roots) }
}

impl EngineStates {
    /// The changes for the worse since `before`; `None`: none.
    pub fn worse_than(&self, before: &Self) -> Option<String> {
        let lost = before.channels.iter().find(|channel| !self.channels.contains(channel));
        if let Some(channel) = lost {
            return Some(format!("the DMA channel {channel} is gone"));
        }
        before.states.iter().find_map(|(name, was)| match self.states.get(name) {
            None => Some(format!("{name} is gone")),
            Some(now) if now == was => None,
            Some(now) if name.ends_with("/errors") => Some(format!("{name} are {now} now")),
            // One that was not enabled did not copy.
            Some(now) if was == "enabled" => Some(format!("{name} is {now} now")),
            Some(_) => None,
        })
    }
}
