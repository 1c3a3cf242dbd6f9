//! Files on the disk of the emulated machine, and page cache.

use crate::{cpus::pinned, run, truth::Nodes};
use numaloc_core::page_size;
use numaloc_sys::{FilePages, query_pages};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Drops the page cache that is clean.
pub fn drop_cache() {
    fs::write("/proc/sys/vm/drop_caches", "1").expect("root");
}

/// Whether the slow disk of the emulated machine, /dev/vdb, has writes to do (Documentation/ABI/stable/sysfs-block, `inflight`).
///
/// # Panics
/// The machine has no such disk.
pub fn is_slow_disk_writing() -> bool {
    let inflight = fs::read_to_string("/sys/block/vdb/inflight").expect("the slow disk");
    inflight.split_whitespace().nth(1).is_some_and(|writes| writes != "0")
}

/// Where the cache of a file is: numbers of its pages, with their nodes. Reads nothing of it. Leaves out pages that are being moved.
///
/// # Panics
/// It cannot be mapped.
pub fn cached_pages(path: &Path) -> Vec<(u64, u32)> {
    let opened = File::open(path).expect("it is there");
    let bytes = opened.metadata().expect("it is there").len() as usize;
    if bytes == 0 {
        return Vec::new();
    }
    let pages = FilePages::map(&opened, 0, bytes).expect("addresses");
    let resident = pages.resident().expect("memory");
    let resident: Vec<usize> = (0..pages.len()).filter(|page| resident[*page]).collect();
    for run in resident.chunk_by(|page, next| page + 1 == *next) {
        pages.populate(run[0]..run[run.len() - 1] + 1).expect("it is in memory");
    }
    let address = |&page: &usize| pages.address() + page as u64 * page_size();
    let addresses: Vec<u64> = resident.iter().map(address).collect();
    let mut status = vec![0; addresses.len()];
    query_pages(0, &addresses, &mut status).expect("they are ours");
    // A page that is on its way is on no node (-ENOENT).
    let on = |(&page, node): (&usize, i32)| Some((page as u64, u32::try_from(node).ok()?));
    resident.iter().zip(status).filter_map(on).collect()
}

/// A file system of its own kind in a file on the disk, or on a disk of its own, mounted as long as this value lives.
#[derive(Debug)]
pub struct Mounted {
    image: Option<PathBuf>,
    path: PathBuf,
}

impl Mounted {
    /// Makes one of this size. The kernel has its module (tests/vm/run --module).
    ///
    /// # Panics
    /// It cannot be made or mounted.
    pub fn new(kind: &str, mib: u64) -> Self {
        let image = Path::new("/mnt/disk").join(kind);
        let path = Path::new("/mnt").join(kind);
        File::create(&image).and_then(|file| file.set_len(mib << 20)).expect("the disk has room");
        fs::create_dir_all(&path).expect("the root file system is writable");
        run(&[OsStr::new(&format!("mkfs.{kind}")), "-q".as_ref(), image.as_ref()]);
        let mount = ["mount", "-t", kind, "-o", "loop"].map(OsStr::new);
        run(&[&mount[..], &[image.as_ref(), path.as_ref()]].concat());
        Self { image: Some(image), path }
    }

    /// Makes one on a block device, and mounts it with these options.
    ///
    /// # Panics
    /// It cannot be made or mounted.
    pub fn on(device: &str, kind: &str, options: &str) -> Self {
        let path = Path::new("/mnt").join(kind);
        fs::create_dir_all(&path).expect("the root file system is writable");
        // The content before is replaced. Blocks as large as pages, which DAX takes.
        let how: &[&str] = if kind == "ext4" { &["-F", "-b", "4096"] } else { &["-f"] };
        run(&[&[&*format!("mkfs.{kind}"), "-q"], how, &[device]].concat());
        let mount = ["mount", "-t", kind, "-o", options, device].map(OsStr::new);
        run(&[&mount[..], &[path.as_ref()]].concat());
        Self { image: None, path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run(&["umount".as_ref(), self.path.as_os_str()]);
        if let Some(image) = &self.image {
            let _ = fs::remove_file(image);
        }
    }
}

/// A file system without a device of its own, mounted as long as this value lives.
#[derive(Debug)]
pub struct Layered(PathBuf);

impl Layered {
    /// Mounts one of this kind with these options.
    ///
    /// # Panics
    /// It cannot be mounted.
    pub fn new(kind: &str, name: &str, options: &str) -> Self {
        let path = Path::new("/mnt").join(name);
        fs::create_dir_all(&path).expect("the root file system is writable");
        let mount = ["mount", "-t", kind, "-o", options, name].map(OsStr::new);
        run(&[&mount[..], &[path.as_ref()]].concat());
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Layered {
    fn drop(&mut self) {
        run(&["umount".as_ref(), self.0.as_os_str()]);
    }
}

/// Swap on the disk, until this is dropped.
#[derive(Debug)]
pub struct Swap(OnDisk);

impl Swap {
    /// A disk of `mib` MiB.
    pub fn on(mib: u64) -> Self {
        let file = OnDisk::new("swap", mib);
        for command in ["mkswap", "swapon"] {
            run(&[command, &file.path().to_string_lossy()]);
        }
        Self(file)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        run(&["swapoff", &self.0.path().to_string_lossy()]);
    }
}

/// A file on the disk, removed at the end.
#[derive(Debug)]
pub struct OnDisk(PathBuf);

impl OnDisk {
    /// Names a file that does not exist yet: a path of another file system, or a name on the disk.
    pub fn named(name: impl AsRef<Path>) -> Self {
        Self(Path::new("/mnt/disk").join(name))
    }

    /// Writes a file of this many MiB. None of it stays in page cache.
    pub fn new(name: impl AsRef<Path>, mib: u64) -> Self {
        let disk = Self::named(name);
        let mut file = File::create(&disk.0).expect("the disk has room");
        let block = vec![7; 1 << 20];
        (0..mib).for_each(|_| file.write_all(&block).expect("the disk has room"));
        file.sync_all().expect("the disk works");
        drop_cache();
        disk
    }

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

    /// Bytes of its cache by node. Reads nothing of it.
    pub fn cached(&self) -> Nodes {
        let mut nodes = Nodes::new();
        for (_, node) in cached_pages(&self.0) {
            *nodes.entry(node).or_default() += page_size();
        }
        nodes
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
