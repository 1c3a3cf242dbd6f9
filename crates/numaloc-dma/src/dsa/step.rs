//! The attributes that make a work queue for the kernel, in the order that the driver demands.

use super::{
    device::{DMAENGINE, Device, Queue},
    name,
};
use serde::{Deserialize, Serialize};

/// The name that is given to a queue, by which it is known again.
pub const LABEL: &str = "numaloc";

/// Between 1 and 15 (`IDXD_MAX_PRIORITY`). The queue is the only one of its device, so there is nothing to compare it with; 0 is
/// refused by the device.
const PRIORITY: u32 = 10;

/// An attribute that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attribute {
    /// The group of an engine or queue.
    Group,
    /// Entries of the queue; only while the device is disabled.
    Size,
    /// Its type. To change it clears the name (`wq_type_store`), so this comes before it.
    Type,
    /// Its name; without one it cannot be enabled.
    Name,
    /// Dedicated: a shared queue needs SVM and a threshold.
    Mode,
    Priority,
    /// Bytes of one transfer. The driver compares a copy with what the device allows (drivers/dma/idxd/dma.c,
    /// `idxd_dma_submit_memcpy`), and the queue refuses what is larger than its own bound. So the two are made equal.
    MaxTransferSize,
    /// The driver that may take the queue, from Linux 6.7 on. Kernels before that lack the file.
    DriverName,
}

impl Attribute {
    pub fn file(self) -> &'static str {
        match self {
            Self::Group => "group_id",
            Self::Size => "size",
            Self::Type => "type",
            Self::Name => "name",
            Self::Mode => "mode",
            Self::Priority => "priority",
            Self::MaxTransferSize => "max_transfer_size",
            Self::DriverName => "driver_name",
        }
    }

    /// Whether a kernel may be without it.
    pub fn is_optional(self) -> bool {
        matches!(self, Self::MaxTransferSize | Self::DriverName)
    }

    /// Whether a value is one that an attribute can have had before. A note is not trusted further than that.
    pub fn takes(self, value: &str) -> bool {
        let is_word =
            value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        match self {
            Self::Group => value.parse::<i32>().is_ok(),
            Self::Size | Self::Priority | Self::MaxTransferSize => value.parse::<u64>().is_ok(),
            Self::Type => matches!(value, "none" | "kernel" | "user"),
            Self::Mode => matches!(value, "dedicated" | "shared"),
            Self::Name | Self::DriverName => is_word,
        }
    }
}

/// A value that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub part: String,
    pub attribute: Attribute,
    pub value: String,
}

impl Setting {
    /// The attribute's file below /sys/bus/dsa.
    pub fn file(&self) -> String {
        file(&self.part, self.attribute)
    }
}

/// The file of an attribute, below /sys/bus/dsa.
pub fn file(part: &str, attribute: Attribute) -> String {
    format!("devices/{part}/{}", attribute.file())
}

/// Whether this is the name of an engine or queue of the device with this number.
pub fn is_part_of(number: u32, part: &str) -> bool {
    let numbers = name::part("engine", part).or_else(|| name::part("wq", part));
    numbers.is_some_and(|(device, _)| device == number)
}

/// The settings that make this queue one for the kernel, in this group with all engines of the device. No other queue
/// can have entries or engines of the device while it is enabled, so none are spared.
pub fn settings(device: &Device, queue: &Queue, group: u32) -> Vec<Setting> {
    let set =
        |part: &str, attribute, value: String| Setting { part: part.to_owned(), attribute, value };
    let engines = device.engines.iter();
    let mut all: Vec<Setting> =
        engines.map(|engine| set(&engine.name, Attribute::Group, group.to_string())).collect();
    let mut of_queue = |attribute, value| all.push(set(&queue.name, attribute, value));
    of_queue(Attribute::Group, group.to_string());
    of_queue(Attribute::Size, device.limits.work_queues_size.unwrap_or(SIZE).to_string());
    of_queue(Attribute::Type, "kernel".into());
    of_queue(Attribute::Name, LABEL.into());
    of_queue(Attribute::Mode, "dedicated".into());
    of_queue(Attribute::Priority, PRIORITY.to_string());
    if let Some(bytes) = device.limits.transfer_bytes {
        of_queue(Attribute::MaxTransferSize, bytes.to_string());
    }
    of_queue(Attribute::DriverName, DMAENGINE.into());
    all
}

/// Entries if the device does not say how many it has. All devices so far have more.
const SIZE: u64 = 16;
