//! Reads and writes the files below /sys/bus/dsa.

use super::name;
use numaloc_host::{Roots, journal, read};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Reads and writes of files below /sys/bus/dsa. Files are named from there: `devices/wq0.0/size`,
/// `drivers/idxd/bind`. It is a trait so that tests can have a driver that refuses as the kernel's does.
pub trait DsaBus {
    /// The names of all devices, queues, groups and engines.
    fn names(&self) -> BTreeSet<String>;
    /// The text of a file.
    ///
    /// # Errors
    /// The kernel's.
    fn read(&self, file: &str) -> io::Result<String>;
    /// Writes a file, in one call.
    ///
    /// # Errors
    /// The kernel's.
    fn write(&self, file: &str, value: &str) -> io::Result<()>;
    /// The driver that a device or queue is bound to.
    fn driver(&self, name: &str) -> Option<String>;
    /// A file's path, for messages.
    fn path(&self, file: &str) -> PathBuf;
}

/// The bus as the kernel shows it in sysfs.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// The bus in the sysfs of these roots.
    pub fn new(roots: &Roots) -> Self {
        Self { root: roots.sys.join("bus/dsa") }
    }

    /// Whether the bus is there.
    pub fn exists(&self) -> bool {
        self.root.is_dir()
    }

    /// The directory of a device or of one of its parts. A part also lies in the directory of its device; a recorded tree may have
    /// it there alone.
    fn directory(&self, name: &str) -> PathBuf {
        let devices = self.root.join("devices");
        let flat = devices.join(name);
        let parts = PARTS.iter().find_map(|prefix| name::part(prefix, name));
        match parts {
            Some((device, _)) if !flat.exists() => devices.join(format!("dsa{device}")).join(name),
            _ => flat,
        }
    }
}

const PARTS: [&str; 3] = ["wq", "group", "engine"];

impl DsaBus for Sysfs {
    fn names(&self) -> BTreeSet<String> {
        let devices = self.root.join("devices");
        let mut names = listed(&devices);
        let own: Vec<String> =
            names.iter().filter(|name| name::device(name).is_some()).cloned().collect();
        let is_part = |name: &String| PARTS.iter().any(|prefix| name::part(prefix, name).is_some());
        names.extend(own.iter().flat_map(|name| listed(&devices.join(name))).filter(is_part));
        names
    }

    fn read(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.path(file))
    }

    fn write(&self, file: &str, value: &str) -> io::Result<()> {
        // The kernel does not see a write of no bytes. It cuts the line's end off (drivers/dma/idxd/sysfs.c, `wq_name_store`).
        let text = if value.is_empty() { "\n" } else { value };
        journal::may_write()?;
        File::options().write(true).open(self.path(file))?.write_all(text.as_bytes())
    }

    fn driver(&self, name: &str) -> Option<String> {
        let link = fs::read_link(self.directory(name).join("driver")).ok()?;
        Some(link.file_name()?.to_str()?.to_owned())
    }

    fn path(&self, file: &str) -> PathBuf {
        match file.strip_prefix("devices/").and_then(|rest| rest.split_once('/')) {
            Some((name, attribute)) => self.directory(name).join(attribute),
            None => self.root.join(file),
        }
    }
}

fn listed(directory: &Path) -> BTreeSet<String> {
    read::entries(directory, |name| Some(name.to_owned())).into_keys().collect()
}
