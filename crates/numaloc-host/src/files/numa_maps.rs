//! Memory policies and hugetlb page sizes from /proc/PID/numa_maps (fs/proc/task_mmu.c, `show_numa_map`).
//!
//! The module `placement` says what a line costs, and decides which lines are worth it. The kernel releases its lock
//! when the buffer of a read is full (fs/seq_file.c, `seq_read_iter`). A read as small as a line holds the lock for one
//! VMA at a time, a read of a page of lines for about forty.

use crate::Error;
use numaloc_core::{Mempolicy, NodeId, number, page_size};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// Its name in the directory of a process.
pub const FILE: &str = "numa_maps";

/// The content of a line on a VMA, beside the page counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// First address of the VMA.
    pub start: u64,
    /// The policy in force there: the VMA's own, else the process's.
    pub policy: Mempolicy,
    /// Page size in bytes if it is hugetlb memory.
    pub hugetlb_bytes: Option<u64>,
}

/// Number of VMAs that the kernel walks before it releases its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// One, or two where their lines are short.
    One,
    /// The VMAs whose lines fill a page. For VMAs that can all together be walked in a very short time.
    Many,
}

impl AtOnce {
    fn bytes(self) -> usize {
        match self {
            Self::One => 64,
            Self::Many => number::index(page_size()),
        }
    }
}

/// Reads lines from the beginning up to that of the VMA that holds `last`, which is asked for before each line. If `last` is not the
/// start of the VMA, the line behind it is read, too. Lines that are not understood are left out. `at_once` gives how many lines are
/// read behind that of the VMA with this first address; `None`: from the beginning.
///
/// # Errors
/// [`Error::Read`]; [`Error::Stopped`] if `stop` returns true between two lines.
pub fn up_to(
    path: &Path,
    last: &dyn Fn() -> u64,
    at_once: &dyn Fn(Option<u64>) -> AtOnce,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Placement>, Error> {
    let mut lines = FileLines::open(path)?;
    let mut placements: Vec<Placement> = Vec::new();
    while placements.last().is_none_or(|placement| placement.start < last()) {
        if stop() {
            return Err(Error::Stopped);
        }
        let before = placements.last().map(|placement| placement.start);
        let Some(line) = lines.next(|| at_once(before).bytes())? else { break };
        placements.extend(parse_line(&line));
    }
    Ok(placements)
}

/// Base pages of a VMA by node, if it is not hugetlb memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages by node; the kernel leaves out that of zeros.
    pub nodes: BTreeMap<NodeId, u64>,
    /// Whether any of them is mapped more than once.
    pub is_shared: bool,
}

/// The counts of all VMAs, by their first addresses. Lines that are not understood are left out. `at_once` as in [`up_to`].
///
/// # Errors
/// [`Error::Read`]; [`Error::Stopped`] if `stop` returns true between two lines.
pub fn counts(
    path: &Path,
    at_once: &dyn Fn(Option<u64>) -> AtOnce,
    stop: &dyn Fn() -> bool,
) -> Result<BTreeMap<u64, Counts>, Error> {
    let mut lines = FileLines::open(path)?;
    let (mut all, mut before) = (BTreeMap::new(), None);
    while let Some(line) = lines.next(|| at_once(before).bytes())? {
        if stop() {
            return Err(Error::Stopped);
        }
        let counted = counts_of(&line);
        before = counted.as_ref().map(|&(start, _)| start).or(before);
        all.extend(counted);
    }
    Ok(all)
}

/// `mapmax` is there where it is more than 1 (fs/proc/task_mmu.c, `show_numa_map`).
fn counts_of(line: &str) -> Option<(u64, Counts)> {
    let mut words = line.split(' ');
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let mut counts = Counts::default();
    for word in words {
        let Some((key, value)) = word.split_once('=') else { continue };
        counts.is_shared |= key == "mapmax";
        let node = key.strip_prefix('N').and_then(|node| node.parse().ok());
        if let (Some(node), Ok(pages)) = (node, value.parse::<u64>()) {
            *counts.nodes.entry(NodeId(node)).or_default() += pages;
        }
    }
    Some((start, counts))
}

/// The first line alone, without a look at the VMA behind it; `None` if it is not understood.
///
/// # Errors
/// [`Error::Read`]
pub fn first(path: &Path) -> Result<Option<Placement>, Error> {
    // A larger read may reach into the second line, and make the kernel walk the VMA of the second line.
    Ok(FileLines::open(path)?.next(|| 1)?.as_deref().and_then(parse_line))
}

/// The file's lines.
struct FileLines<'a> {
    path: &'a Path,
    file: File,
    /// What was read, and how much of it was given out as lines.
    text: Vec<u8>,
    given: usize,
}

impl<'a> FileLines<'a> {
    fn open(path: &'a Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::Read { path: path.into(), source })?;
        Ok(Self { path, file, text: Vec::new(), given: 0 })
    }

