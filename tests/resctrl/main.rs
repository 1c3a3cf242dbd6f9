//! The resctrl group of the threads that move, on a file system that keeps the kernel's rules ([`numaloc_tests::resctrl`]), which is
//! mounted by FUSE. `rules` has the file system itself, `group` what makes and removes the group, `engine` what runs in it, `traffic` what
//! its counters say.
#![forbid(unsafe_code)]

mod engine;
mod group;
mod rules;
mod traffic;

use numaloc_core::{DomainValues, GroupName, MoverGroup, Notation};
use numaloc_host::Roots;
use numaloc_sys::fixture::skipped;
use numaloc_tests::resctrl::{Machine, Resctrl, in_private_mounts};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// A host that has the file system at the place of the kernel's.
struct Host {
    directory: TempDir,
    fs: Resctrl,
}

impl Host {
    fn new(machine: Machine) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let host = Self { directory, fs: Resctrl::new(machine) };
        fs::create_dir_all(host.root()).expect("directories");
        fs::create_dir_all(host.roots().run.join("numaloc")).expect("directories");
        host.fs.mount(&host.root()).expect("a file system");
        host
    }

    fn roots(&self) -> Roots {
        let path = |name| self.directory.path().join(name);
        Roots { sys: path("sys"), run: path("run"), ..Roots::default() }
    }

    /// Where it is mounted.
    fn root(&self) -> PathBuf {
        self.directory.path().join("sys/fs/resctrl")
    }

    fn is_noted(&self) -> bool {
        numaloc_host::journal::is_noted(&self.roots(), "resctrl")
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.root().join(file)).expect(file)
    }

    /// The groups that exist, and whether one is noted.
    fn state(&self) -> (Vec<String>, bool) {
        (self.fs.groups(), self.is_noted())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Otherwise the directory cannot be removed.
        let _ = nix::mount::umount2(&self.root(), nix::mount::MntFlags::MNT_DETACH);
    }
}

/// Runs a test on a machine of this kind, if the present one allows it.
fn on(machine: Machine, test: impl FnOnce(&Host) + Send + 'static) {
    if !in_private_mounts(move || test(&Host::new(machine))) {
        skipped("the file system of the test takes root, and a kernel with FUSE");
    }
}

fn settings(memory_bandwidth: Option<&str>, l3: Option<&str>) -> MoverGroup {
    let values = |text: Option<&str>, notation| {
        text.map(|text| DomainValues::parse(text, notation).expect(text))
    };
    MoverGroup {
        name: GroupName::parse("numaloc").expect("a name"),
        memory_bandwidth: values(memory_bandwidth, Notation::Number),
        l3: values(l3, Notation::Mask),
    }
}

fn write(path: &Path, text: &str) -> Result<(), nix::errno::Errno> {
    fs::write(path, text)
        .map_err(|error| nix::errno::Errno::from_raw(error.raw_os_error().expect("of the kernel")))
}
