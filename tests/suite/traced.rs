//! What programs ask the kernel about page maps, by probes in the kernel (Documentation/trace/kprobetrace.rst).

use numaloc_core::page_size;
use std::{fs, ops::Range, path::Path};

const TRACING: &str = "/sys/kernel/tracing";
/// `pagemap_read` and `do_pagemap_cmd` (fs/proc/task_mmu.c): the third and fourth argument; of `struct pm_scan_arg` the fields `start` and
/// `end` (include/uapi/linux/fs.h).
const READ: &str = "p:numaloc/page_map_read pagemap_read at=+0(%cx):u64 bytes=%dx:u64";
const SCAN: &str = "p:numaloc/page_map_scan do_pagemap_cmd start=+u16(%dx):u64 end=+u24(%dx):u64";

fn write(file: &str, text: &str) {
    let path = Path::new(TRACING).join(file);
    fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Probes that are in the kernel as long as this value lives.
#[derive(Debug)]
pub struct PageMapReads;

impl PageMapReads {
    pub fn begin() -> Self {
        write("kprobe_events", READ);
        // Linux 6.7 and later.
        let all = Path::new(TRACING).join("kprobe_events");
        let _ = fs::OpenOptions::new().append(true).open(all).and_then(|mut file| {
            use std::io::Write as _;
            file.write_all(SCAN.as_bytes())
        });
        write("trace", "");
        write("events/numaloc/enable", "1");
        Self
    }

    /// The addresses whose entries anyone has asked for, in whatever process.
    pub fn end(self) -> Vec<Range<u64>> {
        write("events/numaloc/enable", "0");
        let text = fs::read_to_string(Path::new(TRACING).join("trace")).expect("a trace");
        text.lines().filter_map(range).collect()
    }
}

impl Drop for PageMapReads {
    fn drop(&mut self) {
        write("events/numaloc/enable", "0");
        write("kprobe_events", "");
    }
}

/// `numalocctl-71 [002] ..... 9.1: page_map_read: (pagemap_read+0x0/0x3a0) at=274871889920 bytes=4096`.
fn range(line: &str) -> Option<Range<u64>> {
    let value = |name: &str| -> Option<u64> {
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(name))?;
        word.parse().ok()
    };
    if line.contains(" page_map_read: ") {
        let (at, bytes) = (value("at=")?, value("bytes=")?);
        return Some(at / 8 * page_size()..(at + bytes) / 8 * page_size());
    }
    Some(value("start=")?..value("end=")?)
}
