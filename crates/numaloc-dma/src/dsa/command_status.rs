//! The attribute `cmd_status` of a device: why the device, or the driver before it, has refused the last command.

/// The result of the last command. 0 is success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStatus(pub u32);

/// Codes of the driver (include/uapi/linux/idxd.h, `enum idxd_scmd_stat`).
const DRIVER: [(u32, &str); 21] = [
    (0x8000_0010, "the device is enabled already"),
    (0x8000_0020, "the device is not enabled"),
    (0x8000_0021, "the work queue is enabled already"),
    (0x8002_0000, "the device could not be registered as a DMA engine: see the kernel's log"),
    (0x8003_0000, "the work queue is in no group"),
    (0x8004_0000, "the work queue has no name"),
    (0x8005_0000, "a shared work queue needs SVM: boot with intel_iommu=on,sm_on"),
    (0x8006_0000, "the shared work queue has no threshold"),
    (0x8007_0000, "the portal of the work queue could not be mapped: see the kernel's log"),
    (0x8008_0000, "no memory for the descriptors of the work queue"),
    (0x8009_0000, "no memory for the reference count of the work queue"),
    (0x800a_0000, "the work queue could not be registered as a DMA channel: see the kernel's log"),
    (0x800b_0000, "the character device of the work queue could not be made: see the kernel's log"),
    (0x800c_0000, "shared work queues are not possible here: boot with intel_iommu=on,sm_on"),
    (0x800d_0000, "no work queue is configured"),
    (0x800e_0000, "the work queue has no size"),
    (
        0x800f_0000,
        "a dedicated kernel queue needs privileged PASID, which the device does not have: boot without sm_on in intel_iommu=",
    ),
    (0x8010_0000, "the work queue got no interrupt: see the kernel's log"),
    (0x8011_0000, "a user queue needs SVM: boot with intel_iommu=on,sm_on"),
    (0x8012_0000, "the event log could not be set up: see the kernel's log"),
    (0x8020_0000, "the driver_name of the work queue names another driver"),
];

/// Codes of the device itself (drivers/dma/idxd/registers.h, `enum idxd_cmdsts_err`).
const DEVICE: [(u32, &str); 23] = [
    (0x01, "the device does not know the command"),
    (0x02, "no work queue has this number"),
    (0x03, "the device has failed: see the kernel's log"),
    (0x10, "the device is not disabled"),
    (0x11, "the configuration of the device is wrong"),
    (0x12, "the device may not be a bus master"),
    (0x13, "PASID, ATS and page requests of the device do not fit together"),
    (0x14, "the sizes of the work queues are more than the device has"),
    (0x15, "the configuration of a group is wrong: each has work queues and engines, or none"),
    (0x16, "the configuration of a group is wrong: a work queue is in several"),
    (0x17, "the configuration of a group is wrong: an engine is in several"),
    (0x18, "the configuration of a group is wrong: its read buffers do not fit"),
    (0x20, "the device is not enabled"),
    (0x21, "the work queue is not disabled"),
    (0x22, "the size of the work queue is 0"),
    (0x23, "the priority of the work queue is 0"),
    (0x24, "the work queue cannot have this mode"),
    (0x25, "the work queue cannot block on faults"),
    (0x26, "the work queue cannot have this PASID setting"),
    (0x27, "the largest batch of the work queue is more than the device allows"),
    (0x28, "the largest transfer of the work queue is more than the device allows"),
    (0x31, "the device is not enabled, so it cannot be disabled"),
    (0x32, "the work queue is not enabled"),
];

impl CommandStatus {
    /// From the attribute's text, such as `0x80040000`; `None` if it is not a number.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let code = match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => text.parse(),
        };
        code.ok().map(Self)
    }

    /// Whether the last command was refused.
    pub fn is_refusal(self) -> bool {
        self.0 != 0
    }

    /// The meaning of the code; `None` for success.
    pub fn words(self) -> Option<&'static str> {
        let known = DRIVER.iter().chain(&DEVICE).find(|(code, _)| *code == self.0);
        let words = known.map_or("an unknown code: see the kernel's log", |at| at.1);
        self.is_refusal().then_some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_words() {
        let words = |text: &str| CommandStatus::parse(text).and_then(CommandStatus::words);
        assert_eq!(words("0x80040000\n"), Some("the work queue has no name"));
        assert_eq!(words("0x22"), Some("the size of the work queue is 0"));
        assert!(words("0x8fff0000").is_some_and(|words| words.contains("unknown code")));
        assert_eq!(words("0\n"), None);
        assert_eq!(CommandStatus::parse("x"), None);
        assert_eq!(CommandStatus::parse("0x800d0000"), Some(CommandStatus(0x800d_0000)));
    }

    #[test]
    fn no_code_is_there_twice() {
        let mut codes: Vec<u32> = DRIVER.iter().chain(&DEVICE).map(|(code, _)| *code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), DRIVER.len() + DEVICE.len());
    }
}
