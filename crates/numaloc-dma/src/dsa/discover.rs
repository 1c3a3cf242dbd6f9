//! Reads the devices and their parts. Unreadable parts are left out: a device may be removed at any time.

use super::{
    command_status::CommandStatus,
    device::{Device, Engine, Group, Limits, Queue, State},
    name,
    tree::DsaBus,
};
use numaloc_core::NodeId;
use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
};

/// All devices, in order of their number.
pub fn devices(tree: &dyn DsaBus) -> Vec<Device> {
    let names = tree.names();
    let devices = device_names(&names).into_iter();
    devices.map(|(number, name)| read(tree, &names, name, number)).collect()
}

/// The names of devices among these names, by their number.
pub fn device_names(names: &BTreeSet<String>) -> BTreeMap<u32, &str> {
    names.iter().filter_map(|name| Some((name::device(name)?, name.as_str()))).collect()
}

/// The text of `state` and `errors` of whatever has these, by `dsa0/state`.
pub fn conditions(tree: &dyn DsaBus) -> BTreeMap<String, String> {
    let names = tree.names();
    let files = names.iter().flat_map(|name| ["state", "errors"].map(|file| (name, file)));
    let texts = files.filter_map(|(name, attribute)| {
        let text = tree.read(&format!("devices/{name}/{attribute}")).ok()?;
        Some((format!("{name}/{attribute}"), text.trim().to_owned()))
    });
    texts.collect()
}

/// One device; `None` if it is not there.
pub fn device(tree: &dyn DsaBus, name: &str) -> Option<Device> {
    let names = tree.names();
    let number = names.get(name).and_then(|name| name::device(name))?;
    Some(read(tree, &names, name, number))
}

fn read(tree: &dyn DsaBus, names: &BTreeSet<String>, device: &str, number: u32) -> Device {
    let at = At { tree, name: device };
    let parts = |prefix| {
        let mut parts: Vec<(u32, &str)> = names
            .iter()
            .filter_map(|name| Some((name::part(prefix, name)?, name.as_str())))
            .filter(|((device, _), _)| *device == number)
            .map(|((_, part), name)| (part, name))
            .collect();
        parts.sort_unstable();
        parts.into_iter()
    };
    Device {
        number,
        name: device.to_owned(),
        numa_node: at.number::<u32>("numa_node").map(NodeId),
        state: at.state(),
        driver: tree.driver(device),
        configurable: at.number::<u8>("configurable").map(|flag| flag != 0),
        pasid_enabled: at.number::<u8>("pasid_enabled").map(|flag| flag != 0),
        clients: at.number("clients"),
        errors: at
            .text("errors")
            .filter(|bits| bits.chars().any(|c| !matches!(c, '0' | ',' | 'x' | ' '))),
        command_status: at
            .text("cmd_status")
            .and_then(|text| CommandStatus::parse(&text))
            .unwrap_or_default(),
        limits: Limits {
            work_queues: at.number("max_work_queues"),
            work_queues_size: at.number("max_work_queues_size"),
            groups: at.number("max_groups"),
            engines: at.number("max_engines"),
            batch_size: at.number("max_batch_size"),
            transfer_bytes: at.number("max_transfer_size"),
        },
        queues: parts("wq").map(|(_, name)| queue(tree, name)).collect(),
        groups: parts("group").map(|(number, name)| group(tree, name, number)).collect(),
        engines: parts("engine")
            .map(|(_, name)| Engine {
                name: name.to_owned(),
                group: At { tree, name }.number("group_id"),
            })
            .collect(),
    }
}

fn queue(tree: &dyn DsaBus, name: &str) -> Queue {
    let at = At { tree, name };
    Queue {
        name: name.to_owned(),
        state: at.state(),
        kind: at.text("type"),
        mode: at.text("mode"),
        driver: tree.driver(name),
        driver_name: at.text("driver_name"),
        label: at.text("name"),
        group: at.number("group_id"),
        size: at.number("size"),
        priority: at.number("priority"),
        threshold: at.number("threshold"),
        max_batch_size: at.number("max_batch_size"),
        max_transfer_bytes: at.number("max_transfer_size"),
        op_config: at.text("op_config"),
        clients: at.number("clients"),
    }
}

fn group(tree: &dyn DsaBus, name: &str, number: u32) -> Group {
    let words = |attribute| {
        let text = At { tree, name }.text(attribute).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    };
    Group { name: name.to_owned(), number, queues: words("work_queues"), engines: words("engines") }
}

/// The attributes of a device or part.
struct At<'a> {
    tree: &'a dyn DsaBus,
    name: &'a str,
}

impl At<'_> {
    /// Text without the space around it; `None` if it is empty.
    fn text(&self, attribute: &str) -> Option<String> {
        let text = self.tree.read(&format!("devices/{}/{attribute}", self.name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// A number. The kernel's -1 means none: no group, no node.
    fn number<N: FromStr>(&self, attribute: &str) -> Option<N> {
        self.text(attribute)?.parse().ok()
    }

    fn state(&self) -> State {
        self.text("state").map_or(State::Unknown, |text| State::of(&text))
    }
}
