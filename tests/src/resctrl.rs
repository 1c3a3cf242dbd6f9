//! A resctrl file system of a test's own, which keeps the rules of the kernel's (fs/resctrl of Linux 7.2): no emulator has processors
//! with it. Differences from the kernel's:
//!
//! - A task's group is known by what was written to `tasks`. That tasks inherit it is not: clone(2) is not seen.
//! - Monitoring counts what a test says ([`Resctrl::count`]). CPUs cannot be assigned, and groups have the mode `shareable` only.

mod machine;
mod values;

pub use machine::Machine;

use crate::fuse::{self, Caller, Files, Kind};
use nix::{
    libc::{EACCES, EEXIST, EINVAL, ENOENT, ENOSPC, EPERM, ESRCH},
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    unistd::gettid,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io, panic,
    path::Path,
    sync::Arc,
    thread,
};
use values::Schemata;

/// Where the kernel's is mounted.
pub const MOUNT_POINT: &str = "/sys/fs/resctrl";

/// The file system. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Resctrl(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    machine: Machine,
    /// Control groups by name; that of the root group is empty.
    groups: BTreeMap<String, Group>,
    last_command: String,
    /// All threads that were ever put into another group than the root group, with its name.
    entered: Vec<(String, i32)>,
    /// What `mbm_local_bytes` and `mbm_total_bytes` say, by the group's directory and the domain's.
    counters: BTreeMap<(String, String), [String; 2]>,
}

#[derive(Debug)]
struct Group {
    schemata: Schemata,
    /// Threads that were put into it. Those of the root group are all others.
    tasks: BTreeSet<i32>,
    /// Monitoring groups, and their threads.
    monitoring: BTreeMap<String, BTreeSet<i32>>,
}

impl Group {
    fn new(machine: &Machine) -> Self {
        let (tasks, monitoring) = (BTreeSet::new(), BTreeMap::new());
        Self { schemata: machine.largest(), tasks, monitoring }
    }
}

/// The part of a path that belongs to a group.
enum Place<'a> {
    /// A group's own file or directory: its control group, and its monitoring group.
    Group(&'a str, Option<&'a str>, Vec<&'a str>),
    Info(Vec<&'a str>),
}

/// Files of a group. A monitoring group has no schemata.
const FILES: [&str; 6] = ["cpus", "cpus_list", "mode", "schemata", "size", "tasks"];
const COUNTERS: [&str; 3] = ["llc_occupancy", "mbm_local_bytes", "mbm_total_bytes"];

impl Resctrl {
    /// That of a machine, as it is when it was just mounted.
    pub fn new(machine: Machine) -> Self {
        let groups = [(String::new(), Group::new(&machine))].into();
        let (last_command, entered, counters) = Default::default();
        Self(Arc::new(Mutex::new(State { machine, groups, last_command, entered, counters })))
    }

    /// Mounts it.
    ///
    /// # Errors
    /// FUSE does not exist on this machine, or nothing can be mounted.
    pub fn mount(&self, at: &Path) -> io::Result<()> {
        fuse::try_serve(self.clone(), at)
    }

    /// The names of the control groups but the root group.
    pub fn groups(&self) -> Vec<String> {
        self.0.lock().groups.keys().filter(|name| !name.is_empty()).cloned().collect()
    }

    /// The schemata of a control group.
    ///
    /// # Panics
    /// There is no such group.
    pub fn schemata(&self, group: &str) -> String {
        self.0.lock().groups[group].schemata.text()
    }

    /// All threads that were ever put into a group of this name.
    pub fn entered(&self, group: &str) -> Vec<i32> {
        let state = self.0.lock();
        state.entered.iter().filter(|(of, _)| of == group).map(|(_, tid)| *tid).collect()
    }

    /// Sets what the counters of a group say of the cache of this number: bytes, or a word such as `Unassigned`. `group` is its directory,
    /// such as `BE/mon_groups/a`; empty for the root group.
    pub fn count(&self, group: &str, cache: u32, local: &str, total: &str) {
        let domain = format!("mon_L3_{cache:02}");
        let values = [local, total].map(|value| format!("{value}\n"));
        self.0.lock().counters.insert((group.to_owned(), domain), values);
    }

    /// Forgets which threads were put into groups, and empties the result of the last command.
    pub fn forget(&self) {
        let mut state = self.0.lock();
        state.entered.clear();
        state.last_command.clear();
    }
}

/// Runs a test, and what it starts, in a mount namespace of its own. Others see nothing of what it mounts. Returns whether this machine
/// allows that, and has FUSE; nothing is run if not.
pub fn in_private_mounts(test: impl FnOnce() + Send + 'static) -> bool {
    if !Path::new("/dev/fuse").exists() {
        return false;
    }
    let beside = thread::spawn(move || {
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        let made = unshare(CloneFlags::CLONE_NEWNS)
            .and_then(|()| mount(None::<&str>, "/", None::<&str>, private, None::<&str>));
        if made.is_ok() {
            test();
        }
        made.is_ok()
    });
    beside.join().unwrap_or_else(|why| panic::resume_unwind(why))
}

/// Makes a directory where the kernel mounts its resctrl. sysfs takes no new directories, so a tmpfs is mounted above it, which shows
/// the cgroups of before.
///
/// # Panics
/// Nothing can be mounted.
pub fn make_mount_point() {
    let none = None::<&str>;
    let kept = Path::new("/sys/fs/cgroup");
    let aside = std::env::temp_dir().join(format!("resctrl-{}", gettid()));
    fs::create_dir_all(&aside).expect("a directory");
    let recursive = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(kept), &aside, none, recursive, none).expect("cgroups");
    mount(Some("none"), "/sys/fs", Some("tmpfs"), MsFlags::empty(), none).expect("a tmpfs");
    fs::create_dir(kept).and_then(|()| fs::create_dir(MOUNT_POINT)).expect("directories");
    mount(Some(&aside), kept, none, recursive, none).expect("cgroups");
    umount2(&aside, MntFlags::MNT_DETACH).expect("it is mounted");
    fs::remove_dir(&aside).expect("it is empty");
}

