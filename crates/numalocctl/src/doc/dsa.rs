//! Accelerators that can copy, and the kernel's way to use them.

use numaloc_dma::{
    dsa::{Device, Found, Queue, missing},
    kernel::Probed,
};
use serde::Serialize;

/// The document of `dsa`, which `-o json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct DsaDoc {
    /// The devices in order of their number.
    pub devices: Vec<DsaDeviceDoc>,
    /// Whether this kernel can let a device copy the pages that it migrates.
    pub kernel_offload: KernelOffloadDoc,
    /// Missing requirements for that, the first one first.
    pub missing: Vec<MissingDoc>,
}

/// One device. Fields that the kernel does not show are null.
#[derive(Clone, Debug, Serialize)]
pub struct DsaDeviceDoc {
    /// The device's name on the bus, such as `dsa0`.
    pub name: String,
    /// The node that it is attached to.
    pub numa_node: Option<u32>,
    /// `enabled`, `disabled`, `halted` or `unknown`.
    pub state: &'static str,
    /// The driver that it is bound to.
    pub driver: Option<String>,
    /// Whether it can be configured.
    pub configurable: Option<bool>,
    /// Whether processes may use it with addresses of their own.
    pub pasid_enabled: Option<bool>,
    /// The number of users of its queues.
    pub clients: Option<u64>,
    /// The bitmap of software errors; null if there are none.
    pub errors: Option<String>,
    /// The reason why its last command was refused; null if it was not.
    pub cmd_status: Option<CommandStatusDoc>,
    pub max_work_queues: Option<u64>,
    /// Most entries of all work queues together.
    pub max_work_queues_size: Option<u64>,
    pub max_groups: Option<u64>,
    pub max_engines: Option<u64>,
    /// Most descriptors in a batch.
    pub max_batch_size: Option<u64>,
    /// Most bytes of one transfer.
    pub max_transfer_bytes: Option<u64>,
    /// Its work queues in order of their number.
    pub work_queues: Vec<WorkQueueDoc>,
    /// Its groups in order of their number.
    pub groups: Vec<GroupDoc>,
    /// Its engines in order of their number.
    pub engines: Vec<EngineDoc>,
}

/// The result of a device's last command.
#[derive(Clone, Debug, Serialize)]
pub struct CommandStatusDoc {
    pub code: u32,
    /// The kernel's meaning of the code, in words.
    pub text: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub struct WorkQueueDoc {
    /// Its name on the bus, such as `wq0.1`.
    pub name: String,
    /// `enabled`, `disabled` or `unknown`, as the driver shows it.
    pub state: &'static str,
    /// The queue's use: `none`, `kernel` or `user`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// `dedicated`, or `shared` by several clients.
    pub mode: Option<String>,
    /// The driver that it is bound to, else the one that it is meant for.
    pub driver: Option<String>,
    /// Whether the kernel can copy with it now.
    pub ready: bool,
    /// The name that its user has given to it.
    pub label: Option<String>,
    pub group: Option<u32>,
    pub size: Option<u64>,
    /// 1 to 15; 0 until it is configured.
    pub priority: Option<u64>,
    /// For a shared queue: entries up to which unprivileged users may fill it.
    pub threshold: Option<u64>,
    /// Most descriptors in a batch.
    pub max_batch_size: Option<u64>,
    /// Most bytes of one transfer.
    pub max_transfer_bytes: Option<u64>,
    /// The bitmap of operations that it allows.
    pub op_config: Option<String>,
    /// The number of its users.
    pub clients: Option<u64>,
}

impl WorkQueueDoc {
    /// Whether it has been given a use.
    pub fn is_in_use(&self) -> bool {
        self.state != "disabled"
            || self.label.is_some()
            || self.kind.as_deref().is_some_and(|kind| kind != "none")
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct GroupDoc {
    /// The group's name on the bus, such as `group0.0`.
    pub name: String,
    pub work_queues: Vec<String>,
    pub engines: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct EngineDoc {
    /// The engine's name on the bus, such as `engine0.0`.
    pub name: String,
    pub group: Option<u32>,
}

/// The kernel's way to let a device copy.
#[derive(Clone, Debug, Serialize)]
pub struct KernelOffloadDoc {
    /// Its name; null if this kernel has none.
    pub interface: Option<&'static str>,
    /// Whether this process can use it now.
    pub available: bool,
    pub reason: Option<String>,
}

/// Something that the kernel needs before a device can copy for it.
#[derive(Clone, Debug, Serialize)]
pub struct MissingDoc {
    pub what: String,
    /// The command, boot option or setting that gives it.
    pub remedy: &'static str,
}

impl DsaDoc {
    pub fn new(found: &Found, offload: Probed) -> Self {
        let missing = missing(found, offload.interface.is_some()).into_iter();
        let missing = missing.map(|it| MissingDoc { what: it.what, remedy: it.remedy });
        let Probed { interface, available, reason } = offload;
        Self {
            devices: found.devices.iter().map(device).collect(),
            kernel_offload: KernelOffloadDoc { interface, available, reason },
            missing: missing.collect(),
        }
    }
}

fn device(device: &Device) -> DsaDeviceDoc {
    let (status, limits) = (device.command_status, device.limits);
    let groups = device.groups.iter().map(|group| GroupDoc {
        name: group.name.clone(),
        work_queues: group.queues.clone(),
        engines: group.engines.clone(),
    });
    let engines = device.engines.iter();
    DsaDeviceDoc {
        name: device.name.clone(),
        numa_node: device.numa_node.map(|node| node.0),
        state: device.state.name(),
        driver: device.driver.clone(),
        configurable: device.configurable,
        pasid_enabled: device.pasid_enabled,
        clients: device.clients,
        errors: device.errors.clone(),
        cmd_status: status.words().map(|text| CommandStatusDoc { code: status.0, text }),
        max_work_queues: limits.work_queues,
        max_work_queues_size: limits.work_queues_size,
        max_groups: limits.groups,
        max_engines: limits.engines,
        max_batch_size: limits.batch_size,
        max_transfer_bytes: limits.transfer_bytes,
        work_queues: device.queues.iter().map(work_queue).collect(),
        groups: groups.collect(),
        engines: engines
            .map(|engine| EngineDoc { name: engine.name.clone(), group: engine.group })
            .collect(),
    }
}

fn work_queue(queue: &Queue) -> WorkQueueDoc {
    WorkQueueDoc {
        name: queue.name.clone(),
        state: queue.state.name(),
        kind: queue.kind.clone(),
        mode: queue.mode.clone(),
        driver: queue.purpose().map(str::to_owned),
        ready: queue.is_ready(),
        label: queue.label.clone(),
        group: queue.group,
        size: queue.size,
        priority: queue.priority,
        threshold: queue.threshold,
        max_batch_size: queue.max_batch_size,
        max_transfer_bytes: queue.max_transfer_bytes,
        op_config: queue.op_config.clone(),
        clients: queue.clients,
    }
}
