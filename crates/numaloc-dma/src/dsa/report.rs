//! The outcome for each device.

use super::error::Error;
use std::fmt;

/// The outcome for one device.
#[derive(Debug)]
pub struct DeviceReport {
    /// The device's name on the bus, for example `dsa0`.
    pub device: String,
    /// The outcome for this device.
    pub became: Became,
}

/// The outcome for a device.
#[derive(Debug)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Became {
    /// This queue has been set up.
    Prepared { queue: String },
    /// It has a queue for the kernel already, and is left alone.
    Ready { queue: String },
    /// It does not suit, and is left alone.
    Left { why: String },
    /// The setup has failed at one step.
    Failed {
        /// The step that was refused.
        error: Error,
        /// Why what had been done could not be undone; `None` if it was.
        kept: Option<Error>,
    },
    /// It is as it was before.
    Restored,
    /// It has been removed from the machine.
    Gone,
    /// The queue is down, and the device stays enabled, because another program has begun to use this queue of it.
    Shared { queue: String },
    /// The queue could not be taken down. It stays noted for another try.
    Kept { error: Error },
}

impl DeviceReport {
    /// Whether an operator has to act on it.
    pub fn is_problem(&self) -> bool {
        match self.became {
            Became::Left { .. } | Became::Failed { .. } | Became::Kept { .. } => true,
            Became::Prepared { .. }
            | Became::Ready { .. }
            | Became::Restored
            | Became::Gone
            | Became::Shared { .. } => false,
        }
    }
}

impl fmt::Display for DeviceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.device)?;
        match &self.became {
            Became::Prepared { queue } => write!(f, "{queue} is set up for the kernel"),
            Became::Ready { queue } => write!(f, "the kernel has {queue} already"),
            Became::Left { why } => write!(f, "no work queue is set up: {why}"),
            Became::Failed { error, kept: None } => {
                write!(f, "no work queue is set up: {error}; what had been done is undone")
            }
            Became::Failed { error, kept: Some(kept) } => {
                write!(f, "no work queue is set up: {error}; what had been done stays: {kept}")
            }
            Became::Restored => {
                write!(f, "the work queue is taken down, and the device is restored")
            }
            Became::Gone => write!(f, "the device has been removed"),
            Became::Shared { queue } => write!(
                f,
                "the work queue is taken down, the device stays as it is: another program uses {queue}"
            ),
            Became::Kept { error } => write!(f, "the work queue is not taken down: {error}"),
        }
    }
}
