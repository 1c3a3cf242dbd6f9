//! Files that processes have open or mapped, whose page cache may be moved to another node.
//!
//! Cache belongs to files and not to processes, and the kernel has no list of the files that have some. Files in use
//! can be found by the processes: /proc/PID/maps names files by device and inode (fs/proc/task_mmu.c,
//! `show_map_vma`), /proc/PID/fdinfo the mount and the inode of each open file (fs/proc/fd.c, `seq_show`). Nothing is
//! asked of a file, nor is it opened, before the mount table has said that it is on a file system of this machine's
//! own disks: one on a network may not answer. Left out are:
//! - other file systems, among them tmpfs, hugetlbfs and a container's own layers (overlay),
//! - files that are mapped executable: programs and libraries run from their cache,
//! - files with the inode number of one that is used in an overlay in a way that would have it left out: it may be the same one, whose
//!   users have another device for it,
//! - files with a lease (fcntl(2), F_SETLEASE), because to open them breaks it.

use crate::{
    Error, Owner, Roots,
    files::{
        answering::AT_ONCE,
        file_system::{ON_DISK, mounts, open_path, open_unnoticed},
        maps::{self, Object},
        pagemap::Pagemap,
        read::{self, field, is_gone, numbered},
    },
    processes::{
        owner::owner,
        process::{OpenProcess, own_pid},
    },
    survey::space,
};
use numaloc_core::{CpuSet, Identity, NodeId, NodeSet, Topology};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

/// Smaller files are not worth the work.
const LEAST: u64 = 1 << 20;
/// Most files that are kept in mind. Later ones are left out.
const MOST: usize = 1 << 16;

/// The files whose page cache may be moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// Files of all processes that this process may read.
    #[default]
    Anybody,
    /// Files that only processes of this user or in these cgroups use.
    Of {
        /// Processes whose user ids are all this one.
        uid: Option<u32>,
        /// Processes in these cgroups and below them: absolute paths as in /proc/PID/cgroup.
        cgroups: Vec<String>,
    },
}

impl Whose {
    /// Whether a process of this owner is one of them.
    pub fn includes(&self, owner: &Owner) -> bool {
        match self {
            Self::Anybody => true,
            Self::Of { uid, cgroups } => {
                uid.is_some_and(|uid| owner.is_of(uid))
                    || cgroups.iter().any(|top| owner.is_in(top))
            }
        }
    }
}

/// A file that processes use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedFile {
    /// The way to it through a process that uses it.
    path: PathBuf,
    inode: u64,
    /// Nodes that the cpusets of all its users allow.
    pub mems_allowed: NodeSet,
    /// Whether one of them may run on the CPUs of the node in question: such a one has probably read it there.
    near: bool,
}

impl UsedFile {
    /// Opens it for reading, and gives its length in bytes; `None` if its cache is not to be moved: it has gone, is not a regular file,
    /// is small, has no page cache (DAX), or this process is neither its owner nor may act as its owner (CAP_FOWNER). Changes
    /// nothing of it, not even its time of access (open(2), O_NOATIME).
    pub fn open(&self, roots: &Roots) -> Option<(File, u64)> {
        let by_path = open_path(&self.path).ok()?;
        let is_it = |file: &File| {
            let metadata = file.metadata().ok()?;
            let fits =
                metadata.is_file() && metadata.ino() == self.inode && metadata.len() >= LEAST;
            fits.then_some(metadata.len())
        };
        is_it(&by_path)?;
        let file = open_unnoticed(roots, &by_path).ok()?;
        let bytes = is_it(&file)?;
        (!numaloc_sys::is_dax(&file).ok()?).then_some((file, bytes))
    }
}

/// A file system's device, as the kernel numbers it, and an inode there.
type FileKey = ((u32, u32), u64);

/// The facts known about a file so far.
#[derive(Debug)]
struct SeenFile {
    path: PathBuf,
    mems_allowed: NodeSet,
    near: bool,
    /// It is to be left alone.
    spared: bool,
}

