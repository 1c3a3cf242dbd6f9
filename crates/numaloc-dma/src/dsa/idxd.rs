//! A fake of the driver, which takes and refuses what the kernel's does: drivers/dma/idxd/sysfs.c (the `_store` functions),
//! device.c (`idxd_device_drv_probe`, `idxd_device_drv_remove`, `drv_enable_wq`, `drv_disable_wq`), dma.c
//! (`idxd_dmaengine_drv_probe`), drivers/base/bus.c (`bind_store`, `unbind_store`).

mod show;

pub use super::tree::DsaBus;

use super::name;
use nix::libc;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

/// The kernel that the driver belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// Before 6.7: without driver_name. A device that is disabled keeps sizes and groups of queues.
    Old,
    /// Linux 6.7 and later versions.
    New,
}

/// The driver with its devices.
pub struct Idxd {
    age: Age,
    /// The devices that the driver has found, enabled or not.
    pub devices: RefCell<Vec<Accelerator>>,
    /// All writes, refused or not.
    pub written: RefCell<Vec<String>>,
    /// After how many writes the device with this number is removed.
    pub remove_after: Cell<Option<(usize, u32)>>,
    /// A file that refuses, with this error.
    pub refuse: RefCell<Option<(String, i32)>>,
    /// The value of `cmd_status` of each device after that.
    pub refuse_status: Cell<u32>,
}

/// A device of the driver, with what its attributes show.
#[derive(Clone, Debug)]
pub struct Accelerator {
    /// The number in the names of the device and its parts.
    pub number: u32,
    /// The attribute `numa_node`; -1: no node.
    pub numa_node: i32,
    /// Whether it is bound to the driver.
    pub enabled: bool,
    /// Whether it can be configured.
    pub configurable: bool,
    /// Whether the IOMMU lets queues be shared.
    pub svm: bool,
    /// Result of its last command.
    pub command_status: u32,
    /// Its queues, in order of their number.
    pub queues: Vec<FakeQueue>,
    /// The group of each of its engines; -1: none.
    pub engines: Vec<i32>,
}

/// A work queue. Each field is the attribute of this name, but for `kind` (`type`), `dedicated` (`mode`) and `group`
/// (`group_id`, -1: none).
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the comment above names the attributes")]
pub struct FakeQueue {
    pub kind: &'static str,
    pub name: String,
    pub driver_name: String,
    pub dedicated: bool,
    pub size: u64,
    pub group: i32,
    pub priority: u64,
    pub threshold: u64,
    pub max_transfer_size: u64,
    pub clients: u64,
    /// The driver that it is bound to.
    pub driver: Option<&'static str>,
}

const MAX_SIZE: u64 = 128;
const MAX_GROUPS: i32 = 4;
const MAX_TRANSFER: u64 = 1 << 31;
/// The value of a queue that was never set (`WQ_DEFAULT_MAX_XFER`).
const TRANSFER: u64 = 2 << 20;

impl FakeQueue {
    fn fresh() -> Self {
        Self { kind: "none", group: -1, max_transfer_size: TRANSFER, ..Self::default() }
    }
    /// The values that a disabled queue forgets (`idxd_wq_disable_cleanup`).
    fn clean_up(&mut self) {
        let Self { driver_name, size, group, .. } = self.clone();
        *self = Self { driver_name, size, group, ..Self::fresh() };
    }
}

fn refused<T>(errno: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(errno))
}

