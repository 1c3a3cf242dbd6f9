//! Work under way at this moment, in a file beside the store: a daemon that dies finds at its next start what may have
//! ended it.
//!
//! The file is not synchronized. It outlives the process, which suffices here: after a crash of the host nothing in it
//! says that it was the daemon that ended.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{Read, Write as _},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

const NAME: &str = "numalocd.under-way";
/// Most bytes of the file that are read. There are few dozens of lines in it.
const MOST: u64 = 64 << 10;

/// Something that the engine does for a record, by the record's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A probe of a schedule, or a run of it.
    Schedule(u64),
    /// A job of a client.
    Job(u64),
}

/// Number of times in a row that a daemon has ended while this was under way, and whether it is under way now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Noted {
    ends: u32,
    is_under_way: bool,
}

/// Work under way, and how often a daemon has ended meanwhile.
#[derive(Debug)]
pub struct UnderWay {
    path: PathBuf,
    /// `None`: nothing has been noted yet, or the disk is full. Then nothing is noted.
    file: Option<File>,
    noted: BTreeMap<Work, Noted>,
}

impl UnderWay {
    /// Reads what the last daemon has left in the state directory `dir`.
    pub fn open(dir: &Path) -> Self {
        let path = dir.join(NAME);
        let file = options().open(&path).ok();
        let mut text = String::new();
        if let Some(file) = &file {
            // Unreadable text was not written here: nothing is noted then.
            let _ = file.take(MOST).read_to_string(&mut text);
        }
        let mut noted: BTreeMap<Work, Noted> = text.lines().filter_map(line).collect();
        for left in noted.values_mut().filter(|noted| noted.is_under_way) {
            *left = Noted { ends: left.ends.saturating_add(1), is_under_way: false };
        }
        let mut under_way = Self { path, file, noted };
        under_way.write();
        under_way
    }

    /// Number of times in a row that a daemon has ended while this was under way.
    pub fn ends(&self, work: Work) -> u32 {
        self.noted.get(&work).map_or(0, |noted| noted.ends)
    }

    /// Work that a daemon has ended with, in the order of numbers.
    pub fn left(&self) -> impl Iterator<Item = (Work, u32)> {
        let left = self.noted.iter().filter(|(_, noted)| noted.ends > 0);
        left.map(|(&work, noted)| (work, noted.ends))
    }

    pub fn begin(&mut self, work: Work) {
        self.noted.entry(work).or_default().is_under_way = true;
        self.write();
    }

    /// Notes that this has ended, and the daemon has not.
    pub fn end(&mut self, work: Work) {
        if self.noted.remove(&work).is_some() {
            self.write();
        }
    }

    /// Notes that the daemon ends as it is to end: nothing that is under way has ended it.
    pub fn stop(&mut self) {
        self.noted.values_mut().for_each(|noted| noted.is_under_way = false);
        self.noted.retain(|_, noted| noted.ends > 0);
        self.write();
        if self.noted.is_empty() && self.file.take().is_some() {
            // It says nothing any more: if it stays, nothing is lost.
            let _ = fs::remove_file(&self.path);
        }
    }

    fn write(&mut self) {
        if self.file.is_none() && !self.noted.is_empty() {
            self.file = options().create(true).open(&self.path).ok();
        }
        let Some(file) = &self.file else { return };
        let mut text = Vec::new();
        for (work, Noted { ends, is_under_way }) in &self.noted {
            let (kind, number) = match work {
                Work::Schedule(number) => ("schedule", number),
                Work::Job(number) => ("job", number),
            };
            let state = if *is_under_way { "under-way" } else { "waits" };
            // Writing to memory does not fail.
            let _ = writeln!(text, "{kind} {number} {ends} {state}");
        }
        // Without room nothing is noted, and the daemon continues.
        let _ = file.set_len(0).and_then(|()| file.write_all_at(&text, 0));
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).truncate(false).mode(0o600);
    options.custom_flags(nix::libc::O_NOFOLLOW);
    options
}

fn line(line: &str) -> Option<(Work, Noted)> {
    let [kind, number, ends, state] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let number = number.parse().ok()?;
    let work = match kind {
        "schedule" => Work::Schedule(number),
        "job" => Work::Job(number),
        _ => return None,
    };
    Some((work, Noted { ends: ends.parse().ok()?, is_under_way: state == "under-way" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_under_way_when_the_daemon_died_is_known() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, other, job) = (Work::Schedule(7), Work::Schedule(8), Work::Job(7));
        let mut under_way = UnderWay::open(dir.path());
        [one, other, job].into_iter().for_each(|work| under_way.begin(work));
        under_way.end(other);
        // It dies twice with the first, and comes to the end of the job.
        let mut under_way = UnderWay::open(dir.path());
        assert_eq!(under_way.left().collect::<Vec<_>>(), [(one, 1), (job, 1)]);
        under_way.begin(job);
        under_way.end(job);
        under_way.begin(one);
        let mut under_way = UnderWay::open(dir.path());
        assert_eq!([one, other, job].map(|work| under_way.ends(work)), [2, 0, 0]);
        // A stop counts for nothing, and forgets nothing.
        under_way.begin(one);
        under_way.begin(other);
        under_way.stop();
        let mut under_way = UnderWay::open(dir.path());
        assert_eq!(under_way.left().collect::<Vec<_>>(), [(one, 2)]);
        under_way.end(one);
        assert_eq!(UnderWay::open(dir.path()).left().count(), 0);
    }

    #[test]
    fn nonsense_in_the_file_is_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let text = b"schedule x 1 under-way\njob 1\nschedule 5 1 under-way\n\xff\n";
        std::fs::write(dir.path().join(NAME), text).expect("room");
        assert_eq!(UnderWay::open(dir.path()).left().count(), 0, "it is not text");
        std::fs::write(dir.path().join(NAME), &text[..text.len() - 2]).expect("room");
        let left: Vec<_> = UnderWay::open(dir.path()).left().collect();
        assert_eq!(left, [(Work::Schedule(5), 2)]);
        assert_eq!(UnderWay::open(Path::new("/nonexistent")).left().count(), 0);
    }
}
