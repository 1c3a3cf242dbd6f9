//! Files on the disk of the emulated machine, and page cache.

use crate::cpus::pinned;
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Drops the page cache that is clean.
pub fn drop_cache() {
    fs::write("/proc/sys/vm/drop_caches", "1").expect("root");
}

/// A file on the disk, removed at the end.
#[derive(Debug)]
pub struct OnDisk(PathBuf);

impl OnDisk {
    /// Names a file that does not exist yet.
    pub fn named(name: &str) -> Self {
        Self(Path::new("/mnt/disk").join(name))
    }

    /// Writes a file of this many MiB. None of it stays in page cache.
    pub fn new(name: &str, mib: u64) -> Self {
        let disk = Self::named(name);
        let mut file = File::create(&disk.0).expect("the disk has room");
        let block = vec![7; 1 << 20];
        (0..mib).for_each(|_| file.write_all(&block).expect("the disk has room"));
        file.sync_all().expect("the disk works");
        drop_cache();
        disk
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads it once on a CPU of a node, whose memory its pages come to as long as there is some.
    ///
    /// # Panics
    /// It cannot be read.
    pub fn read(&self, node: u32) {
        assert!(self.reader(node, "cat \"$0\"").wait().expect("it ends").success());
    }

    /// A shell command that has its path as `$0`, on the CPUs of a node.
    pub fn reader(&self, node: u32, command: &str) -> Child {
        let mut reader = Command::new("sh");
        reader.args(["-c", command]).arg(&self.0).stdout(Stdio::null());
        pinned(node, || reader.spawn()).expect("a shell")
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