fn with_number(devices: &mut [Accelerator], number: u32) -> io::Result<&mut Accelerator> {
    let device = devices.iter_mut().find(|device| device.number == number);
    device.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

impl Idxd {
    /// Devices with four queues and four engines each, at these nodes. As after a boot: the driver has them, unused.
    pub fn new(age: Age, nodes: &[(u32, i32)]) -> Self {
        let device = |&(number, numa_node): &(u32, i32)| Accelerator {
            number,
            numa_node,
            enabled: false,
            configurable: true,
            svm: false,
            command_status: 0,
            queues: vec![FakeQueue::fresh(); 4],
            engines: vec![-1; 4],
        };
        Self {
            age,
            devices: RefCell::new(nodes.iter().map(device).collect()),
            written: RefCell::default(),
            remove_after: Cell::default(),
            refuse: RefCell::default(),
            refuse_status: Cell::default(),
        }
    }

    /// All attributes and bindings as text, for comparisons.
    pub fn state(&self) -> String {
        let devices = self.devices.borrow();
        devices
            .iter()
            .map(|device| format!("{:?}\n", Accelerator { command_status: 0, ..device.clone() }))
            .collect()
    }

    /// Takes the device with this number out of the machine.
    pub fn remove(&self, number: u32) {
        self.devices.borrow_mut().retain(|device| device.number != number);
    }

    /// Changes the device with this number as another program would.
    ///
    /// # Panics
    /// The device does not exist.
    pub fn change(&self, number: u32, change: impl FnOnce(&mut Accelerator)) {
        let mut devices = self.devices.borrow_mut();
        change(devices.iter_mut().find(|device| device.number == number).expect("it is there"));
    }

    fn count(&self) {
        let done = self.written.borrow().len();
        if let Some((after, number)) = self.remove_after.get()
            && after == done
        {
            self.remove(number);
        }
    }

    fn set(&self, part: &str, attribute: &str, value: &str) -> io::Result<()> {
        let mut devices = self.devices.borrow_mut();
        if let Some(number) = name::device(part) {
            match attribute {
                "cmd_status" => with_number(&mut devices, number)?.command_status = 0,
                _ => return refused(libc::EACCES),
            }
            return Ok(());
        }
        if let Some((number, engine)) = name::part("engine", part) {
            let device = with_number(&mut devices, number)?;
            let group: i32 = value.parse().or(refused(libc::EINVAL))?;
            if !device.configurable {
                return refused(libc::EPERM);
            }
            if !(-1..MAX_GROUPS).contains(&group) {
                return refused(libc::EINVAL);
            }
            device.engines[engine as usize] = group;
            return Ok(());
        }
        match name::part("wq", part) {
            Some((number, queue)) => {
                self.set_queue(with_number(&mut devices, number)?, queue as usize, attribute, value)
            }
            None => refused(libc::EACCES),
        }
    }

    fn set_queue(
        &self,
        device: &mut Accelerator,
        index: usize,
        attribute: &str,
        value: &str,
    ) -> io::Result<()> {
        let number = || value.trim().parse::<u64>().or(refused(libc::EINVAL));
        let is_enabled = device.queues[index].driver.is_some();
        let others: u64 = device.queues.iter().map(|queue| queue.size).sum();
        let others = others - device.queues[index].size;
        let (configurable, device_enabled) = (device.configurable, device.enabled);
        let queue = &mut device.queues[index];
        // `group_id`, `mode`, `priority`, `max_transfer_size`.
        let may = || match configurable && !is_enabled {
            true => Ok(()),
            false => refused(libc::EPERM),
        };
        let fits = |fits: bool| if fits { Ok(()) } else { refused(libc::EINVAL) };
        match attribute {
            "group_id" => {
                let group: i32 = value.trim().parse().or(refused(libc::EINVAL))?;
                may()?;
                fits((-1..MAX_GROUPS).contains(&group))?;
                queue.group = group;
            }
            "mode" => {
                may()?;
                fits(["dedicated", "shared"].contains(&value))?;
                queue.dedicated = value == "dedicated";
                if queue.dedicated {
                    queue.threshold = 0;
                }
            }
            "size" => {
                let size = number()?;
                if !configurable || device_enabled {
                    return refused(libc::EPERM);
                }
                fits(size + others <= MAX_SIZE)?;
                queue.size = size;
            }
            "priority" => {
                let priority = number()?;
                may()?;
                fits(priority <= 15)?;
                queue.priority = priority;
            }
            "threshold" => {
                let threshold = number()?;
                fits((1..=queue.size).contains(&threshold))?;
                match (configurable, is_enabled) {
                    (false, _) => return refused(libc::EPERM),
                    (true, true) => return refused(libc::ENXIO),
                    (true, false) => fits(!queue.dedicated)?,
                }
                queue.threshold = threshold;
            }
            "type" => {
                if is_enabled {
                    return refused(libc::EPERM);
                }
                let kind = ["none", "kernel", "user"].into_iter().find(|kind| *kind == value);
                let Some(kind) = kind else { return refused(libc::EINVAL) };
                if kind != queue.kind {
                    queue.name.clear();
                }
                queue.kind = kind;
            }
            "name" | "driver_name" => {
                if is_enabled {
                    return refused(libc::EPERM);
                }
                fits(value.len() <= 128)?;
                let text = value.trim().to_owned();
                match attribute {
                    "name" => queue.name = text,
                    _ => queue.driver_name = text,
                }
            }
            "max_transfer_size" => {
                may()?;
                let bytes = number()?;
                fits(bytes > 0 && bytes.next_power_of_two() <= MAX_TRANSFER)?;
                queue.max_transfer_size = bytes.next_power_of_two();
            }
            _ => return refused(libc::EACCES),
        }
        Ok(())
    }

    /// The driver's work when a device is bound to it (`idxd_device_drv_probe`).
    fn enable_device(&self, target: &str) -> io::Result<()> {
        let mut devices = self.devices.borrow_mut();
        let found = devices.iter_mut().find(|device| format!("dsa{}", device.number) == target);
        let Some(device) = found else { return refused(libc::ENODEV) };
        if device.enabled {
            return refused(libc::EBUSY);
        }
        let grouped: Vec<&FakeQueue> =
            device.queues.iter().filter(|queue| queue.group >= 0).collect();
        device.command_status = match grouped.as_slice() {
            [] => 0x800d_0000,
            queues if queues.iter().any(|queue| !queue.dedicated && !device.svm) => 0x800c_0000,
            // Without any engine the driver refuses and sets no code.
            _ if device.engines.iter().all(|group| *group < 0) => return refused(libc::ENXIO),
            queues if queues.iter().any(|queue| !device.engines.contains(&queue.group)) => 0x15,
            _ => 0,
        };
        if device.command_status != 0 {
            return refused(libc::ENXIO);
        }
        device.enabled = true;
        Ok(())
    }

    /// `idxd_dmaengine_drv_probe`, and `idxd_user_drv_probe` as far as it is the same.
    fn enable_queue(&self, driver: &'static str, target: &str) -> io::Result<()> {
        let Some((number, index)) = name::part("wq", target) else { return refused(libc::ENODEV) };
        let mut devices = self.devices.borrow_mut();
        let found = devices.iter_mut().find(|device| device.number == number);
        let Some(device) = found else { return refused(libc::ENODEV) };
        let queue = &mut device.queues[index as usize];
        if queue.driver.is_some() {
            return refused(libc::EBUSY);
        }
        if !device.enabled {
            return refused(libc::ENXIO);
        }
        if self.age == Age::New && queue.driver_name != driver {
            device.command_status = 0x8020_0000;
            queue.kind = "none";
            return refused(libc::ENODEV);
        }
        device.command_status = match () {
            () if queue.group < 0 => 0x8003_0000,
            () if queue.name.is_empty() => 0x8004_0000,
            () if queue.size == 0 => 0x800e_0000,
            () if !queue.dedicated && !device.svm => 0x8005_0000,
            () if !queue.dedicated && queue.threshold == 0 => 0x8006_0000,
            () if queue.priority == 0 => 0x23,
            () => 0,
        };
        if device.command_status != 0 {
            queue.kind = "none";
            return refused(libc::ENXIO);
        }
        queue.kind = if driver == "user" { "user" } else { "kernel" };
        queue.driver = Some(driver);
        Ok(())
    }

    fn disable_queue(&self, driver: &str, target: &str) -> io::Result<()> {
        let Some((number, index)) = name::part("wq", target) else { return refused(libc::ENODEV) };
        let mut devices = self.devices.borrow_mut();
        let queue = devices
            .iter_mut()
            .find(|device| device.number == number)
            .map(|device| &mut device.queues[index as usize])
            .filter(|queue| queue.driver == Some(driver));
        let Some(queue) = queue else { return refused(libc::ENODEV) };
        assert_eq!(queue.clients, 0, "the kernel would use what has been freed");
        queue.clean_up();
        Ok(())
    }

    /// The driver's work when a device is unbound (`idxd_device_drv_remove`).
    fn disable_device(&self, target: &str) -> io::Result<()> {
        let mut devices = self.devices.borrow_mut();
        let found = devices.iter_mut().find(|device| format!("dsa{}", device.number) == target);
        let Some(device) = found.filter(|device| device.enabled) else {
            return refused(libc::ENODEV);
        };
        device.enabled = false;
        for queue in &mut device.queues {
            let keeps = self.age == Age::Old && queue.driver.is_none();
            queue.clean_up();
            if !keeps {
                (queue.size, queue.group) = (0, -1);
            }
        }
        device.engines.fill(-1);
        Ok(())
    }
}

impl DsaBus for Idxd {
    fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for device in self.devices.borrow().iter() {
            let number = device.number;
            names.insert(format!("dsa{number}"));
            names.extend((0..device.queues.len()).map(|part| format!("wq{number}.{part}")));
            names.extend((0..device.engines.len()).map(|part| format!("engine{number}.{part}")));
            names.extend((0..MAX_GROUPS).map(|part| format!("group{number}.{part}")));
        }
        // Another kind of device on the same bus.
        names.extend(["iax1".to_owned(), "wq1.0".to_owned()]);
        names
    }

    fn read(&self, file: &str) -> io::Result<String> {
        self.show(file)
    }

    fn write(&self, file: &str, value: &str) -> io::Result<()> {
        numaloc_host::killed::write()?;
        self.count();
        self.written.borrow_mut().push(format!("{file} {value}"));
        if let Some((refused, errno)) = &*self.refuse.borrow()
            && refused == file
        {
            let status = self.refuse_status.get();
            self.devices.borrow_mut().iter_mut().for_each(|device| device.command_status = status);
            return self::refused(*errno);
        }
        match file {
            "drivers/idxd/bind" => self.enable_device(value),
            "drivers/idxd/unbind" => self.disable_device(value),
            "drivers/dmaengine/bind" => self.enable_queue("dmaengine", value),
            "drivers/user/bind" => self.enable_queue("user", value),
            "drivers/dmaengine/unbind" => self.disable_queue("dmaengine", value),
            "drivers/user/unbind" => self.disable_queue("user", value),
            _ => match file.strip_prefix("devices/").and_then(|rest| rest.split_once('/')) {
                Some((part, attribute)) if self.read(file).is_ok() => {
                    self.set(part, attribute, value)
                }
                _ => refused(libc::ENOENT),
            },
        }
    }

    fn driver(&self, part: &str) -> Option<String> {
        let devices = self.devices.borrow();
        let device = |number| devices.iter().find(|device| device.number == number);
        if let Some(number) = name::device(part) {
            return device(number).filter(|device| device.enabled).map(|_| "idxd".to_owned());
        }
        let (number, index) = name::part("wq", part)?;
        Some(device(number)?.queues.get(index as usize)?.driver?.to_owned())
    }

    fn path(&self, file: &str) -> PathBuf {
        Path::new("/sys/bus/dsa").join(file)
    }
}
