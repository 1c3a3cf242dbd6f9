//! What can be set on this host, and in which format.
//!
//! Domains are L3 caches, whose numbers may have gaps. They and the present values are in the schemata of a group; what a value may be
//! is in info/MB and info/L3 (with the mount option cdp in info/L3CODE and info/L3DATA). In a group that was just made each
//! value is the largest one, so it shows the unit of MB: 100 (percent), 4294967295 (MiB/s, mount option mba_MBps; U32_MAX in
//! fs/resctrl), or another number (eighths of GB/s, AMD).

use super::GroupError;
use crate::{Error, files::read};
use numaloc_core::{DomainValues, MoverGroup, Notation};
use std::{collections::BTreeMap, path::Path};

/// The unit of memory bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Percent of what the memory of a domain can do (Intel).
    Percent,
    /// Eighths of GB/s (AMD).
    EighthsOfGigabytes,
    /// MiB/s (mount option mba_MBps).
    Mebibytes,
}

impl Unit {
    /// The unit whose largest value is this.
    fn of(largest: u64) -> Self {
        match largest {
            MEBIBYTES_MAX => Self::Mebibytes,
            100 => Self::Percent,
            _ => Self::EighthsOfGigabytes,
        }
    }

    /// The unit for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Percent => "percent",
            Self::EighthsOfGigabytes => "eighths of GB/s",
            Self::Mebibytes => "MiB/s",
        }
    }
}

/// The value of MB in a new group with the mount option mba_MBps.
const MEBIBYTES_MAX: u64 = u32::MAX as u64;

/// A key of the configuration, and its values.
#[derive(Clone, Debug)]
pub(super) struct WantedValues {
    pub(super) key: &'static str,
    /// The resource in info.
    resource: &'static str,
    notation: Notation,
    values: DomainValues,
}

/// Resources that a key sets, which are two with the mount option cdp, and what they are to have.
pub(super) type WantedResources = (Vec<ControlledResource>, DomainValues);

/// What a group is to have.
pub(super) fn wanted(group: &MoverGroup) -> Vec<WantedValues> {
    let MoverGroup { memory_bandwidth, l3, .. } = group;
    let wanted = |key, resource, notation, values: &Option<DomainValues>| {
        values.clone().map(|values| WantedValues { key, resource, notation, values })
    };
    let both = [
        wanted("resctrl.memory_bandwidth", "MB", Notation::Number, memory_bandwidth),
        wanted("resctrl.l3", "L3", Notation::Mask, l3),
    ];
    both.into_iter().flatten().collect()
}

/// A resource of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ControlledResource {
    key: &'static str,
    /// As schemata name it.
    name: String,
    /// The values of the group that was read, by domain.
    present: BTreeMap<u32, u64>,
    bounds: Bounds,
}

/// What values may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bounds {
    /// By info/MB.
    Bandwidth { min: u64, granularity: u64 },
    /// By info/L3.
    Mask { all: u64, min_bits: u32, is_sparse: bool },
}

impl ControlledResource {
    /// The resources that are wanted, with the values of a group. `root` is where resctrl is mounted.
    pub(super) fn read(
        root: &Path,
        group: &Path,
        wanted: &[WantedValues],
    ) -> Result<Vec<WantedResources>, GroupError> {
        let info = root.join("info");
        let controlled = read::entries(&info, |name| Some(name.to_owned()));
        let controlled: Vec<String> = controlled
            .into_iter()
            .filter(|(_, path)| path.join("num_closids").exists())
            .map(|(name, _)| name)
            .collect();
        if controlled.is_empty() {
            return Err(GroupError::NoControl { path: info });
        }
        let path = group.join("schemata");
        let schemata = read::text(&path).map_err(GroupError::Host)?;
        let one = |wanted: &WantedValues| {
            let WantedValues { key, resource, notation, values } = wanted;
            // With the mount option cdp, code and data have masks of their own.
            let split = [format!("{resource}CODE"), format!("{resource}DATA")];
            let is_wanted = |name: &&String| *name == resource || split.contains(name);
            let names = controlled.iter().filter(is_wanted);
            let resources = names.map(|name| {
                let no_line = || {
                    let reason = format!("no line {name}, which info has");
                    GroupError::Host(Error::Parse { path: path.clone(), reason })
                };
                let present = parse(&schemata, name, *notation).ok_or_else(no_line)?;
                let bounds = Bounds::read(&info.join(name), *notation)?;
                Ok(Self { key, name: name.clone(), present, bounds })
            });
            let resources = resources.collect::<Result<Vec<_>, GroupError>>()?;
            if resources.is_empty() {
                let (path, available) = (info.clone(), controlled.join(", "));
                return Err(GroupError::NoResource { key, resource, path, available });
            }
            Ok((resources, values.clone()))
        };
        wanted.iter().map(one).collect()
    }

    /// Checks values against what this host takes. `is_new`: the group that was read is new, so its values are the largest ones.
    pub(super) fn check(&self, values: &DomainValues, is_new: bool) -> Result<(), GroupError> {
        let bad = |reason: String| GroupError::BadValue {
            key: self.key,
            value: values.to_string(),
            reason,
        };
        if let Some(unknown) = values.named().find(|domain| !self.present.contains_key(domain)) {
            let domains: Vec<String> = self.present.keys().map(u32::to_string).collect();
            let domains = domains.join(", ");
            return Err(bad(format!("{} has no domain {unknown}; it has {domains}", self.name)));
        }
        for (domain, &present) in &self.present {
            let Some(value) = values.of(*domain) else { continue };
            let checked = match self.bounds {
                Bounds::Mask { all, min_bits, is_sparse } => {
                    check_mask(value, all, min_bits, is_sparse)
                }
                Bounds::Bandwidth { min, granularity } if is_new => {
                    check_bandwidth(value, min, granularity, present)
                }
                Bounds::Bandwidth { .. } => Ok(()),
            };
            checked.map_err(bad)?;
        }
        Ok(())
    }

