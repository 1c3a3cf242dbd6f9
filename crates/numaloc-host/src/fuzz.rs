//! Entry points of the fuzz targets: bytes in the place of files of the kernel. A panic here is a defect.
//!
//! The files are real ones of a fake host. It lies in the directory for temporary files, and stays there: a program that fuzzes ends
//! without cleaning up.

use crate::{
    Precision, Scanned, Scanner,
    changes::resctrl::format,
    fake::Fake,
    files::{
        maps,
        numa_maps::{self, AtOnce},
        pagemap::Entry,
    },
    survey::{
        page_access::{PageAccess, Source},
        space::AddressSpace,
    },
};
use numaloc_core::{Claim, Claims, Mappers, Mapping, NodeId, Notation, Pages, page_size};
use std::fs;

/// The two processes of the host.
const PIDS: [i32; 2] = [100, 200];

/// Bytes of an entry of a page map, and of a count.
const ENTRY: usize = 8;

/// A host of two nodes, with two processes that map the same memory.
struct Scene {
    fake: Fake,
    page_access: PageAccess,
    spaces: Vec<AddressSpace>,
    claims: Claims,
}

thread_local! {
    /// Made once: that takes longer than what is tried on it.
    static SCENE: Scene = Scene::new();
}

/// `bytes` as numa_maps, and as maps, of a process.
///
/// # Panics
/// The result depends on the way of reading.
pub fn numa_maps(bytes: &[u8]) {
    SCENE.with(|scene| {
        let path = scene.fake.path(&format!("proc/{}/numa_maps", PIDS[0]));
        fs::write(&path, bytes).expect("a file");
        let [one, many] = [AtOnce::One, AtOnce::Many].map(|at_once| {
            numa_maps::up_to(&path, &|| u64::MAX, &|_| at_once, &|| false)
                .expect("a file can be read")
        });
        assert_eq!(one, many, "how much is read at once makes a difference");
        let first = numa_maps::first(&path).expect("a file can be read");
        assert!(first.is_none() || first.as_ref() == one.first(), "the first line is another one");
        for placement in &one {
            numa_maps::at(&one, placement.start);
        }
    });
    for line in String::from_utf8_lossy(bytes).lines() {
        if let Some(vma) = maps::parse_line(line) {
            assert!(vma.start < vma.end, "{vma:?}");
        }
    }
}

/// `bytes` as the schemata of a group of resctrl.
///
/// # Panics
/// A value is read that is not in the text.
pub fn schemata(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for (resource, notation) in [("MB", Notation::Number), ("L3", Notation::Mask)] {
        for (domain, value) in format::parse(&text, resource, notation).into_iter().flatten() {
            let digits = notation.format(value);
            let is_there =
                text.to_lowercase().contains(&digits) && text.contains(&domain.to_string());
            assert!(is_there, "{resource}: {domain}={digits}");
        }
    }
}

/// A third of `bytes` as the page map of a process, another as that of the process beside it, and the last as the counts of page frames.
///
/// # Panics
/// A scan shows what is not in its range, or shows it twice.
pub fn pagemap(bytes: &[u8]) {
    let pages = bytes.len() / ENTRY / 3;
    if pages > 0 {
        SCENE.with(|scene| {
            scene.put(&bytes[..3 * pages * ENTRY], pages);
            for precision in [Precision::Exact, Precision::Sampled] {
                for wanted in [Pages::All, Pages::Own] {
                    scene.scan_one(precision, &wanted, pages);
                    scene.scan_both(precision, &wanted, pages);
                }
                scene.scan_both(precision, &Pages::Common(scene.claims.of([0, 1])), pages);
            }
        });
    }
}

impl Scene {
    fn new() -> Self {
        let fake = Fake::new();
        fake.write("sys/devices/system/node/online", "0-1");
        fake.write("sys/devices/system/memory/block_size_bytes", "8000000");
        for node in 0..2 {
            fake.write(&format!("sys/devices/system/node/node{node}/memory{node}/online"), "1");
        }
        fake.write("proc/kpagecount", "");
        for pid in PIDS {
            fake.process(pid, "app", &["0"]);
        }
        let page_access = PageAccess::new(&fake.roots()).expect("two nodes");
        let page_access = PageAccess { source: Source::Pagemap, ..page_access };
        let spaces = PIDS.map(|pid| fake.space(pid)).into();
        let claim = |node| Claim {
            home: [NodeId(node)].into_iter().collect(),
            allowed: [NodeId(0), NodeId(1)].into_iter().collect(),
            ..Claim::default()
        };
        Self { fake, page_access, spaces, claims: [claim(0), claim(1)].into_iter().collect() }
    }

