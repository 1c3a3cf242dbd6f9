//! Intel's Data Streaming Accelerator, as the driver idxd shows it below /sys/bus/dsa; and one work queue of a device set up for
//! the kernel, where that is asked for, and taken down again.
//!
//! The kernel can let a device copy the pages that it migrates (module `kernel`) only by a work queue of type `kernel` that is
//! bound to the driver `dmaengine`. By default none is set up.
//!
//! This is done by sysfs and not by libaccel-config. The attributes are the kernel's stable interface
//! (Documentation/ABI/stable/sysfs-driver-dma-idxd), and libaccel-config writes the same files. It does not
//! have: values before the change, which are noted so that they can be put back after a death between any two steps; and steps
//! that can be refused one by one in a test.
//!
//! | modules | what they do |
//! |---|---|
//! | `device`, `command_status`, `name` | values, and the device's codes in words |
//! | `tree` | the files |
//! | `discover`, `missing` | what there is, and what is missing |
//! | `choose`, `step` | which devices, which attributes in which order; pure |
//! | `note` | what the journal notes before anything is changed |
//! | `prepare`, `undo`, `refusal`, `error` | carry it out on one device, take it back, and say what a refusal means |
//! | `held`, `report` | all devices, from the start to the end; what has become of each |
//! | `idxd` | a fake of the driver, for tests |

mod choose;
mod command_status;
mod device;
mod discover;
mod error;
mod held;
#[cfg(any(test, feature = "fake"))]
pub mod idxd;
mod missing;
mod name;
mod note;
mod prepare;
mod refusal;
mod report;
mod step;
#[cfg(test)]
mod tests;
mod tree;
mod undo;

pub use command_status::CommandStatus;
pub use device::{DMAENGINE, Device, Engine, Group, Limits, Queue, State};
pub use error::Error;
pub use held::{HeldQueues, prepare, recover};
pub use missing::{MissingPart, missing};
pub use report::{Became, DeviceReport};

use numaloc_host::{Roots, read};
use std::{collections::BTreeMap, path::Path};
use tree::Sysfs;

/// The devices and drivers that were found on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Whether the bus is there. The module idxd_bus makes it.
    pub bus: bool,
    /// The devices, in order of their number.
    pub devices: Vec<Device>,
    /// Addresses of PCI functions that are DSA devices and have no driver.
    pub undriven: Vec<String>,
}

/// Looks for devices. Changes nothing.
pub fn find(roots: &Roots) -> Found {
    let tree = Sysfs::new(roots);
    Found { bus: tree.exists(), devices: discover::devices(&tree), undriven: undriven(roots) }
}

/// The text of `state` and `errors` of each device and work queue, by `dsa0/state`: signs that something has gone
/// wrong since an earlier look. All devices of the driver idxd count, also compressors (`iax1`). Less is read for it
/// than for [`find`].
pub fn conditions(roots: &Roots) -> BTreeMap<String, String> {
    discover::conditions(&Sysfs::new(roots))
}

/// Whether this is how a device is named, such as `dsa0`.
pub fn is_device_name(text: &str) -> bool {
    name::device(text).is_some()
}

/// Devices that the driver knows (drivers/dma/idxd/init.c, `idxd_pci_tbl`): Sapphire Rapids and its successors, Granite Rapids-D,
/// Diamond Rapids.
const PCI_IDS: [&str; 3] = ["0x0b25", "0x11fb", "0x1212"];

fn undriven(roots: &Roots) -> Vec<String> {
    let functions =
        read::entries(&roots.sys.join("bus/pci/devices"), |name| Some(name.to_owned())).into_iter();
    let is = |path: &Path, name: &str, values: &[&str]| {
        read::text(&path.join(name)).is_ok_and(|text| values.contains(&text.trim()))
    };
    let functions = functions.filter(|(_, path)| {
        is(path, "vendor", &["0x8086"])
            && is(path, "device", &PCI_IDS)
            && path.join("driver").symlink_metadata().is_err()
    });
    functions.map(|(name, _)| name).collect()
}
