//! Options of the mounted proc that hide files (Documentation/filesystems/proc.rst): `hidepid` hides processes of others, and
//! `subset=pid` (from Linux 5.8) all files that do not belong to a process, from root as well.

use procfs::{FromBufRead, MountEntry};
use std::{fs, io, path::Path};

/// All mounts that a process sees, by its procfs.
pub(crate) fn mounts(proc: &Path) -> Vec<MountEntry> {
    let text = fs::read(proc.join("self/mounts")).unwrap_or_default();
    Vec::<MountEntry>::from_buf_read(&*text).unwrap_or_default()
}

/// The value of an option of the proc that is mounted at this path. If several are mounted there, the last one is visible.
pub(crate) fn option(mounts: &[MountEntry], proc: &Path, name: &str) -> Option<String> {
    let here =
        |mount: &&MountEntry| mount.fs_vfstype == "proc" && Path::new(&mount.fs_file) == proc;
    mounts.iter().rev().find(here)?.fs_mntops.get(name)?.clone()
}

/// `hidepid` as it is written, if it hides anything: `off` and 0 are the default.
pub(crate) fn hidepid(mounts: &[MountEntry], proc: &Path) -> Option<String> {
    option(mounts, proc, "hidepid").filter(|value| value != "0" && value != "off")
}

/// Whether only the directories of processes can be seen.
pub(crate) fn has_processes_alone(mounts: &[MountEntry], proc: &Path) -> bool {
    option(mounts, proc, "subset").is_some_and(|value| value.split('+').any(|part| part == "pid"))
}

/// The error of a file that could not be opened. It names the option if that hides the file; its kind stays the same.
pub(crate) fn explained(path: &Path, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound || !is_hidden(path) {
        return error;
    }
    let why = "hidden by the option subset=pid of the mounted proc: mount proc without it, or set ProcSubset=all in the unit";
    io::Error::new(error.kind(), why)
}

fn is_hidden(path: &Path) -> bool {
    // Most files that are asked for and missing are those of sysfs and of cgroups: no proc is above them.
    if path.iter().find(|name| *name == "proc" || *name == "sys").is_some_and(|name| name == "sys")
    {
        return false;
    }
    let Some(proc) = path.ancestors().skip(1).find(|dir| dir.join("self/mounts").exists()) else {
        return false;
    };
    let first = path.strip_prefix(proc).ok().and_then(|rest| rest.iter().next()?.to_str());
    let is_of_process = first.is_none_or(|first| {
        first.starts_with(|c: char| c.is_ascii_digit()) || ["self", "thread-self"].contains(&first)
    });
    !is_of_process && has_processes_alone(&mounts(proc), proc)
}

#[cfg(test)]
mod tests {
    use crate::{Error, fake::Fake, files::read};

    #[test]
    fn the_option_that_hides_a_file_is_named() {
        let fake = Fake::new();
        let error = |path: &str| match read::text(&fake.path(path)) {
            Err(error @ Error::Read { .. }) => {
                assert!(error.read().is_some_and(read::is_gone), "{error}");
                error.to_string()
            }
            other => panic!("{other:?}"),
        };
        let mount = |options: &str| {
            let proc = fake.path("proc").display().to_string();
            fake.write("proc/self/mounts", &format!("proc {proc} proc {options} 0 0\n"));
        };
        mount("rw,nosuid,subset=pid");
        for hidden in ["proc/zoneinfo", "proc/sys/kernel/osrelease"] {
            assert!(error(hidden).contains("subset=pid"), "{}", error(hidden));
        }
        for other in ["proc/7/status", "proc/self/nothing", "sys/devices/x"] {
            assert!(!error(other).contains("subset"), "{}", error(other));
        }
        mount("rw,nosuid");
        assert!(!error("proc/zoneinfo").contains("subset"));
    }
}
