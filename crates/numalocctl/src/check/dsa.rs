//! Checks whether DSA devices could copy for the kernel.

use super::Findings;
use crate::doc::Check;
use numaloc_dma::dsa::missing;

/// Whether there are devices, and whether the kernel can copy with them.
pub fn dsa(found: &Findings) -> Check {
    const NAME: &str = "dsa";
    let devices = &found.dsa.devices;
    if devices.is_empty() && found.dsa.undriven.is_empty() {
        return Check::ok(NAME, "no device");
    }
    let text = devices.iter().map(|device| match device.ready() {
        Some(queue) => format!("{}: {} for the kernel", device.name, queue.name),
        None => format!("{}: no work queue for the kernel", device.name),
    });
    let text = text.collect::<Vec<_>>().join(", ");
    // A queue is useless where the kernel cannot use it.
    let is_wanted = !found.facts.offload.is_empty();
    match missing(&found.dsa, true).first() {
        Some(first) if is_wanted && devices.iter().all(|device| device.ready().is_none()) => {
            let text = if text.is_empty() { first.what.clone() } else { text };
            Check::warning(NAME, text, first.remedy)
        }
        Some(first) if text.is_empty() => Check::ok(NAME, first.what.clone()),
        _ => Check::ok(NAME, text),
    }
}
