//! The parts that the kernel lacks for copying with these devices, and how to get them. Pure.

use super::{Found, device::Device};

/// Something that the kernel needs before a device can copy for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPart {
    /// Names what is missing, for people.
    pub what: String,
    /// The command, boot option or setting that gives it.
    pub remedy: &'static str,
}

/// The missing parts, the first one first. `has_interface`: whether the kernel can let a device copy what it migrates
/// (module `offload`).
pub fn missing(found: &Found, has_interface: bool) -> Vec<MissingPart> {
    let devices = of_devices(found);
    let interface = (!has_interface).then(|| MissingPart {
        what: "no interface of the kernel by which a device copies what is migrated".into(),
        remedy: "boot a kernel that has one: Alibaba Cloud Linux, or one with the module dcbm (see /usr/share/doc/numaloc/dsa.md)",
    });
    devices.into_iter().chain(interface).chain(of_pasid(found)).collect()
}

fn of_devices(found: &Found) -> Option<MissingPart> {
    let Found { devices, undriven, .. } = found;
    if devices.iter().any(|device| device.ready().is_some()) {
        return None;
    }
    let (what, remedy) = match (devices.is_empty(), undriven.as_slice()) {
        (true, []) => (
            "no DSA device: neither on the bus dsa nor among the PCI functions".to_owned(),
            "Xeon processors have some from the 4th generation (Sapphire Rapids) on; check whether the firmware hides them, or give the virtual machine one, and run modprobe idxd",
        ),
        (true, functions) => (
            format!("no driver for the DSA device at PCI {}", functions.join(", ")),
            "run modprobe idxd (CONFIG_INTEL_IDXD)",
        ),
        (false, _) => (
            "no enabled work queue of type kernel with the driver dmaengine".to_owned(),
            "set manage_work_queue = true in [dsa] of numalocd.toml, or set one up with accel-config (see /usr/share/doc/numaloc/dsa.md)",
        ),
    };
    Some(MissingPart { what, remedy })
}

fn of_pasid(found: &Found) -> Option<MissingPart> {
    let is_without = |device: &&Device| device.pasid_enabled == Some(false);
    let without: Vec<&str> =
        found.devices.iter().filter(is_without).map(|device| device.name.as_str()).collect();
    (!without.is_empty()).then(|| MissingPart {
        what: format!("no PASID on {}", without.join(", ")),
        remedy: "boot with intel_iommu=on,sm_on; user queues and shared queues need it, a dedicated kernel queue does not",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_on_the_way_is_named() {
        let words = |found: &Found| -> Vec<String> {
            missing(found, true).iter().map(|it| format!("{}: {}", it.what, it.remedy)).collect()
        };
        let nothing = words(&Found::default());
        assert!(nothing.len() == 1 && nothing[0].contains("4th generation"), "{nothing:?}");
        let undriven = Found { undriven: vec!["0000:6a:01.0".into()], ..Found::default() };
        let text = words(&undriven);
        assert!(text.len() == 1 && text[0].contains("modprobe idxd"), "{text:?}");
        assert!(text[0].contains("6a:01.0"), "{text:?}");
        let device =
            Device { name: "dsa0".into(), pasid_enabled: Some(false), ..Device::default() };
        let text = words(&Found { devices: vec![device], ..Found::default() });
        assert!(text.len() == 2, "{text:?}");
        assert!(text[0].contains("manage_work_queue") && text[1].contains("sm_on"), "{text:?}");
        let first = &missing(&Found::default(), false)[1];
        assert!(first.remedy.contains("dcbm"), "{first:?}");
    }
}
