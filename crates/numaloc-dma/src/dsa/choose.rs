//! The choice of devices that get a work queue. Pure.

use super::device::{Device, Queue, State};
use numaloc_core::{NodeId, NodeSet, Topology};
use std::collections::BTreeSet;

/// The devices near these nodes: for each node those at the smallest distance. A device whose node is not known is near to none,
/// unless that holds for all of them.
pub fn near<'d>(devices: &'d [Device], nodes: &NodeSet, topology: &Topology) -> Vec<&'d Device> {
    let placed = || devices.iter().filter_map(|device| Some((device, device.numa_node?)));
    if placed().next().is_none() {
        return devices.iter().collect();
    }
    let mut chosen = BTreeSet::new();
    for to in nodes.iter() {
        let distance = |at: NodeId| topology.distance(at, to);
        let nearest = placed().map(|(_, at)| distance(at)).min();
        let here = placed().filter(|&(_, at)| Some(distance(at)) == nearest);
        chosen.extend(here.map(|(device, _)| device.number));
    }
    devices.iter().filter(|device| chosen.contains(&device.number)).collect()
}

/// The possible use of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit<'d> {
    /// It is unused: this queue of it can be set up, in the group with this number.
    Free { queue: &'d Queue, group: u32 },
    /// It has a queue already that the kernel can copy with.
    Ready { queue: &'d Queue },
    /// It is left as it is; `why` is for people.
    Unfit { why: String },
}

/// The possible use of a device. A device whose configuration has begun is left alone, even if it is disabled: to
/// enable it would put that configuration into force, and to disable it again makes the driver forget all
/// configuration of the device (drivers/dma/idxd/device.c, `idxd_device_drv_remove` and `idxd_device_clear_state`).
pub fn fit(device: &Device) -> Fit<'_> {
    let unfit = |why: String| Fit::Unfit { why };
    if let Some(queue) = device.ready() {
        return Fit::Ready { queue };
    }
    match device.state {
        State::Disabled => {}
        State::Enabled => {
            return unfit("another program has enabled it, and the size of a queue can only be set while its device is disabled".into());
        }
        State::Halted => {
            return unfit(
                "it has halted after an error: see the kernel's log, and reset it".into(),
            );
        }
        State::Unknown => return unfit("the kernel does not report its state".into()),
    }
    if device.configurable == Some(false) {
        return unfit("its configuration is fixed (configurable is 0)".into());
    }
    if let Some(queue) = device.queues.iter().find(|queue| queue.is_configured()) {
        return unfit(format!("another program has begun to configure {}", queue.name));
    }
    if let Some(engine) = device.engines.iter().find(|engine| engine.group.is_some()) {
        return unfit(format!("another program has put {} into a group", engine.name));
    }
    match (device.queues.first(), device.engines.is_empty(), device.groups.first()) {
        (Some(queue), false, Some(group)) => Fit::Free { queue, group: group.number },
        _ => unfit("it shows no work queue, no engine or no group".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsa::device::{Engine, Group};
    use numaloc_core::{CpuSet, Node, NodeMemory};

    fn free(number: u32, node: Option<u32>) -> Device {
        let name = |part: &str| format!("{part}{number}.0");
        let queue = Queue {
            name: name("wq"),
            state: State::Disabled,
            kind: Some("none".into()),
            size: Some(0),
            ..Queue::default()
        };
        Device {
            number,
            name: format!("dsa{number}"),
            numa_node: node.map(NodeId),
            state: State::Disabled,
            configurable: Some(true),
            queues: vec![queue],
            engines: vec![Engine { name: name("engine"), group: None }],
            groups: vec![Group { name: name("group"), ..Group::default() }],
            ..Device::default()
        }
    }

    fn topology() -> Topology {
        let node = |id| Node { id: NodeId(id), cpus: CpuSet::new(), memory: NodeMemory::default() };
        // Two sockets of two nodes; node 8 is memory of socket 1.
        let near = [(0, 1), (4, 5), (5, 8)];
        let distances = near
            .into_iter()
            .flat_map(|(a, b)| [((NodeId(a), NodeId(b)), 12), ((NodeId(b), NodeId(a)), 12)]);
        Topology::new([0, 1, 4, 5, 8].map(node), distances)
    }

    fn names(chosen: &[&Device]) -> Vec<u32> {
        chosen.iter().map(|device| device.number).collect()
    }

    #[test]
    fn the_nearest_devices_of_each_node_are_chosen() {
        let devices = [free(0, Some(0)), free(2, Some(4)), free(4, Some(5)), free(6, None)];
        let chosen = |nodes: &str| names(&near(&devices, &nodes.parse().unwrap(), &topology()));
        assert_eq!(chosen("0"), [0]);
        assert_eq!(chosen("1"), [0]);
        assert_eq!(chosen("8"), [4]);
        assert_eq!(chosen("0-1,4-5,8"), [0, 2, 4]);
        // Two devices at one node are both near.
        let pair = [free(0, Some(0)), free(1, Some(0)), free(2, Some(4))];
        assert_eq!(names(&near(&pair, &"1".parse().unwrap(), &topology())), [0, 1]);
        let nowhere = [free(0, None), free(1, None)];
        assert_eq!(names(&near(&nowhere, &"0".parse().unwrap(), &topology())), [0, 1]);
    }

    #[test]
    fn an_unused_device_is_free() {
        assert!(
            matches!(fit(&free(3, None)), Fit::Free { queue, group: 0 } if queue.name == "wq3.0")
        );
    }

    #[test]
    fn what_others_have_touched_is_left_alone() {
        let touch = |change: fn(&mut Device)| {
            let mut device = free(0, None);
            change(&mut device);
            match fit(&device) {
                Fit::Unfit { why } => why,
                fit => panic!("{fit:?}"),
            }
        };
        for (change, words) in [
            ((|d| d.state = State::Enabled) as fn(&mut Device), "has enabled it"),
            (|d| d.state = State::Halted, "halted"),
            (|d| d.state = State::Unknown, "state"),
            (|d| d.configurable = Some(false), "fixed"),
            (|d| d.queues[0].size = Some(1), "wq0.0"),
            (|d| d.queues[0].label = Some("db".into()), "wq0.0"),
            (|d| d.queues[0].kind = Some("user".into()), "wq0.0"),
            (|d| d.queues[0].group = Some(1), "wq0.0"),
            (|d| d.engines[0].group = Some(0), "engine0.0"),
            (|d| d.engines.clear(), "no engine"),
        ] {
            let why = touch(change);
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn a_kernel_queue_of_another_program_will_do() {
        let mut device = free(0, None);
        device.state = State::Enabled;
        let queue = &mut device.queues[0];
        (queue.state, queue.kind) = (State::Enabled, Some("kernel".into()));
        // Linux before 6.7 has no driver_name, and a tree may have no link to the driver.
        assert!(matches!(fit(&device), Fit::Ready { .. }));
        device.queues[0].driver = Some("iaa_crypto".into());
        assert!(matches!(fit(&device), Fit::Unfit { .. }));
        device.queues[0].driver = Some("dmaengine".into());
        assert!(matches!(fit(&device), Fit::Ready { .. }));
    }
}