    /// The next line. If it has to be read, at most so many bytes at a time.
    fn next(&mut self, at_once: impl Fn() -> usize) -> Result<Option<String>, Error> {
        let mut searched = self.given;
        loop {
            if let Some(length) = self.text[searched..].iter().position(|&byte| byte == b'\n') {
                let line = &self.text[self.given..searched + length];
                let line = String::from_utf8_lossy(line).into_owned();
                self.given = searched + length + 1;
                return Ok(Some(line));
            }
            self.text.drain(..self.given);
            self.given = 0;
            searched = self.text.len();
            self.text.resize(searched + at_once(), 0);
            let read = self.file.read(&mut self.text[searched..]);
            self.text.truncate(searched + read.as_ref().map_or(0, |&count| count));
            match read {
                Ok(0) => return Ok(None),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(Error::Read { path: self.path.into(), source: error });
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
}

fn parse_line(line: &str) -> Option<Placement> {
    let (start, rest) = line.split_once(' ')?;
    // "prefer (many):0-1" and "weighted interleave:0" hold a blank.
    let blank =
        ["prefer (many)", "weighted interleave"].iter().find(|mode| rest.starts_with(**mode));
    let mode_bytes = blank.map_or(0, |mode| mode.len());
    let policy_bytes = rest[mode_bytes..].find(' ').map_or(rest.len(), |end| mode_bytes + end);
    let (policy, rest) = rest.split_at(policy_bytes);
    let mut hugetlb = false;
    let mut kernel_kb = None;
    for word in rest.split(' ') {
        hugetlb |= word == "huge";
        if let Some(kb) = word.strip_prefix("kernelpagesize_kB=") {
            kernel_kb = kb.trim().parse::<u64>().ok();
        }
    }
    Some(Placement {
        start: u64::from_str_radix(start, 16).ok()?,
        policy: policy.parse().unwrap_or_default(),
        hugetlb_bytes: kernel_kb.filter(|_| hugetlb).map(|kb| kb << 10),
    })
}

/// The placement of the VMA that holds `address`: the last one that starts at or below it. `maps` and `numa_maps` are
/// read at different times, so they can disagree on where VMAs begin.
pub fn at(placements: &[Placement], address: u64) -> Option<&Placement> {
    let after = placements.partition_point(|placement| placement.start <= address);
    after.checked_sub(1).map(|index| &placements[index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn pages_are_counted_by_node() {
        let of = |line| {
            counts_of(line).map(|(start, Counts { nodes, is_shared })| {
                (
                    start,
                    nodes.into_iter().map(|(node, pages)| (node.0, pages)).collect::<Vec<_>>(),
                    is_shared,
                )
            })
        };
        let line = "7f0000000000 default anon=15 dirty=15 active=0 N0=12 N1=3 kernelpagesize_kB=4";
        assert_eq!(of(line), Some((0x7f00_0000_0000, vec![(0, 12), (1, 3)], false)));
        assert_eq!(of("1000 bind:0 anon=7 mapmax=2 N8=7"), Some((0x1000, vec![(8, 7)], true)));
        assert_eq!(of("1000 default"), Some((0x1000, vec![], false)));
        assert_eq!(of("nonsense"), None);
    }

    const TEXT: &str = "\
55d1c000 default file=/usr/bin/a\\040b mapped=3 mapmax=2 N0=3 kernelpagesize_kB=4
7f0000000000 bind:1 anon=512 dirty=512 N1=512 kernelpagesize_kB=4
7f0000400000 prefer (many):0-1 huge anon=2 dirty=2 N1=2 kernelpagesize_kB=2048
7f0000900000 weighted interleave:0 anon=1 N0=1 kernelpagesize_kB=4
7f0000a00000 default huge
nonsense
";

    fn parse() -> Vec<Placement> {
        TEXT.lines().filter_map(parse_line).collect()
    }

    #[test]
    fn lines_are_read_as_far_as_they_are_wanted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), TEXT).unwrap();
        let all = parse();
        let read = |last| {
            let [one, many] = [AtOnce::One, AtOnce::Many]
                .map(|at_once| up_to(file.path(), &|| last, &|_| at_once, &|| false).unwrap());
            assert_eq!(one, many);
            one
        };
        assert_eq!(read(0x55d1_c000), all[..1]);
        assert_eq!(read(0x7f00_0040_0000), all[..3]);
        assert_eq!(read(0x7f00_0041_0000), all[..4]);
        assert_eq!(read(u64::MAX), all);
        assert_eq!(first(file.path()).unwrap().as_ref(), all.first());
        let stopped = up_to(file.path(), &|| 0, &|_| AtOnce::One, &|| true);
        assert!(matches!(stopped, Err(Error::Stopped)));
    }

    #[test]
    fn how_much_is_read_depends_on_the_line_before() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), TEXT).unwrap();
        let asked = RefCell::new(Vec::new());
        let at_once = |after: Option<u64>| {
            asked.borrow_mut().push(after);
            if after.is_some() { AtOnce::Many } else { AtOnce::One }
        };
        assert_eq!(up_to(file.path(), &|| u64::MAX, &at_once, &|| false).unwrap(), parse());
        let asked = asked.into_inner();
        // The first line takes two reads of 64 bytes, and all others one of a page.
        assert_eq!(asked[..3], [None, None, Some(0x55d1_c000)]);
        assert!(asked[3..].iter().all(|after| *after == Some(0x7f00_00a0_0000)), "{asked:?}");
    }

    #[test]
    fn lines_are_understood() {
        let placements = parse();
        assert_eq!(placements.len(), 5);
        assert_eq!(placements[0].policy, Mempolicy::Default);
        assert_eq!(placements[1].policy, Mempolicy::Bind("1".parse().unwrap()));
        assert_eq!(placements[2].policy, Mempolicy::Preferred("0-1".parse().unwrap()));
        assert_eq!(placements[2].hugetlb_bytes, Some(2 << 20));
        assert_eq!(placements[3].policy, Mempolicy::Interleave("0".parse().unwrap()));
        assert_eq!(placements[4].hugetlb_bytes, None);
    }

    #[test]
    fn addresses_are_found_in_the_vma_below() {
        let placements = parse();
        assert_eq!(at(&placements, 0x1000), None);
        assert_eq!(at(&placements, 0x7f00_0000_0000).unwrap().start, 0x7f00_0000_0000);
        assert_eq!(at(&placements, 0x7f00_0010_0000).unwrap().start, 0x7f00_0000_0000);
    }
}