    /// Writes the three files. Most frames are made to be among the few that the host has, so that they meet.
    fn put(&self, bytes: &[u8], pages: usize) {
        // Bit 57 is always 0 in what kernels write.
        let near = |entry: u64| match (entry >> 57 & 1, Entry(entry).pfn()) {
            (0, pfn) => entry - pfn + (pfn & 0x80ff),
            _ => entry,
        };
        let words = bytes
            .chunks_exact(ENTRY)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
        let words: Vec<u64> = words.collect();
        let file = |path: &str, words: Vec<u64>| {
            let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
            fs::write(self.fake.path(path), bytes).expect("a file");
        };
        for (pid, entries) in PIDS.iter().zip(words.chunks_exact(pages)) {
            file(&format!("proc/{pid}/pagemap"), entries.iter().copied().map(near).collect());
        }
        file("proc/kpagecount", words[2 * pages..].to_vec());
    }

    fn scanner(&self, precision: Precision) -> Scanner {
        Scanner::new(&self.fake.roots(), &self.page_access, precision)
    }

    fn scanned<'a>(&'a self, mappings: &'a [Mapping], pages: &'a Pages) -> Scanned<'a> {
        Scanned {
            spaces: &self.spaces,
            claims: &self.claims,
            mappings,
            pages,
            mappers: Mappers::Counted,
            hugetlb_bytes: None,
            ruled_out: Default::default(),
        }
    }

    /// One mapping: its pages come in order.
    fn scan_one(&self, precision: Precision, wanted: &Pages, pages: usize) {
        let (mut at, end) = (0, pages as u64 * page_size());
        let mappings = [Mapping { process: 0, start: 0 }];
        let mut scanner = self.scanner(precision);
        let done = scanner.scan(&self.scanned(&mappings, wanted), 0..end, &mut |run| {
            assert!(run.offset >= at && run.bytes > 0, "{run:?} comes again, or is empty");
            at = run.offset + run.bytes;
            assert!(at <= end, "{run:?} is out of range");
            assert_eq!(run.entries.len() as u64 * page_size(), run.bytes, "{run:?}");
        });
        done.expect("a file can be read");
        let mut places = Vec::new();
        let located = scanner.locate(&self.spaces[0], 0, pages, &mut places);
        located.expect("a file can be read");
        assert_eq!(places.len(), pages);
    }

    /// Two mappings of the same memory.
    fn scan_both(&self, precision: Precision, wanted: &Pages, pages: usize) {
        let end = pages as u64 * page_size();
        let mappings = [0, 1].map(|process| Mapping { process, start: 0 });
        let scanned = self.scanned(&mappings, wanted);
        let done = self.scanner(precision).scan(&scanned, 0..end, &mut |run| {
            assert!(run.bytes > 0 && run.offset + run.bytes <= end, "{run:?} is out of range");
            assert!(run.mapping < mappings.len(), "{run:?} is of no mapping");
        });
        done.expect("a file can be read");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_kernel_and_others() {
        numa_maps(b"55d1c000 default file=/a mapped=3 N0=3 kernelpagesize_kB=4\n7f00 prefer (many):0-1 huge\n");
        numa_maps(b"7f1c00000000-7f1c00021000 rw-p 00000000 00:00 0 \n2000-1000 rw-p 0 00:00 0\n");
        for text in
            ["", "\n", "0 ", "ffffffffffffffff default\n1 default\n", "\0 \u{e9}\n1 bind:0-"]
        {
            numa_maps(text.as_bytes());
        }
        numa_maps(&[0xff; 100]);
    }

    #[test]
    fn schemata_of_a_kernel_and_others() {
        for text in
            ["    MB:0=100;17= 10\n    L3:0=7FF;17=f\n", "", "MB:0=;=1;1", "L3:0=x\n", "MB:1=007\n"]
        {
            schemata(text.as_bytes());
        }
        schemata(&[0xff; 100]);
    }

    #[test]
    fn page_maps_of_a_kernel_and_others() {
        let (present, exclusive) = (1u64 << 63, 1u64 << 56);
        let own = [present | exclusive | 7, 0, present | 8, present | 0x8001];
        let other = [0, present | 9, present | 8, present | 0x8001];
        let counts = [0, 0, 2, 1];
        pagemap(
            &[own, other, counts]
                .concat()
                .into_iter()
                .flat_map(u64::to_ne_bytes)
                .collect::<Vec<_>>(),
        );
        for bytes in
            [vec![], vec![1_u8; 23], vec![0; 24], vec![0xff; 24 * 600], vec![0x81; 24 * 600]]
        {
            pagemap(&bytes);
        }
    }
}
