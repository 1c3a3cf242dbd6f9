//! Says what a refused step means.

use super::{command_status::CommandStatus, error::Error, tree::DsaBus};
use nix::libc;
use std::io;

/// Writes a file of a device's driver.
///
/// # Errors
/// [`Error::Refused`] with the file, the value and what the device's `cmd_status` says.
pub fn write(tree: &dyn DsaBus, device: &str, file: &str, value: &str) -> Result<(), Error> {
    tree.write(file, value).map_err(|source| {
        let status = tree.read(&format!("devices/{device}/cmd_status")).ok();
        let status = status.and_then(|text| CommandStatus::parse(&text)).unwrap_or_default();
        Error::Refused {
            path: tree.path(file),
            value: value.to_owned(),
            advice: advice(&source),
            status: match status.words() {
                Some(words) => format!(" (cmd_status {:#x}: {words})", status.0),
                None => String::new(),
            },
            source,
        }
    })
}

/// The meaning of an error of the driver (drivers/dma/idxd/sysfs.c, drivers/base/bus.c), and what to do next.
fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EROFS) => {
            "it takes root's user id, and a sandbox that lets /sys be written (numalocd-dsa.conf, see /usr/share/doc/numaloc/dsa.md)"
        }
        Some(libc::EPERM) => {
            "the device or the queue is enabled, or its configuration is fixed: see numalocctl dsa -o wide"
        }
        Some(libc::EINVAL) => {
            "the value does not fit this device: compare its max_ attributes, and see the kernel's log"
        }
        Some(libc::EBUSY) => "another driver has it: see numalocctl dsa",
        Some(libc::ENODEV | libc::ENOENT) => {
            "the device has been removed, or the driver is not there: see the kernel's log, and try modprobe idxd"
        }
        Some(libc::EOPNOTSUPP) => {
            "this kernel has no kernel queues where PASID is on: boot without sm_on in intel_iommu=, or run Linux 6.6 or later"
        }
        _ => "see the kernel's log",
    }
}