    /// The line of schemata that sets these values. The kernel takes none without the newline.
    pub(super) fn line(&self, values: &DomainValues) -> String {
        let notation = self.bounds.notation();
        let domains = self.present.keys().filter_map(|&domain| {
            Some(format!("{domain}={}", notation.format(values.of(domain)?)))
        });
        let domains: Vec<String> = domains.collect();
        match domains.is_empty() {
            true => String::new(),
            false => format!("{}:{}\n", self.name, domains.join(";")),
        }
    }

    /// Its values in the text of schemata, with their unit.
    pub(super) fn described(&self, schemata: &str) -> Option<String> {
        let notation = self.bounds.notation();
        let values = parse(schemata, &self.name, notation)?;
        let values =
            values.iter().map(|(domain, value)| format!("{domain}={}", notation.format(*value)));
        let values = values.collect::<Vec<_>>().join(";");
        let unit = match self.bounds {
            Bounds::Bandwidth { .. } => self.unit().map(|unit| format!(" ({})", unit.name())),
            Bounds::Mask { .. } => None,
        };
        Some(format!("{}:{values}{}", self.name, unit.unwrap_or_default()))
    }

    /// The unit of bandwidth, if the group that was read is new.
    fn unit(&self) -> Option<Unit> {
        self.present.values().max().map(|&largest| Unit::of(largest))
    }
}

impl Bounds {
    fn read(info: &Path, notation: Notation) -> Result<Self, GroupError> {
        let number = |file: &str, notation: Notation| {
            let path = info.join(file);
            let text = read::text(&path).map_err(GroupError::Host)?;
            notation.parse(&text).ok_or_else(|| {
                let reason = format!("'{}' is not a number", text.trim());
                GroupError::Host(Error::Parse { path, reason })
            })
        };
        Ok(match notation {
            Notation::Number => Self::Bandwidth {
                min: number("min_bandwidth", notation)?,
                granularity: number("bandwidth_gran", notation)?,
            },
            Notation::Mask => Self::Mask {
                all: number("cbm_mask", notation)?,
                min_bits: u32::try_from(number("min_cbm_bits", Notation::Number)?)
                    .unwrap_or(u32::MAX),
                // Before Linux 6.7 there is no such file, and no such mask on Intel's processors.
                is_sparse: number("sparse_masks", Notation::Number).is_ok_and(|is| is == 1),
            },
        })
    }

    fn notation(self) -> Notation {
        match self {
            Self::Bandwidth { .. } => Notation::Number,
            Self::Mask { .. } => Notation::Mask,
        }
    }
}

/// Checks a bandwidth. `largest` is what a new group has.
fn check_bandwidth(value: u64, min: u64, granularity: u64, largest: u64) -> Result<(), String> {
    let unit = Unit::of(largest);
    if unit == Unit::Mebibytes {
        // The kernel's controller takes any, and 0 would stop the threads (fs/resctrl/ctrlmondata.c, `bw_validate`).
        return match (1..=MEBIBYTES_MAX).contains(&value) {
            true => Ok(()),
            false => Err(format!("expected 1 to {MEBIBYTES_MAX} {}", unit.name())),
        };
    }
    if !(min..=largest).contains(&value) {
        return Err(format!("expected {min} to {largest} {}", unit.name()));
    }
    let beyond = value % granularity.max(1);
    if beyond > 0 {
        let (below, above) = (value - beyond, value - beyond + granularity);
        let near: Vec<String> = [below, above]
            .into_iter()
            .filter(|near| (min..=largest).contains(near))
            .map(|near| near.to_string())
            .collect();
        return Err(format!(
            "this host has steps of {granularity} {}: write {}",
            unit.name(),
            near.join(" or ")
        ));
    }
    Ok(())
}

/// Checks a mask, as `cbm_validate` does (fs/resctrl/ctrlmondata.c).
fn check_mask(mask: u64, all: u64, min_bits: u32, is_sparse: bool) -> Result<(), String> {
    if mask == 0 || mask & !all != 0 {
        return Err(format!("expected a mask of bits of {all:x}"));
    }
    let run = (mask >> mask.trailing_zeros()).trailing_ones();
    if !is_sparse && run != mask.count_ones() {
        return Err(format!("{mask:x} has a gap, which this host does not allow"));
    }
    if run < min_bits {
        return Err(format!("{mask:x} has fewer than {min_bits} bits in a row"));
    }
    Ok(())
}

/// The values of a resource in the text of schemata, by domain.
pub(crate) fn parse(
    schemata: &str,
    resource: &str,
    notation: Notation,
) -> Option<BTreeMap<u32, u64>> {
    let mut lines = schemata.lines().filter_map(|line| line.split_once(':'));
    let (_, values) = lines.find(|(name, _)| name.trim() == resource)?;
    let one = |part: &str| {
        let (domain, value) = part.split_once('=')?;
        Some((domain.trim().parse().ok()?, notation.parse(value)?))
    };
    let values: Option<BTreeMap<u32, u64>> = values.split(';').map(one).collect();
    values.filter(|values| !values.is_empty())
}