fn refuse<T>(errno: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(errno))
}

impl State {
    /// The place that a path names, if it could exist.
    fn place<'a>(&self, path: &'a str) -> Option<Place<'a>> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match parts.split_first() {
            Some((&"info", rest)) => return Some(Place::Info(rest.to_vec())),
            Some((&name, rest)) if self.groups.contains_key(name) => (name, rest),
            _ => ("", parts.as_slice()),
        };
        match rest {
            ["mon_groups", name, rest @ ..] => {
                let known = self.groups[group].monitoring.contains_key(*name);
                known.then(|| Place::Group(group, Some(name), rest.to_vec()))
            }
            rest => Some(Place::Group(group, None, rest.to_vec())),
        }
    }

    fn has_file(&self, is_monitoring: bool, name: &str) -> bool {
        match name {
            "schemata" | "mode" | "size" => !is_monitoring && self.machine.can_control(),
            name => FILES.contains(&name),
        }
    }

    fn kind(&self, path: &str) -> Option<Kind> {
        match self.place(path)? {
            Place::Info(rest) => self.machine.info_kind(&rest),
            Place::Group(_, monitoring, rest) => match rest.as_slice() {
                [] => Some(Kind::Directory),
                ["mon_groups"] if monitoring.is_none() => {
                    self.machine.can_monitor().then_some(Kind::Directory)
                }
                ["mon_data"] => self.machine.can_monitor().then_some(Kind::Directory),
                ["mon_data", domain] => self
                    .machine
                    .counted()
                    .contains(&(*domain).to_owned())
                    .then_some(Kind::Directory),
                ["mon_data", domain, counter] => {
                    let is_known = self.machine.counted().contains(&(*domain).to_owned());
                    (is_known && COUNTERS.contains(counter)).then_some(Kind::File)
                }
                [file] => self.has_file(monitoring.is_some(), file).then_some(Kind::File),
                _ => None,
            },
        }
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        match self.place(directory) {
            None => Vec::new(),
            Some(Place::Info(rest)) => self.machine.info_names(&rest),
            Some(Place::Group(group, monitoring, rest)) => match rest.as_slice() {
                [] => {
                    let files =
                        FILES.into_iter().filter(|file| self.has_file(monitoring.is_some(), file));
                    let mut names: Vec<String> = files.map(str::to_owned).collect();
                    if self.machine.can_monitor() {
                        names.push("mon_data".to_owned());
                        names.extend(monitoring.is_none().then(|| "mon_groups".to_owned()));
                    }
                    if directory.is_empty() {
                        names.push("info".to_owned());
                        names.extend(self.groups.keys().filter(|name| !name.is_empty()).cloned());
                    }
                    names
                }
                ["mon_groups"] => self.groups[group].monitoring.keys().cloned().collect(),
                ["mon_data"] => self.machine.counted(),
                ["mon_data", _] => owned(&COUNTERS),
                _ => Vec::new(),
            },
        }
    }

    fn read(&self, file: &str) -> io::Result<String> {
        match self.place(file) {
            Some(Place::Info(rest)) if rest == ["last_cmd_status"] => {
                let is_empty = self.last_command.is_empty();
                Ok(if is_empty { "ok\n".to_owned() } else { self.last_command.clone() })
            }
            Some(Place::Info(rest)) => {
                self.machine.info(&rest).ok_or(io::ErrorKind::NotFound.into())
            }
            Some(Place::Group(name, monitoring, rest)) => {
                let group = &self.groups[name];
                Ok(match rest.as_slice() {
                    ["tasks"] => tasks(match monitoring {
                        Some(monitoring) => &group.monitoring[monitoring],
                        None => &group.tasks,
                    }),
                    ["schemata"] => group.schemata.text(),
                    ["mode"] => "shareable\n".to_owned(),
                    ["mon_data", domain, counter] => {
                        let monitored = monitoring.map(|name| format!("mon_groups/{name}"));
                        let of = [Some(name.to_owned()).filter(|name| !name.is_empty()), monitored];
                        let of = of.into_iter().flatten().collect::<Vec<_>>().join("/");
                        let known = self.counters.get(&(of, (*domain).to_owned()));
                        match (known, *counter) {
                            (Some([local, _]), "mbm_local_bytes") => local.clone(),
                            (Some([_, total]), "mbm_total_bytes") => total.clone(),
                            _ => "0\n".to_owned(),
                        }
                    }
                    ["cpus" | "cpus_list" | "size"] => "\n".to_owned(),
                    _ => return refuse(ENOENT),
                })
            }
            None => refuse(ENOENT),
        }
    }

    /// As `rdtgroup_schemata_write` and `rdtgroup_tasks_write` do.
    fn write(&mut self, file: &str, text: &str, by: Caller) -> io::Result<()> {
        let path = file.to_owned();
        let Some(Place::Group(name, monitoring, rest)) = self.place(&path) else {
            return refuse(EACCES);
        };
        match rest.as_slice() {
            ["schemata"] if monitoring.is_none() => {
                self.last_command.clear();
                let group = self.groups.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
                let machine = &self.machine;
                group.schemata.write(text, |resource| machine.bounds(resource)).or_else(|why| {
                    self.last_command = why;
                    refuse(EINVAL)
                })
            }
            ["tasks"] => {
                self.last_command.clear();
                for tid in text.trim_end_matches('\n').split(',') {
                    self.move_task(name, monitoring, tid.trim(), by)?;
                }
                Ok(())
            }
            _ => refuse(EINVAL),
        }
    }

    fn move_task(
        &mut self,
        name: &str,
        monitoring: Option<&str>,
        text: &str,
        by: Caller,
    ) -> io::Result<()> {
        let Ok(tid) = text.parse::<i32>() else {
            self.last_command = format!("Task list parsing error pid {text}\n");
            return refuse(EINVAL);
        };
        let outcome = match tid {
            0 => Ok(by.tid),
            ..0 => Err((EINVAL, format!("Invalid pid {tid}\n"))),
            _ => match owners(tid) {
                None => Err((ESRCH, format!("No task {tid}\n"))),
                Some([real, saved]) if by.uid != 0 && by.uid != real && by.uid != saved => {
                    Err((EPERM, format!("No permission to move task {tid}\n")))
                }
                Some(_) => Ok(tid),
            },
        };
        let outcome = outcome.and_then(|tid| match monitoring {
            // __rdtgroup_move_task
            Some(_) if !self.groups[name].tasks.contains(&tid) && !name.is_empty() => {
                Err((EINVAL, "Can't move task to different control group\n".to_owned()))
            }
            _ => Ok(tid),
        });
        match outcome {
            Ok(tid) => {
                for group in self.groups.values_mut() {
                    group.tasks.retain(|&task| task != tid || monitoring.is_some());
                    group
                        .monitoring
                        .values_mut()
                        .for_each(|tasks| tasks.retain(|task| *task != tid));
                }
                let group = self.groups.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
                match monitoring.and_then(|monitoring| group.monitoring.get_mut(monitoring)) {
                    Some(tasks) => tasks.extend([tid]),
                    None if name.is_empty() => {}
                    None => {
                        group.tasks.insert(tid);
                        self.entered.push((name.to_owned(), tid));
                    }
                }
                Ok(())
            }
            Err((errno, why)) => {
                self.last_command = format!("{why}Error while processing task {tid}\n");
                refuse(errno)
            }
        }
    }

    /// As `rdtgroup_mkdir` does: control groups in the root, monitoring groups in a directory mon_groups.
    fn make(&mut self, directory: &str) -> io::Result<()> {
        if self.kind(directory).is_some() {
            return refuse(EEXIST);
        }
        let (above, name) = directory.rsplit_once('/').unwrap_or(("", directory));
        let monitored = above.strip_suffix("mon_groups").map(|group| group.trim_end_matches('/'));
        self.last_command.clear();
        if above.is_empty() && self.machine.can_control() {
            if self.groups.len() >= self.machine.closids() {
                self.last_command = "Out of CLOSIDs\n".to_owned();
                return refuse(ENOSPC);
            }
            self.groups.insert(name.to_owned(), Group::new(&self.machine));
            return Ok(());
        }
        match monitored.and_then(|group| self.groups.get_mut(group)) {
            Some(group) if self.machine.can_monitor() => {
                group.monitoring.insert(name.to_owned(), BTreeSet::new());
                Ok(())
            }
            _ => refuse(EPERM),
        }
    }

    /// As `rdtgroup_rmdir` does. Tasks of the group are in the root group, or in the control group, from then on.
    fn remove(&mut self, directory: &str) -> io::Result<()> {
        if self.kind(directory).is_none() {
            return refuse(ENOENT);
        }
        if !directory.is_empty() && self.groups.remove(directory).is_some() {
            return Ok(());
        }
        let monitoring = directory.rsplit_once("mon_groups/");
        let group = monitoring.and_then(|(group, name)| {
            Some((self.groups.get_mut(group.trim_end_matches('/'))?, name))
        });
        match group.and_then(|(group, name)| group.monitoring.remove(name)) {
            Some(_) => Ok(()),
            None => refuse(EPERM),
        }
    }
}

