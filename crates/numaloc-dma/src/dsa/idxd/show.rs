//! The text of the attributes: the `_show` functions of drivers/dma/idxd/sysfs.c.

use super::{Age, Idxd, MAX_GROUPS, MAX_SIZE, MAX_TRANSFER, name, refused};
use crate::dsa::tree::DsaBus;
use nix::libc;
use std::{io, path::Path};

/// The attributes of each kind of part.
const ATTRIBUTES: [(&str, &[&str]); 4] = [
    (
        "dsa",
        &[
            "state",
            "numa_node",
            "configurable",
            "pasid_enabled",
            "clients",
            "errors",
            "cmd_status",
            "max_work_queues",
            "max_work_queues_size",
            "max_groups",
            "max_engines",
            "max_batch_size",
            "max_transfer_size",
        ],
    ),
    (
        "wq",
        &[
            "state",
            "type",
            "name",
            "mode",
            "size",
            "group_id",
            "priority",
            "threshold",
            "driver_name",
            "clients",
            "max_transfer_size",
        ],
    ),
    ("engine", &["group_id"]),
    ("group", &["engines", "work_queues"]),
];

impl Idxd {
    /// The attributes that a device or one of its parts has.
    pub fn attributes(&self, part: &str) -> Vec<&'static str> {
        let kind = ATTRIBUTES.iter().filter(|(prefix, _)| part.starts_with(prefix));
        let all = kind.flat_map(|(_, attributes)| attributes.iter().copied());
        all.filter(|attribute| self.show(&format!("devices/{part}/{attribute}")).is_ok()).collect()
    }

    /// Writes the tree as files, for a program that reads it.
    ///
    /// # Panics
    /// The file system is full.
    pub fn write_tree(&self, root: &Path) {
        for part in self.names() {
            let directory = root.join("devices").join(&part);
            std::fs::create_dir_all(&directory).expect("a directory");
            for attribute in self.attributes(&part) {
                let text = self.show(&format!("devices/{part}/{attribute}")).expect("it is there");
                std::fs::write(directory.join(attribute), text).expect("a file");
            }
            if let Some(driver) = self.driver(&part) {
                let to = format!("../../drivers/{driver}");
                std::os::unix::fs::symlink(to, directory.join("driver")).expect("a link");
            }
        }
    }

    /// The text of an attribute.
    ///
    /// # Errors
    /// The device, part or attribute does not exist, or it cannot be read.
    pub fn show(&self, file: &str) -> io::Result<String> {
        let part = file.strip_prefix("devices/").and_then(|rest| rest.split_once('/'));
        let Some((part, attribute)) = part else { return refused(libc::EACCES) };
        let numbers = ["wq", "engine", "group"].iter().find_map(|prefix| name::part(prefix, part));
        let number = name::device(part).or(numbers.map(|(device, _)| device));
        let devices = self.devices.borrow();
        let device = devices.iter().find(|device| Some(device.number) == number);
        let Some(device) = device else { return refused(libc::ENOENT) };
        let state = |enabled| if enabled { "enabled" } else { "disabled" }.to_owned();
        let index = numbers.map_or(0, |(_, index)| index as usize);
        if part.starts_with("engine") {
            return match attribute {
                "group_id" => Ok(format!("{}\n", device.engines[index])),
                _ => refused(libc::ENOENT),
            };
        }
        if part.starts_with("group") {
            let members = |prefix: &str, groups: Vec<i32>| {
                let groups = groups.into_iter().enumerate();
                let of = groups.filter(|(_, group)| *group == index as i32);
                let of: Vec<String> =
                    of.map(|(at, _)| format!("{prefix}{}.{at}", device.number)).collect();
                of.join(" ") + "\n"
            };
            return match attribute {
                "engines" => Ok(members("engine", device.engines.clone())),
                "work_queues" => {
                    Ok(members("wq", device.queues.iter().map(|queue| queue.group).collect()))
                }
                _ => refused(libc::ENOENT),
            };
        }
        let text = if part.starts_with("wq") {
            let queue = &device.queues[index];
            match attribute {
                "state" => state(queue.driver.is_some()),
                "type" => queue.kind.to_owned(),
                "name" => queue.name.clone(),
                "driver_name" if self.age == Age::New => queue.driver_name.clone(),
                "mode" => if queue.dedicated { "dedicated" } else { "shared" }.to_owned(),
                "size" => queue.size.to_string(),
                "group_id" => queue.group.to_string(),
                "priority" => queue.priority.to_string(),
                "threshold" => queue.threshold.to_string(),
                "max_transfer_size" => queue.max_transfer_size.to_string(),
                "clients" => queue.clients.to_string(),
                _ => return refused(libc::ENOENT),
            }
        } else {
            match attribute {
                "state" => state(device.enabled),
                "numa_node" => device.numa_node.to_string(),
                "configurable" => u8::from(device.configurable).to_string(),
                "pasid_enabled" => u8::from(device.svm).to_string(),
                "clients" => "0".to_owned(),
                "errors" => "00000000,00000000".to_owned(),
                "cmd_status" => match device.command_status {
                    0 => "0".to_owned(),
                    code => format!("{code:#x}"),
                },
                "max_work_queues" => device.queues.len().to_string(),
                "max_work_queues_size" => MAX_SIZE.to_string(),
                "max_groups" => MAX_GROUPS.to_string(),
                "max_engines" => device.engines.len().to_string(),
                "max_batch_size" => "1024".to_owned(),
                "max_transfer_size" => MAX_TRANSFER.to_string(),
                _ => return refused(libc::ENOENT),
            }
        };
        Ok(text + "\n")
    }
}
