//! Kernels in a directory: the files of their interfaces, and a way to write them that refuses and clamps as their code does
//! (dcbm.c of the series and of trees that follow it; the switches of Alibaba Cloud Linux).

use super::super::{HostAccess, Offloading, session::NAME};
use crate::kernel::{self, Counters, Interface, Knob, Settings};
use numaloc_host::{Error, Roots, journal};
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

pub const BOOT: &str = "boot-1";
/// The names that dcbm's file `reason_mask` takes.
const REASONS: [&str; 3] = ["compaction", "demotion", "syscall_or_cpuset"];

/// A host in a directory.
pub struct Host(TempDir);

impl Host {
    fn new(directory: &str, files: &[(&str, &str)]) -> Self {
        let host = Self(tempfile::tempdir().expect("a directory"));
        host.boot(BOOT);
        host.write("sys/class/dma/dma0chan0", "in_use", "0");
        host.write("run", "some", "");
        files.iter().for_each(|(name, text)| host.write(directory, name, text));
        host
    }

    pub fn dcbm() -> Self {
        let files = [
            ("offloading", "0"),
            ("nr_dma_chan", "1"),
            ("reason_mask", "compaction,demotion,syscall_or_cpuset"),
            ("folios_migrated", "1000"),
            ("folios_failures", "5"),
        ];
        Self::new(super::DCBM, &files)
    }

    pub fn early() -> Self {
        Self::new(super::EARLY, &[("offloading", "0"), ("nr_dma_chan", "1")])
    }

    pub fn alibaba() -> Self {
        let files = [
            ("batch_migrate_enabled", "false"),
            ("dma_migrate_enabled", "false"),
            ("dma_migrate_polling", "true"),
            ("dma_migrate_min_pages", "32"),
        ];
        Self::new(super::ALIBABA, &files)
    }

    /// One whose kernel has no interface.
    pub fn plain() -> Self {
        Self::new("sys/kernel/mm", &[])
    }

    pub fn boot(&self, id: &str) {
        self.write("proc/sys/kernel/random", "boot_id", id);
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Writes a file as the kernel or another program would.
    pub fn write(&self, directory: &str, name: &str, text: &str) {
        let directory = self.path(directory);
        fs::create_dir_all(&directory).expect("directories");
        fs::write(directory.join(name), format!("{text}\n")).expect("a file");
    }

    /// The settings below a directory, without counters.
    pub fn settings(&self, directory: &str) -> String {
        let entries = fs::read_dir(self.path(directory)).expect("a directory");
        let mut lines: Vec<String> = entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| !path.to_string_lossy().contains("folios_"))
            .map(|path| {
                let text = fs::read_to_string(&path).expect("a file");
                format!("{}={}", path.file_name().expect("a name").display(), text.trim())
            })
            .collect();
        lines.sort();
        lines.join(" ")
    }

    pub fn roots(&self) -> Roots {
        Roots {
            proc: self.path("proc"),
            sys: self.path("sys"),
            run: self.path("run"),
            ..Roots::default()
        }
    }

    /// A new instance, as after a start of the daemon.
    pub fn offloading(&self) -> Offloading {
        // The tests look themselves.
        self.looked_at(Duration::from_secs(3600))
    }

    /// One that looks so often.
    pub fn looked_at(&self, look: Duration) -> Offloading {
        Offloading::with(self.roots(), HostAccess { find, look })
    }

    /// Where the journal has its file.
    pub fn file(&self) -> PathBuf {
        journal::path(&self.roots(), NAME)
    }

    pub fn is_noted(&self) -> bool {
        journal::is_noted(&self.roots(), NAME)
    }
}

/// The interface, with the kernel's rules.
pub fn find(roots: &Roots) -> Option<Box<dyn Interface>> {
    let roots = roots.clone();
    kernel::find(&roots).map(|files| Box::new(Ruled { files, roots }) as Box<dyn Interface>)
}

#[derive(Debug)]
struct Ruled {
    files: Box<dyn Interface>,
    roots: Roots,
}

impl Ruled {
    /// The most channels that this kernel takes: the number that a test sets, or the number of the series.
    fn channels(&self) -> u32 {
        let text = fs::read_to_string(self.roots.sys.join("channels")).unwrap_or_default();
        text.trim().parse().unwrap_or(16)
    }

    /// The value that the kernel makes of a written one.
    fn taken(&self, name: &str, value: &str) -> Result<String, ErrorKind> {
        let is_on = self.files.is_on().unwrap_or(false);
        let shown = |is_on: bool, names: [&str; 2]| names[usize::from(is_on)].to_owned();
        let switch = match value {
            "1" | "true" => Ok(true),
            "0" | "false" => Ok(false),
            _ => Err(ErrorKind::InvalidInput),
        };
        match name {
            "nr_dma_chan" => match value.parse::<u32>() {
                Ok(1..=16) if is_on => Err(ErrorKind::ResourceBusy),
                Ok(asked @ 1..=16) => Ok(asked.min(self.channels()).to_string()),
                _ => Err(ErrorKind::InvalidInput),
            },
            "reason_mask" => match value.split(',').all(|name| REASONS.contains(&name)) {
                true => Ok(value.to_owned()),
                false => Err(ErrorKind::InvalidInput),
            },
            "offloading" => match switch? {
                // Another module copies (migrate_offload_register).
                true if self.roots.sys.join("other").exists() => Err(ErrorKind::ResourceBusy),
                is_on => Ok(shown(is_on, ["0", "1"])),
            },
            _ => Ok(shown(switch?, ["false", "true"])),
        }
    }
}

impl Interface for Ruled {
    fn name(&self) -> &'static str {
        self.files.name()
    }
    fn directory(&self) -> &Path {
        self.files.directory()
    }
    fn switch(&self) -> &'static str {
        self.files.switch()
    }
    fn knobs(&self) -> &'static [&'static str] {
        self.files.knobs()
    }
    fn wanted(&self, settings: &Settings) -> Vec<Knob> {
        self.files.wanted(settings)
    }
    fn refusal(&self) -> Option<String> {
        self.files.refusal()
    }
    fn counters(&self) -> Result<Option<Counters>, Error> {
        self.files.counters()
    }
    fn write(&self, name: &str, value: &str) -> Result<(), Error> {
        let path = self.directory().join(name);
        let refused = |kind: ErrorKind| Error::Setting { path, source: kind.into() };
        let taken = self.taken(name, value).map_err(refused)?;
        self.files.write(name, &format!("{taken}\n"))
    }
}
