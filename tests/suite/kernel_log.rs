//! The kernel's log while a test runs.

use std::{
    fs,
    io::{ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
};

/// Beginnings or parts of reports of defects: `BUG()`, `WARN()`, mm/page_alloc.c `bad_page`, mm/memory.c
/// `print_bad_pte`, memory that the OOM killer took back, and hung or stuck tasks.
const COMPLAINTS: [&str; 7] = [
    "BUG: ",
    "WARNING: ",
    "Oops",
    "general protection fault",
    "Bad page",
    "Out of memory",
    "blocked for more than",
];

/// The records of /dev/kmsg from a moment on.
#[derive(Debug)]
pub struct KernelLog {
    file: fs::File,
    text: String,
}

impl KernelLog {
    /// Leaves out all earlier records.
    pub fn from_now() -> Self {
        let mut options = fs::File::options();
        let file = options.read(true).custom_flags(nix::libc::O_NONBLOCK).open("/dev/kmsg");
        let mut log = Self { file: file.expect("the kernel's log"), text: String::new() };
        log.read();
        log.text.clear();
        log
    }

    /// All records so far. Each read(2) returns one. An error means that none is left, or (EPIPE) that some were
    /// overwritten.
    pub fn read(&mut self) -> &str {
        let mut record = [0; 8192];
        loop {
            match self.file.read(&mut record) {
                Ok(0) => break,
                Ok(bytes) => self.text.push_str(&String::from_utf8_lossy(&record[..bytes])),
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(_) => break,
            }
        }
        &self.text
    }

    /// Asserts that the kernel has reported no defect.
    pub fn assert_quiet(&mut self) {
        let reports = |line: &&str| COMPLAINTS.iter().any(|complaint| line.contains(complaint));
        let found: Vec<&str> = self.read().lines().filter(reports).collect();
        assert!(found.is_empty(), "the kernel complains: {found:#?}");
    }
}
