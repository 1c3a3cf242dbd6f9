//! The changes of devices, as they are noted before each change.

use super::{
    name,
    step::{Attribute, is_part_of},
};
use numaloc_host::{Error, journal::Journal};
use serde::{Deserialize, Serialize};
use std::mem;

/// The change of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedDevice {
    pub device: String,
    pub queue: String,
    /// Its attributes and those of engines, in the order in which they are written.
    pub changes: Vec<AttributeChange>,
}

/// A change of one attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeChange {
    pub part: String,
    pub attribute: Attribute,
    pub before: String,
    /// The value that is written.
    pub after: String,
}

impl NotedDevice {
    /// Whether it is about a device and a queue of the same device.
    fn is_possible(&self) -> bool {
        let device = name::device(&self.device);
        let of = name::part("wq", &self.queue).map(|(device, _)| device);
        device.is_some() && device == of
    }

    /// Whether a change is of a part of this device, and has values that the attribute can have.
    fn can_have(&self, change: &AttributeChange) -> bool {
        let AttributeChange { part, attribute, before, after } = change;
        let is_part = name::device(&self.device).is_some_and(|number| is_part_of(number, part));
        let is_own = is_part && (!part.starts_with("wq") || *part == self.queue);
        is_own && attribute.takes(before) && attribute.takes(after)
    }
}

/// The notes that have not been undone. Root may read what another user has written, so nothing but names of parts of
/// the device and possible values are taken from it.
///
/// # Errors
/// The note cannot be read.
pub fn records(journal: &Journal<Vec<NotedDevice>>) -> Result<Vec<NotedDevice>, Error> {
    let noted = journal.noted()?.unwrap_or_default().into_iter().filter(NotedDevice::is_possible);
    let trusted = noted.map(|mut record| {
        let noted = mem::take(&mut record.changes).into_iter();
        record.changes = noted.filter(|change| record.can_have(change)).collect();
        record
    });
    Ok(trusted.collect())
}

/// Notes that a device is about to be changed.
///
/// # Errors
/// The note cannot be read or written.
pub fn begin(journal: &mut Journal<Vec<NotedDevice>>, record: &NotedDevice) -> Result<(), Error> {
    let mut all = records(journal)?;
    all.push(record.clone());
    journal.note(&all)
}

/// Notes that the changes of a device have been undone.
///
/// # Errors
/// The note cannot be read or written.
pub fn end(journal: &mut Journal<Vec<NotedDevice>>, device: &str) -> Result<(), Error> {
    let mut all = records(journal)?;
    all.retain(|record| record.device != device);
    if all.is_empty() { journal.forget() } else { journal.note(&all) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_host::fake::Fake;

    #[test]
    fn nothing_but_parts_of_the_device_is_taken_from_a_note() {
        let host = Fake::new();
        host.write("run/numaloc/other", "");
        let noted = |record: NotedDevice| {
            let journal = Journal::take(&host.roots(), "dsa").expect("it can be written");
            let mut journal = journal.expect("it is free");
            journal.note(&vec![record]).expect("it can be written");
            records(&journal).expect("it can be read")
        };
        let record = |device: &str, queue: &str, changes: &[(&str, Attribute, &str, &str)]| {
            let change = |&(part, attribute, before, after): &(&str, Attribute, &str, &str)| {
                AttributeChange {
                    part: part.to_owned(),
                    attribute,
                    before: before.to_owned(),
                    after: after.to_owned(),
                }
            };
            let changes = changes.iter().map(change).collect();
            NotedDevice { device: device.to_owned(), queue: queue.to_owned(), changes }
        };
        let whole = [
            ("engine0.0", Attribute::Group, "-1", "0"),
            ("wq0.0", Attribute::Size, "0", "128"),
            ("wq0.0", Attribute::Name, "", "numaloc"),
        ];
        let whole = record("dsa0", "wq0.0", &whole);
        assert_eq!(noted(whole.clone()), [whole]);
        for wrong in [
            ("wq1.0", Attribute::Size, "0", "1"),
            ("wq0.1", Attribute::Size, "0", "1"),
            ("../../x", Attribute::Size, "0", "1"),
            ("wq0.0", Attribute::Size, "x", "1"),
            ("wq0.0", Attribute::Type, "mdev", "kernel"),
            ("wq0.0", Attribute::Name, "../x", "numaloc"),
        ] {
            let records = noted(record("dsa0", "wq0.0", &[wrong]));
            assert!(records.len() == 1 && records[0].changes.is_empty(), "{wrong:?}: {records:?}");
        }
        assert_eq!(noted(record("dsa0", "wq1.0", &[])), []);
        assert_eq!(noted(record("../dsa0", "wq0.0", &[])), []);
    }
}