/// The tasks that live, as the kernel lists them.
fn tasks(tasks: &BTreeSet<i32>) -> String {
    let alive = tasks.iter().filter(|tid| owners(**tid).is_some());
    alive.map(|tid| format!("{tid}\n")).collect()
}

/// The real and the saved user of a task; `None`: it does not exist.
fn owners(tid: i32) -> Option<[u32; 2]> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut ids = line.split_whitespace().map(str::parse);
    let (real, _effective, saved) = (ids.next()?.ok()?, ids.next()?, ids.next()?.ok()?);
    Some([real, saved])
}

impl Files for Resctrl {
    fn kind(&self, path: &str) -> Option<Kind> {
        self.0.lock().kind(path)
    }
    fn names(&self, directory: &str) -> Vec<String> {
        self.0.lock().names(directory)
    }
    fn read(&self, file: &str) -> io::Result<String> {
        self.0.lock().read(file)
    }
    fn write(&self, file: &str, text: &str, by: Caller) -> io::Result<()> {
        self.0.lock().write(file, text, by)
    }
    fn make(&self, directory: &str) -> io::Result<()> {
        self.0.lock().make(directory)
    }
    fn remove(&self, directory: &str) -> io::Result<()> {
        self.0.lock().remove(directory)
    }
    fn target(&self, _: &str) -> io::Result<String> {
        refuse(EINVAL)
    }
}
