//! The attributes of a device, as values.

use super::command_status::CommandStatus;
use numaloc_core::NodeId;

/// The state of a device or work queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It can be configured, and does nothing.
    Disabled,
    /// It is enabled in the driver, and works off descriptors.
    Enabled,
    /// The device has stopped on its own after an error; the kernel's log says why.
    Halted,
    /// The kernel says something else, or nothing.
    #[default]
    Unknown,
}

impl State {
    /// Reads the text of the attribute `state`; unknown words become [`State::Unknown`].
    pub fn of(text: &str) -> Self {
        let all = [Self::Disabled, Self::Enabled, Self::Halted];
        all.into_iter().find(|state| state.name() == text).unwrap_or_default()
    }

    /// The word of the attribute `state`, without the newline.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Enabled => "enabled",
            Self::Halted => "halted",
            Self::Unknown => "unknown",
        }
    }
}

/// One accelerator. An attribute that the kernel does not have or does not show is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its number in the names of its parts.
    pub number: u32,
    /// Its name on the bus: `dsa` and the number.
    pub name: String,
    /// The node that it is attached to.
    pub numa_node: Option<NodeId>,
    /// The attribute `state` of the device.
    pub state: State,
    /// The driver that it is bound to: `idxd` while it is enabled.
    pub driver: Option<String>,
    /// Whether it can be configured; if not, its configuration is the one that it came with.
    pub configurable: Option<bool>,
    /// Whether processes may use it with addresses of their own (SVM), which takes an IOMMU in scalable mode. Kernel queues in
    /// dedicated mode do without.
    pub pasid_enabled: Option<bool>,
    /// Number of users of its queues.
    pub clients: Option<u64>,
    /// The software errors that it has recorded, as the kernel's bitmap; `None` if there are none.
    pub errors: Option<String>,
    /// Result of its last command.
    pub command_status: CommandStatus,
    /// Largest values that its hardware supports.
    pub limits: Limits,
    /// Its work queues in order of their number.
    pub queues: Vec<Queue>,
    /// Its groups in order of their number.
    pub groups: Vec<Group>,
    /// Its engines in order of their number.
    pub engines: Vec<Engine>,
}

/// The `max_` attributes of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Number of its work queues (`max_work_queues`).
    pub work_queues: Option<u64>,
    /// Entries of all work queues together.
    pub work_queues_size: Option<u64>,
    /// Number of its groups (`max_groups`).
    pub groups: Option<u64>,
    /// Number of its engines (`max_engines`).
    pub engines: Option<u64>,
    /// Largest number of descriptors in a batch (`max_batch_size`).
    pub batch_size: Option<u64>,
    /// Largest number of bytes that one descriptor may copy (`max_transfer_size`).
    pub transfer_bytes: Option<u64>,
}

/// A work queue: where the kernel or a process puts descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Its name on the bus, such as `wq0.1`.
    pub name: String,
    /// The attribute `state` of the queue.
    pub state: State,
    /// `none`, `kernel` or `user`; the attribute `type`.
    pub kind: Option<String>,
    /// The attribute `mode`: `dedicated`, or `shared` by several clients.
    pub mode: Option<String>,
    /// The driver that it is bound to: `dmaengine`, `user` or another.
    pub driver: Option<String>,
    /// The driver that it is meant for (the attribute `driver_name`, from Linux 6.7 on).
    pub driver_name: Option<String>,
    /// The name that its user has given to it; `None` while it has none.
    pub label: Option<String>,
    /// The group that it is in.
    pub group: Option<u32>,
    /// Number of descriptors that the queue holds at once.
    pub size: Option<u64>,
    /// 1 to 15; 0 until it is configured.
    pub priority: Option<u64>,
    /// For a shared queue: entries up to which unprivileged users may fill it.
    pub threshold: Option<u64>,
    /// Descriptors in a batch, at most.
    pub max_batch_size: Option<u64>,
    /// Bytes of one transfer, at most.
    pub max_transfer_bytes: Option<u64>,
    /// The operations that it allows, as the kernel's bitmap.
    pub op_config: Option<String>,
    /// Number of its users.
    pub clients: Option<u64>,
}

/// A group: its engines work off its queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name on the bus, such as `group0.0`.
    pub name: String,
    /// Its number within the device.
    pub number: u32,
    /// The names of its queues.
    pub queues: Vec<String>,
    /// The names of its engines.
    pub engines: Vec<String>,
}

/// An engine: what works off the descriptors of the queues of its group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Engine {
    /// Its name on the bus, such as `engine0.0`.
    pub name: String,
    /// The group that it is in.
    pub group: Option<u32>,
}

/// The driver by which the kernel itself uses a queue.
pub const DMAENGINE: &str = "dmaengine";

impl Queue {
    /// Whether its configuration has begun.
    pub fn is_configured(&self) -> bool {
        self.state != State::Disabled
            || self.driver.is_some()
            || self.kind.as_deref().is_some_and(|kind| kind != "none")
            || self.label.is_some()
            || self.group.is_some()
            || self.size.is_some_and(|size| size > 0)
    }

    /// Whether the kernel can copy with it now. Before Linux 6.7 nothing but the driver and the type tells what a queue is for.
    pub fn is_ready(&self) -> bool {
        let is_kernel = self.kind.as_deref() == Some("kernel");
        self.state == State::Enabled && is_kernel && self.purpose().is_none_or(|to| to == DMAENGINE)
    }

    /// The driver that it is bound to, else the one that it is meant for.
    pub fn purpose(&self) -> Option<&str> {
        self.driver.as_deref().or(self.driver_name.as_deref())
    }
}

impl Device {
    /// The queue of this device with this name, for example `wq0.1`.
    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// The first queue that the kernel can copy with.
    pub fn ready(&self) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.is_ready())
    }
}
