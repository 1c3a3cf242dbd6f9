//! What has been changed on devices, as it is noted before the change: lines of words that are separated by tabs.
//!
//! | line | meaning |
//! |---|---|
//! | `device dsa0 wq0.0` | this device gets this queue; what follows belongs to it |
//! | `set wq0.0 size 0 128` | an attribute, its value before, and the new one |
//! | `begin dsa0` | all of that is noted, and may be changed from now on |
//! | `end dsa0 .` | all of that has been undone |
//!
//! Lines are only added, so that whatever is noted is safe. A line without an end was being written when the process was killed or the
//! file system was full: nothing had been changed yet on its behalf. What is added begins with an end of line, and the last word is
//! there, so that no part of a line is taken for one.

use super::{
    name,
    step::{Attribute, is_part_of},
};
use std::fmt::Write;

/// What is changed on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The device.
    pub device: String,
    /// The queue.
    pub queue: String,
    /// Its attributes and those of engines, in the order in which they are written.
    pub changes: Vec<Change>,
}

/// A change of one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The engine or queue.
    pub part: String,
    /// The attribute.
    pub attribute: Attribute,
    /// Its value before.
    pub before: String,
    /// The value that is written.
    pub after: String,
}

impl Record {
    /// The lines that note it.
    pub fn lines(&self) -> String {
        let mut text = format!("\ndevice\t{}\t{}\n", self.device, self.queue);
        for Change { part, attribute, before, after } in &self.changes {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "set\t{part}\t{}\t{before}\t{after}", attribute.file());
        }
        text + &format!("begin\t{}\n", self.device)
    }

    /// The line that notes that it has been undone.
    pub fn end(&self) -> String {
        format!("\nend\t{}\t.\n", self.device)
    }
}

/// What is noted and has not been undone. Lines that make no sense are passed over: root may read what another user has written,
/// so nothing but names of parts of that device and possible values are taken from it.
pub fn records(text: &str) -> Vec<Record> {
    let (mut open, mut begun): (Option<Record>, Vec<Record>) = (None, Vec::new());
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in complete.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words.as_slice() {
            ["device", device, queue] => open = record(device, queue),
            ["set", part, attribute, before, after] => {
                if let Some(record) = &mut open
                    && let Some(change) = change(record, part, attribute, before, after)
                {
                    record.changes.push(change);
                }
            }
            ["begin", device] => begun.extend(open.take().filter(|open| open.device == *device)),
            ["end", device, "."] => begun.retain(|record| record.device != *device),
            _ => {}
        }
    }
    begun
}

fn record(device: &str, queue: &str) -> Option<Record> {
    let number = name::device(device)?;
    let (of, _) = name::part("wq", queue)?;
    let [device, queue] = [device, queue].map(str::to_owned);
    (of == number).then_some(Record { device, queue, changes: Vec::new() })
}

fn change(
    record: &Record,
    part: &str,
    attribute: &str,
    before: &str,
    after: &str,
) -> Option<Change> {
    let attribute = Attribute::of(attribute)?;
    let number = name::device(&record.device)?;
    let is_own = is_part_of(number, part) && (!part.starts_with("wq") || part == record.queue);
    let fits = is_own && attribute.takes(before) && attribute.takes(after);
    let [part, before, after] = [part, before, after].map(str::to_owned);
    fits.then_some(Change { part, attribute, before, after })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(number: u32) -> Record {
        let change = |part: String, attribute, before: &str, after: &str| Change {
            part,
            attribute,
            before: before.into(),
            after: after.into(),
        };
        let queue = format!("wq{number}.1");
        Record {
            device: format!("dsa{number}"),
            changes: vec![
                change(format!("engine{number}.0"), Attribute::Group, "-1", "0"),
                change(queue.clone(), Attribute::Size, "0", "128"),
                change(queue.clone(), Attribute::Name, "", "numaloc"),
            ],
            queue,
        }
    }

    #[test]
    fn what_is_noted_is_read_again() {
        let (first, second) = (sample(0), sample(12));
        let text = first.lines() + &second.lines();
        assert_eq!(records(&text), [first.clone(), second.clone()]);
        assert_eq!(records(&(text.clone() + &first.end())), [second]);
        assert_eq!(records(""), []);
    }

    #[test]
    fn a_note_that_was_cut_off_has_changed_nothing() {
        let text = sample(0).lines();
        for length in 0..text.len() {
            assert_eq!(records(&text[..length]), [], "{}", &text[..length]);
        }
        // The end of the undoing was cut off, so it is done again.
        let end = sample(0).end();
        for length in 0..end.len() {
            assert_eq!(records(&(text.clone() + &end[..length])), [sample(0)], "{length}");
        }
    }

    #[test]
    fn what_is_added_after_a_line_that_was_cut_off_is_read() {
        let (first, second) = (sample(0).lines(), sample(12));
        for length in 0..first.len() {
            let found = records(&(first[..length].to_owned() + &second.lines()));
            assert_eq!(found.last(), Some(&second), "{length}");
        }
        let end = second.end();
        let [text, one] = [second.lines() + &sample(1).lines(), sample(3).lines()];
        for length in 0..end.len() - 1 {
            let found = records(&(text.clone() + &end[..length] + &one));
            assert_eq!(found.len(), 3, "{length}");
        }
    }

    #[test]
    fn nothing_but_parts_of_the_device_is_taken_from_a_note() {
        let note = |lines: &str| format!("device\tdsa0\twq0.0\n{lines}\nbegin\tdsa0\n");
        for lines in [
            "set\twq1.0\tsize\t0\t1",
            "set\twq0.1\tsize\t0\t1",
            "set\t../../x\tsize\t0\t1",
            "set\twq0.0\tcdev_minor\t0\t1",
            "set\twq0.0\tsize\tx\t1",
            "set\twq0.0\ttype\tmdev\tkernel",
            "set\twq0.0\tname\t../x\tnumaloc",
        ] {
            let records = records(&note(lines));
            assert!(records.len() == 1 && records[0].changes.is_empty(), "{lines}: {records:?}");
        }
        assert_eq!(records("device\tdsa0\twq1.0\nbegin\tdsa0\n"), []);
        assert_eq!(records("device\t../dsa0\twq0.0\nbegin\t../dsa0\n"), []);
    }
}