/// Files of `whose` whose page cache may be moved away from `node`, files that are used from its CPUs first. Empty if
/// `stop` says so meanwhile, or if it cannot be ruled out that others use them, too.
///
/// # Errors
/// [`Error::Read`]: /proc cannot be read.
pub fn used_files(
    roots: &Roots,
    topology: &Topology,
    node: NodeId,
    whose: &Whose,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<UsedFile>, Error> {
    let cpus = topology.node(node).map(|node| node.cpus.clone()).unwrap_or_default();
    let (mounts, files, layered) = Default::default();
    let mut search = FileSearch { whose, cpus, mounts, files, layered };
    let own = own_pid(roots);
    let mut processes: Vec<_> = numbered::<i32>(&roots.proc).into_iter().collect();
    processes.retain(|(pid, _)| Some(*pid) != own);
    for some in processes.chunks(AT_ONCE) {
        let silent = silent(roots, some);
        for (pid, directory) in some {
            if stop() {
                return Ok(Vec::new());
            }
            // One that has ended uses nothing. One that this process may not look into, or cannot now, may use any file.
            let may_use_any =
                silent.contains(pid) || search.process(roots, *pid, directory).is_err();
            if may_use_any && *whose != Whose::Anybody {
                return Ok(Vec::new());
            }
        }
    }
    let leased = leased(&read::text(&roots.proc.join("locks")).unwrap_or_default());
    Ok(search.found(&leased))
}

/// The processes among these, by their pids and directories in /proc, whose memory cannot be read now.
pub(crate) fn silent(roots: &Roots, processes: &[(i32, PathBuf)]) -> BTreeSet<i32> {
    let open = processes.iter().filter_map(|(pid, directory)| {
        let stat = OpenProcess::new(roots, *pid).and_then(|process| process.stat()).ok()?;
        let identity = Identity { pid: *pid, start_time: stat.starttime };
        let pagemap = Pagemap::new(File::open(directory.join("pagemap")).ok()?);
        Some((*pid, identity, Arc::new(pagemap)))
    });
    space::silent(roots, open.collect()).into_iter().collect()
}

struct FileSearch<'a> {
    whose: &'a Whose,
    /// The CPUs of the node whose files are searched.
    cpus: CpuSet,
    /// The mounts on disks of each mount namespace, which many processes have in common.
    mounts: BTreeMap<PathBuf, Rc<DiskMounts>>,
    files: BTreeMap<FileKey, SeenFile>,
    /// The use of files in overlays, by [`Object::low_bits`] of the inode.
    layered: BTreeMap<u64, LayeredUse>,
}

/// The facts known about a process.
struct User {
    is_included: bool,
    near: bool,
    mems_allowed: Option<NodeSet>,
}

/// The use of a file in an overlay.
#[derive(Default)]
struct LayeredUse {
    spared: bool,
    mems_allowed: Option<NodeSet>,
}

impl FileSearch<'_> {
    fn process(&mut self, roots: &Roots, pid: i32, directory: &Path) -> Result<(), Error> {
        let Some(maps) = unless_gone(read::text(&directory.join("maps")))? else { return Ok(()) };
        // A kernel thread, or a process that has ended.
        if maps.is_empty() {
            return Ok(());
        }
        let Some(user) = self.user(roots, pid, directory)? else { return Ok(()) };
        let mounts = self.mounts(directory)?;
        for line in maps.lines() {
            let Some(vma) = maps::parse_line(line) else { continue };
            let Object::File { device, inode } = vma.object else { continue };
            let executable = line.split(' ').nth(1).is_some_and(|perms| perms.contains('x'));
            if mounts.devices.contains(&device) {
                let path = directory.join(format!("map_files/{:x}-{:x}", vma.start, vma.end));
                self.see((device, inode), path, &user, executable);
            } else if mounts.overlays.contains(&device) {
                self.see_layered(inode, &user, executable);
            }
        }
        for (fd, path) in open_files(directory)? {
            let info = unless_gone(read::text(&directory.join(format!("fdinfo/{fd}"))))?;
            let Some(info) = info else { continue };
            let number = |name| field(&info, name)?.parse::<u64>().ok();
            // `ino` is there from Linux 5.15 on.
            let Some((mount, inode)) = number("mnt_id").zip(number("ino")) else { continue };
            match mounts.by_id.get(&mount) {
                Some(device) if mounts.overlays.contains(device) => {
                    self.see_layered(inode, &user, false);
                }
                Some(&device) => self.see((device, inode), path, &user, false),
                None => {}
            }
        }
        Ok(())
    }

    fn user(&self, roots: &Roots, pid: i32, directory: &Path) -> Result<Option<User>, Error> {
        let Some(status) = unless_gone(read::text(&directory.join("status")))? else {
            return Ok(None);
        };
        let cpus = field(&status, "Cpus_allowed_list").and_then(|list| list.parse::<CpuSet>().ok());
        let mems_allowed = field(&status, "Mems_allowed_list").and_then(|list| list.parse().ok());
        let is_included = *self.whose == Whose::Anybody || {
            let start_time = OpenProcess::new(roots, pid).and_then(|open| open.stat());
            match start_time.map(|stat| Identity { pid, start_time: stat.starttime }) {
                Ok(identity) => match owner(roots, identity)? {
                    Some(owner) => self.whose.includes(&owner),
                    None => return Ok(None),
                },
                Err(_) => false,
            }
        };
        let near = cpus.is_some_and(|cpus| cpus.intersects(&self.cpus));
        Ok(Some(User { is_included, near, mems_allowed }))
    }

    /// Notes a use of a file.
    fn see(&mut self, key: FileKey, path: PathBuf, user: &User, executable: bool) {
        let spared = executable || !user.is_included;
        if let Some(seen) = self.files.get_mut(&key) {
            seen.spared |= spared;
            if user.is_included && user.near && !seen.near {
                (seen.path, seen.near) = (path, true);
            }
            if let Some(allowed) = &user.mems_allowed {
                seen.mems_allowed = seen.mems_allowed.and(allowed);
            }
        } else if self.files.len() < MOST {
            let mems_allowed = user.mems_allowed.clone().unwrap_or_else(every_node);
            self.files.insert(key, SeenFile { path, mems_allowed, near: user.near, spared });
        }
    }

    /// Notes a use of a file in an overlay, whose layer may be on a disk.
    fn see_layered(&mut self, inode: u64, user: &User, executable: bool) {
        let inode = Object::low_bits(inode);
        if self.layered.len() >= MOST && !self.layered.contains_key(&inode) {
            return;
        }
        let seen = self.layered.entry(inode).or_default();
        seen.spared |= executable || !user.is_included;
        seen.mems_allowed = match (seen.mems_allowed.take(), &user.mems_allowed) {
            (Some(before), Some(allowed)) => Some(before.and(allowed)),
            (before, allowed) => before.or_else(|| allowed.clone()),
        };
    }

    fn mounts(&mut self, directory: &Path) -> Result<Rc<DiskMounts>, Error> {
        let namespace =
            fs::read_link(directory.join("ns/mnt")).unwrap_or_else(|_| directory.into());
        if let Some(mounts) = self.mounts.get(&namespace) {
            return Ok(mounts.clone());
        }
        let text = unless_gone(read::text(&directory.join("mountinfo")))?.unwrap_or_default();
        let mounts = Rc::new(DiskMounts::parse(&text));
        self.mounts.insert(namespace, mounts.clone());
        Ok(mounts)
    }

    fn found(self, leased: &BTreeSet<FileKey>) -> Vec<UsedFile> {
        let layered = |inode: u64| self.layered.get(&Object::low_bits(inode));
        let files = self.files.into_iter().filter_map(|((device, inode), mut seen)| {
            if let Some(LayeredUse { spared, mems_allowed }) = layered(inode) {
                seen.spared |= spared;
                let allowed = mems_allowed.iter().fold(seen.mems_allowed, |all, one| all.and(one));
                seen.mems_allowed = allowed;
            }
            let key = (device, inode);
            (!seen.spared && !leased.contains(&key)).then_some((key, seen))
        });
        let file = |((_, inode), SeenFile { path, mems_allowed, near, .. })| UsedFile {
            path,
            inode,
            mems_allowed,
            near,
        };
        let mut files: Vec<UsedFile> = files.map(file).collect();
        files.sort_by_key(|file| !file.near);
        files
    }
}

