//! Sets up one work queue of a device for the kernel.

use super::{
    device::{Device, Queue, State},
    discover,
    error::Error,
    note::{self, AttributeChange, NotedDevice},
    refusal::write,
    step::{Setting, file, settings},
    tree::DsaBus,
};
use numaloc_host::journal::Journal;
use std::io;

/// Sets up this unused queue on this disabled device. Each change is noted before it is made.
///
/// # Errors
/// A step is refused. The steps before it stay, as noted.
pub fn prepare(
    tree: &dyn DsaBus,
    journal: &mut Journal<Vec<NotedDevice>>,
    device: &Device,
    queue: &Queue,
    group: u32,
) -> Result<(), Error> {
    let mut changes = Vec::new();
    for setting in settings(device, queue, group) {
        changes.extend(change(tree, setting)?);
    }
    let record = NotedDevice { device: device.name.clone(), queue: queue.name.clone(), changes };
    note::begin(journal, &record)?;
    // So that what it says later is about these steps. Older kernels do not take it, and it does not matter.
    let _ = tree.write(&format!("devices/{}/cmd_status", device.name), "0");
    for AttributeChange { part, attribute, after, .. } in &record.changes {
        write(tree, &device.name, &file(part, *attribute), after)?;
    }
    write(tree, &device.name, "drivers/idxd/bind", &device.name)?;
    write(tree, &device.name, "drivers/dmaengine/bind", &queue.name)?;
    let now = discover::device(tree, &device.name);
    match now.as_ref().and_then(|device| device.queue(&queue.name)) {
        Some(queue) if queue.state == State::Enabled => Ok(()),
        _ => {
            let reason = format!("{} is not enabled, although its driver has taken it", queue.name);
            Err(Error::NoQueue { reason })
        }
    }
}

/// The change that a setting makes; `None` if none, or if this kernel does not have the attribute.
fn change(tree: &dyn DsaBus, setting: Setting) -> Result<Option<AttributeChange>, Error> {
    let file = setting.file();
    let path = || tree.path(&file);
    let before = match tree.read(&file) {
        Ok(text) => text.trim().to_owned(),
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && setting.attribute.is_optional() =>
        {
            return Ok(None);
        }
        Err(source) => return Err(numaloc_host::Error::Read { path: path(), source }.into()),
    };
    if !setting.attribute.takes(&before) {
        let reason = format!("'{before}'");
        return Err(numaloc_host::Error::Parse { path: path(), reason }.into());
    }
    let Setting { part, attribute, value: after } = setting;
    Ok((before != after).then_some(AttributeChange { part, attribute, before, after }))
}
