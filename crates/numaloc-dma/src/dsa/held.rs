//! The work queues of this process, on all devices: set up, held, and taken down.

use super::{
    choose::{self, Fit},
    device::Device,
    error::Error,
    find,
    missing::missing,
    note::{self, NotedDevice},
    report::{Became, DeviceReport},
    tree::{DsaBus, Sysfs},
    undo::{self, Undone},
};
use numaloc_host::{Roots, journal, topology};

/// The name of the note in the runtime directory.
pub(super) const NOTE: &str = "dsa";

/// The notes on all devices.
pub(super) type DsaJournal = journal::Journal<Vec<NotedDevice>>;

/// The queues that this process has set up. They stay until [`HeldQueues::undo`]; if the process is killed before, until [`recover`].
#[derive(Debug)]
pub struct HeldQueues {
    tree: Sysfs,
    journal: DsaJournal,
}

impl HeldQueues {
    /// Takes down what was set up, and says for each device what has become of it.
    ///
    /// # Errors
    /// The note cannot be read or written.
    pub fn undo(mut self) -> Result<Vec<DeviceReport>, Error> {
        take_down(&self.tree, &mut self.journal)
    }
}

/// Sets up a work queue for the kernel on each of these devices, or, if none is named, on those near to nodes with memory. Takes
/// down first what a process that was killed has left. Says for each device what has become of it.
///
/// # Errors
/// Another process does that now, no device exists, or the note cannot be written.
pub fn prepare(roots: &Roots, named: &[String]) -> Result<(HeldQueues, Vec<DeviceReport>), Error> {
    let Some(mut journal) = DsaJournal::take(roots, NOTE)? else {
        return Err(Error::NoQueue { reason: "another process is using it".into() });
    };
    let tree = Sysfs::new(roots);
    let mut reports = take_down(&tree, &mut journal)?;
    let found = find(roots);
    if found.devices.is_empty() {
        let reasons = missing(&found, true).into_iter();
        let reasons: Vec<String> =
            reasons.map(|it| format!("{}; {}", it.what, it.remedy)).collect();
        return Err(Error::NoQueue { reason: reasons.join("; ") });
    }
    let chosen = match (named, topology::places(roots)) {
        ([], Ok(places)) => choose::near(&found.devices, &places.with_memory(), &places),
        // Without nodes there is nothing to be near to.
        ([], Err(_)) => found.devices.iter().collect(),
        (named, _) => {
            let (chosen, unknown) = by_name(&found.devices, named);
            reports.extend(unknown);
            chosen
        }
    };
    reports.extend(set_up(&tree, &mut journal, &chosen));
    Ok((HeldQueues { tree, journal }, reports))
}

/// Takes down what a process that was killed has left. Does nothing while another process has queues set up.
///
/// # Errors
/// The note cannot be read or written.
pub fn recover(roots: &Roots) -> Result<Vec<DeviceReport>, Error> {
    if !journal::is_noted(roots, NOTE) {
        return Ok(Vec::new());
    }
    let Some(mut journal) = DsaJournal::take(roots, NOTE)? else { return Ok(Vec::new()) };
    take_down(&Sysfs::new(roots), &mut journal)
}

pub(super) fn by_name<'d>(
    devices: &'d [Device],
    named: &[String],
) -> (Vec<&'d Device>, Vec<DeviceReport>) {
    let unknown = named.iter().filter(|name| devices.iter().all(|device| device.name != **name));
    let there: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    let why = format!("no device has this name; the host has {}", there.join(", "));
    let unknown = unknown
        .map(|name| DeviceReport {
            device: name.clone(),
            became: Became::Left { why: why.clone() },
        })
        .collect();
    (devices.iter().filter(|device| named.contains(&device.name)).collect(), unknown)
}

pub(super) fn set_up(
    tree: &dyn DsaBus,
    journal: &mut DsaJournal,
    devices: &[&Device],
) -> Vec<DeviceReport> {
    let noted = note::records(journal).unwrap_or_default();
    let is_noted = |device: &Device| noted.iter().any(|record| record.device == device.name);
    let one = |device: &&Device| {
        let became = match choose::fit(device) {
            Fit::Ready { queue } => Became::Ready { queue: queue.name.clone() },
            Fit::Unfit { why } => Became::Left { why },
            Fit::Free { .. } if is_noted(device) => {
                Became::Left { why: "what was set up before could not be taken down".into() }
            }
            Fit::Free { queue, group } => {
                match super::prepare::prepare(tree, journal, device, queue, group) {
                    Ok(()) => Became::Prepared { queue: queue.name.clone() },
                    Err(error) => Became::Failed { error, kept: give_up(tree, journal, device) },
                }
            }
        };
        DeviceReport { device: device.name.clone(), became }
    };
    devices.iter().map(one).collect()
}

/// Undoes what has been done on a device. Returns why that has failed.
fn give_up(tree: &dyn DsaBus, journal: &mut DsaJournal, device: &Device) -> Option<Error> {
    let records = match note::records(journal) {
        Ok(records) => records,
        Err(error) => return Some(error.into()),
    };
    let record = records.into_iter().find(|record| record.device == device.name)?;
    undo::undo(tree, &record).and_then(|_| Ok(note::end(journal, &record.device)?)).err()
}

pub(super) fn take_down(
    tree: &dyn DsaBus,
    journal: &mut DsaJournal,
) -> Result<Vec<DeviceReport>, Error> {
    let records = note::records(journal)?;
    let mut reports = Vec::new();
    for record in &records {
        let became = match undo::undo(tree, record) {
            Ok(undone) => {
                note::end(journal, &record.device)?;
                match undone {
                    Undone::Restored => Became::Restored,
                    Undone::Gone => Became::Gone,
                    Undone::Shared { queue } => Became::Shared { queue },
                }
            }
            Err(error) => Became::Kept { error },
        };
        reports.push(DeviceReport { device: record.device.clone(), became });
    }
    Ok(reports)
}
