//! What processors and mount options make of the file system.

use super::values::{Bounds, Schemata};
use crate::fuse::Kind;
use std::collections::BTreeMap;

/// A machine with processors that have resctrl.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Numbers of the L3 caches.
    domains: Vec<u32>,
    /// Resources that can be controlled.
    resources: BTreeMap<&'static str, Bounds>,
    closids: usize,
    can_monitor: bool,
}

impl Machine {
    /// Xeons: bandwidth in percent by steps of 10, masks of 11 ways without gaps.
    pub fn intel() -> Self {
        let mask = Bounds::Mask { all: 0x7ff, min_bits: 1, is_sparse: false };
        let bandwidth =
            Bounds::Bandwidth { min: 10, largest: 100, granularity: 10, is_software: false };
        let resources = [("L3", mask), ("MB", bandwidth)].into();
        Self { domains: vec![0, 1], resources, closids: 8, can_monitor: true }
    }

    /// The same with code and data apart (mount option cdp).
    pub fn cdp() -> Self {
        let mask = Bounds::Mask { all: 0x7ff, min_bits: 1, is_sparse: false };
        let mut machine = Self::intel();
        machine.resources.remove("L3");
        machine.resources.extend([("L3CODE", mask), ("L3DATA", mask)]);
        machine
    }

    /// EPYCs: bandwidth in eighths of GB/s, masks of 16 ways with gaps, and numbers of caches with gaps.
    pub fn amd() -> Self {
        let mask = Bounds::Mask { all: 0xffff, min_bits: 1, is_sparse: true };
        let bandwidth =
            Bounds::Bandwidth { min: 1, largest: 2048, granularity: 1, is_software: false };
        let resources = [("L3", mask), ("MB", bandwidth)].into();
        Self { domains: vec![0, 1, 8, 17], resources, closids: 16, can_monitor: true }
    }

    /// The same with L3 caches of these numbers.
    #[must_use]
    pub fn with_caches(self, numbers: &[u32]) -> Self {
        Self { domains: numbers.to_vec(), ..self }
    }

    /// Xeons with the mount option mba_MBps.
    pub fn mebibytes() -> Self {
        let bandwidth = Bounds::Bandwidth {
            min: 10,
            largest: u32::MAX.into(),
            granularity: 10,
            is_software: true,
        };
        let mut machine = Self::intel();
        machine.resources.insert("MB", bandwidth);
        machine
    }

    /// Processors that count and control nothing.
    pub fn monitoring() -> Self {
        Self { resources: BTreeMap::new(), ..Self::intel() }
    }

    /// The same machine with this number of control groups, the root group included.
    pub fn with_closids(self, closids: usize) -> Self {
        Self { closids, ..self }
    }

    /// The same machine with masks of at least this number of bits.
    pub fn with_min_bits(mut self, min_bits: u32) -> Self {
        let mask = Bounds::Mask { all: 0x7ff, min_bits, is_sparse: false };
        self.resources.insert("L3", mask);
        self
    }

    pub(super) fn bounds(&self, resource: &str) -> Option<Bounds> {
        self.resources.get(resource).copied()
    }

    pub(super) fn closids(&self) -> usize {
        self.closids
    }

    pub(super) fn can_control(&self) -> bool {
        !self.resources.is_empty()
    }

    pub(super) fn can_monitor(&self) -> bool {
        self.can_monitor
    }

    /// The directories of counters.
    pub(super) fn counted(&self) -> Vec<String> {
        self.domains.iter().map(|domain| format!("mon_L3_{domain:02}")).collect()
    }

    /// The values of a new group: the largest ones.
    pub(super) fn largest(&self) -> Schemata {
        let values = |bounds: &Bounds| {
            self.domains.iter().map(|&domain| (domain, bounds.largest())).collect()
        };
        Schemata::new(self.resources.iter().map(|(name, bounds)| (*name, values(bounds))).collect())
    }

    fn resource_files(&self, resource: &str) -> Vec<(&'static str, String)> {
        let closids = ("num_closids", self.closids.to_string());
        match self.bounds(resource) {
            Some(Bounds::Mask { all, min_bits, is_sparse }) => vec![
                closids,
                ("cbm_mask", format!("{all:x}")),
                ("min_cbm_bits", min_bits.to_string()),
                ("shareable_bits", "0".to_owned()),
                ("sparse_masks", u8::from(is_sparse).to_string()),
            ],
            Some(Bounds::Bandwidth { min, granularity, .. }) => vec![
                closids,
                ("min_bandwidth", min.to_string()),
                ("bandwidth_gran", granularity.to_string()),
                ("delay_linear", "1".to_owned()),
            ],
            None => Vec::new(),
        }
    }

    const MONITOR: [(&'static str, &'static str); 2] =
        [("mon_features", "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes"), ("num_rmids", "64")];

    pub(super) fn info_names(&self, path: &[&str]) -> Vec<String> {
        match path {
            [] => {
                let mut names: Vec<String> =
                    self.resources.keys().map(|&name| name.to_owned()).collect();
                names.extend(self.can_monitor.then(|| "L3_MON".to_owned()));
                names.push("last_cmd_status".to_owned());
                names
            }
            ["L3_MON"] => Self::MONITOR.iter().map(|(name, _)| (*name).to_owned()).collect(),
            [resource] => {
                let files = self.resource_files(resource).into_iter();
                files.map(|(name, _)| name.to_owned()).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn info(&self, path: &[&str]) -> Option<String> {
        let [resource, file] = path else { return None };
        let monitored = Self::MONITOR.iter().map(|(name, text)| (*name, (*text).to_owned()));
        let files: Vec<_> = match *resource {
            "L3_MON" => monitored.collect(),
            resource => self.resource_files(resource),
        };
        let text = files.into_iter().find(|(name, _)| name == file).map(|(_, text)| text)?;
        Some(text + "\n")
    }

    pub(super) fn info_kind(&self, path: &[&str]) -> Option<Kind> {
        match path {
            [] => Some(Kind::Directory),
            ["last_cmd_status"] => Some(Kind::File),
            ["L3_MON"] => self.can_monitor.then_some(Kind::Directory),
            [resource] => self.bounds(resource).map(|_| Kind::Directory),
            path => self.info(path).map(|_| Kind::File),
        }
    }
}