/// The set of a process that says nothing of its cpuset, on a kernel without these.
fn every_node() -> NodeSet {
    (0..1024).map(NodeId).collect()
}

/// The open files of a process that have a path, by their numbers: no sockets, pipes and the like.
fn open_files(directory: &Path) -> Result<Vec<(u32, PathBuf)>, Error> {
    let path = directory.join("fd");
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(source) => return Err(Error::Read { path, source }),
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let files = numbers.map(|fd: u32| (fd, path.join(fd.to_string())));
    let has_path = |(_, path): &(u32, PathBuf)| {
        fs::read_link(path).is_ok_and(|to| to.is_absolute() && !to.starts_with("/dev"))
    };
    Ok(files.filter(has_path).collect())
}

fn unless_gone(read: Result<String, Error>) -> Result<Option<String>, Error> {
    match read {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.read().is_some_and(is_gone) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The mounts of a namespace that are on disks of this machine, and the overlays, from /proc/PID/mountinfo (proc_pid_mountinfo(5)).
#[derive(Debug, Default)]
struct DiskMounts {
    by_id: BTreeMap<u64, (u32, u32)>,
    devices: BTreeSet<(u32, u32)>,
    overlays: BTreeSet<(u32, u32)>,
}

impl DiskMounts {
    fn parse(text: &str) -> Self {
        let mut all = Self::default();
        for mount in mounts(text) {
            let devices = match mount.kind {
                "overlay" => &mut all.overlays,
                kind if ON_DISK.contains(&kind) => &mut all.devices,
                _ => continue,
            };
            if let Some(device) = mount.device() {
                devices.insert(device);
                all.by_id.insert(mount.id, device);
            }
        }
        all
    }
}

/// Files with a lease, from /proc/locks (fs/locks.c, `lock_get_status`): `1: LEASE  ACTIVE    WRITE 4711 fe:01:1234 0 EOF`.
fn leased(text: &str) -> BTreeSet<FileKey> {
    let file = |line: &str| {
        let mut words = line.split_whitespace();
        words.find(|word| matches!(*word, "LEASE" | "DELEG"))?;
        let mut parts = words.nth(3)?.split(':');
        let mut number = || u32::from_str_radix(parts.next()?, 16).ok();
        let device = (number()?, number()?);
        Some((device, parts.next()?.parse().ok()?))
    };
    text.lines().filter_map(file).collect()
}

#[cfg(test)]
mod tests;
