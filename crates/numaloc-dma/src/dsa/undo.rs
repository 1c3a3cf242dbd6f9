//! Takes down what was set up on a device, as far as it is still as it was set up.
//!
//! The queue goes first, then the device, then the attributes: the driver takes most of these only from a device that is disabled,
//! and it has forgotten most of them by then. Each step looks first whether it is needed. So all of it may be done again, after a
//! death between any two steps.

use super::{
    device::{DMAENGINE, Device, Queue, State},
    discover,
    error::Error,
    note::{AttributeChange, NotedDevice},
    refusal::write,
    step::{LABEL, file},
    tree::DsaBus,
};

/// The outcome of undoing the changes of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It is as it was before.
    Restored,
    /// It has been removed from the machine, so there is nothing to undo.
    Gone,
    /// The queue is down. The device stays as it is, because another program has begun to use this queue of it.
    Shared { queue: String },
}

/// Undoes what is noted of one device.
///
/// # Errors
/// A step is refused, or the kernel still uses the queue ([`Error::InUse`]). The rest is left as it is, for another try.
pub fn undo(tree: &dyn DsaBus, record: &NotedDevice) -> Result<Undone, Error> {
    match try_to(tree, record) {
        // A step that failed because the device has been removed is not a failure.
        Err(_) if discover::device(tree, &record.device).is_none() => Ok(Undone::Gone),
        done => done,
    }
}

fn try_to(tree: &dyn DsaBus, record: &NotedDevice) -> Result<Undone, Error> {
    let name = &record.device;
    let Some(device) = discover::device(tree, name) else { return Ok(Undone::Gone) };
    let is_ours = device.queue(&record.queue).is_some_and(is_own);
    if is_ours && let Some(queue) = device.queue(&record.queue).filter(|queue| is_bound(queue)) {
        release(tree, name, queue)?;
    }
    let Some(device) = discover::device(tree, name) else { return Ok(Undone::Gone) };
    let other = other(&device, record, is_ours);
    if other.is_none() && device.state == State::Enabled {
        write(tree, name, "drivers/idxd/unbind", name)?;
    }
    let is_engine = |change: &&AttributeChange| change.part != record.queue;
    let changes = record.changes.iter().rev();
    match other {
        None => put_back(tree, name, changes)?,
        // Others may use the engines by now, and the size and group of a queue cannot be changed while the device is enabled.
        Some(_) if is_ours && device.state == State::Disabled => {
            put_back(tree, name, changes.filter(|change| !is_engine(change)))?;
        }
        Some(_) => {}
    }
    Ok(other.map_or(Undone::Restored, |queue| Undone::Shared { queue }))
}

/// Whether the queue is still the one that was set up, or not yet. The driver forgets the name with the rest.
fn is_own(queue: &Queue) -> bool {
    let label = queue.label.as_deref().is_none_or(|label| label == LABEL);
    label && queue.purpose().is_none_or(|driver| driver == DMAENGINE)
}

fn is_bound(queue: &Queue) -> bool {
    queue.state == State::Enabled || queue.driver.is_some()
}

/// Disables the queue, unless the kernel uses it: a driver that has a DMA channel does not notice that it goes away
/// (drivers/dma/idxd/dma.c, `idxd_unregister_dma_channel`, frees it).
fn release(tree: &dyn DsaBus, device: &str, queue: &Queue) -> Result<(), Error> {
    match queue.clients {
        Some(clients) if clients > 0 => Err(Error::InUse { queue: queue.name.clone(), clients }),
        _ => write(tree, device, "drivers/dmaengine/unbind", &queue.name),
    }
}

/// A queue that another program has begun to configure.
fn other(device: &Device, record: &NotedDevice, is_ours: bool) -> Option<String> {
    let is_others = |queue: &&Queue| !(is_ours && queue.name == record.queue);
    let mut others = device.queues.iter().filter(is_others);
    others.find(|queue| queue.is_configured()).map(|queue| queue.name.clone())
}

/// Puts values back where they still are the values that were written.
fn put_back<'r>(
    tree: &dyn DsaBus,
    device: &str,
    changes: impl Iterator<Item = &'r AttributeChange>,
) -> Result<(), Error> {
    for AttributeChange { part, attribute, before, after } in changes {
        let file = file(part, *attribute);
        let now = tree.read(&file).unwrap_or_default();
        if now.trim() == after {
            write(tree, device, &file, before)?;
        }
    }
    Ok(())
}
