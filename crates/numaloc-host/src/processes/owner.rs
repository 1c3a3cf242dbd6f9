//! The owner of a process: its users and its cgroups.

use crate::{
    Error, Roots,
    files::{answering::ProcessOwner, read::field},
    processes::process::{Miss, OpenProcess},
};
use numaloc_core::Identity;
use std::path::{Component, Path};

/// The owner of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Real, effective, saved and file system user id, as this process's user namespace has them.
    pub uids: [u32; 4],
    /// Its cgroups as in /proc/PID/cgroup, one for each hierarchy.
    pub cgroups: Vec<String>,
}

impl Owner {
    /// Whether the process acts as this user and has no other user id that it could take on.
    pub fn is_of(&self, uid: u32) -> bool {
        self.uids == [uid; 4]
    }

    /// Whether one of its cgroups is `cgroup` or below it.
    pub fn is_in(&self, cgroup: &str) -> bool {
        // A path that begins with .. is outside of the cgroup namespace in which it was read (cgroup_namespaces(7)).
        let is_plain = |path: &Path| !path.components().any(|part| part == Component::ParentDir);
        let (top, rooted) = (Path::new(cgroup), cgroup.starts_with('/'));
        let below = |path: &Path| is_plain(path) && path.starts_with(top);
        rooted && is_plain(top) && self.cgroups.iter().any(|path| below(Path::new(path)))
    }
}

/// The owner of a process. `None` if the process has ended, even if another process has its pid now.
///
/// # Errors
/// If the process may not be read, or a file says something that this version does not understand.
pub fn owner(roots: &Roots, identity: Identity) -> Result<Option<Owner>, Error> {
    match roots.open_files.patiently(Miss::read, || read(roots, identity)) {
        Ok(owner) => Ok(Some(owner)),
        Err(Miss::Gone) => Ok(None),
        Err(miss) => Err(miss.into_error(identity.pid)),
    }
}

/// The owner of a process, by its status. The real user counts: files of a process that is not dumpable belong to
/// root (fs/proc/base.c, `task_dump_owner`), and not to the user who has started it. One that has a pid in more pid
/// namespaces than /proc has is in a container. No lock of its memory is taken for the status (fs/proc/array.c,
/// `proc_pid_status`). A process that has ended belongs to an id that no user has.
pub(crate) fn process_owner(roots: &Roots, identity: Identity) -> ProcessOwner {
    let status = OpenProcess::new(roots, identity.pid).and_then(|process| process.text("status"));
    let status = status.unwrap_or_default();
    let real = field(&status, "Uid").and_then(|uids| uids.split_whitespace().next()?.parse().ok());
    let is_contained =
        field(&status, "NSpid").is_some_and(|pids| pids.split_whitespace().nth(1).is_some());
    match real.unwrap_or(u32::MAX) {
        0 if !is_contained => ProcessOwner::Host,
        user => ProcessOwner::User(user),
    }
}

fn read(roots: &Roots, identity: Identity) -> Result<Owner, Miss> {
    let process = OpenProcess::new(roots, identity.pid)?;
    if process.stat()?.starttime != identity.start_time {
        return Err(Miss::Gone);
    }
    let status = process.text("status")?;
    let line = field(&status, "Uid").unwrap_or_default();
    let uids: Option<Vec<u32>> = line.split_whitespace().map(|uid| uid.parse().ok()).collect();
    let uids = uids.and_then(|uids| uids.try_into().ok());
    let uids = uids.ok_or_else(|| process.nonsense("status", format!("Uid: {line}")))?;
    // ID:CONTROLLERS:PATH, and the path may hold colons.
    let text = process.text("cgroup")?;
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    Ok(Owner { uids, cgroups: paths.map(str::to_owned).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const IDENTITY: Identity = Identity { pid: 100, start_time: 1100 };

    fn host(uids: &str, cgroup: &str) -> Fake {
        let fake = Fake::new();
        fake.process(100, "x", &["0"]);
        let status = fake.path("proc/100/status");
        let text = std::fs::read_to_string(&status).expect("a file");
        fake.write("proc/100/status", &format!("{text}Uid:\t{uids}\nGid:\t1\t1\t1\t1\n"));
        fake.write("proc/100/cgroup", cgroup);
        fake
    }

    fn of(fake: &Fake) -> Owner {
        owner(&fake.roots(), IDENTITY).expect("readable").expect("there")
    }

    #[test]
    fn users_and_cgroups_are_read() {
        let v2 = of(&host("1000\t1000\t1000\t1000", "0::/a.slice/b:c\n"));
        assert_eq!(v2.uids, [1000; 4]);
        assert_eq!(v2.cgroups, ["/a.slice/b:c"]);
        let v1 = of(&host("1\t2\t3\t4", "5:cpu,cpuacct:/pod\n1:name=systemd:/init\n0::/\n"));
        assert_eq!((v1.uids, v1.cgroups.len()), ([1, 2, 3, 4], 3));
        assert_eq!(v1.cgroups, ["/pod", "/init", "/"]);
    }

    #[test]
    fn the_real_user_counts_and_not_the_owner_of_the_files() {
        let fake = host("7\t0\t0\t0", "");
        let of = |pid| process_owner(&fake.roots(), Identity { pid, ..IDENTITY });
        assert_eq!([of(100), of(101)], [7, u32::MAX].map(ProcessOwner::User));
    }

    #[test]
    fn root_of_a_container_is_not_the_hosts() {
        let fake = host("0\t7\t7\t7", "");
        let status = std::fs::read_to_string(fake.path("proc/100/status")).expect("a file");
        let of = |pids: &str| {
            fake.write("proc/100/status", &format!("{status}{pids}"));
            process_owner(&fake.roots(), IDENTITY)
        };
        // Kernels without pid namespaces have no such line.
        assert_eq!(["", "NSpid:\t100\n"].map(of), [ProcessOwner::Host; 2]);
        assert_eq!(of("NSpid:\t100\t1\n"), ProcessOwner::User(0));
    }

    #[test]
    fn only_who_is_it_in_every_way_is_the_user() {
        assert!(of(&host("7 7 7 7", "")).is_of(7));
        for uids in ["0 7 7 7", "7 0 7 7", "7 7 0 7", "7 7 7 0"] {
            assert!(!of(&host(uids, "")).is_of(7), "{uids}");
        }
    }

    #[test]
    fn cgroups_are_compared_by_components() {
        let owner = of(&host("7 7 7 7", "0::/a.slice/b\n"));
        for inside in ["/", "/a.slice", "/a.slice/", "/a.slice/b"] {
            assert!(owner.is_in(inside), "{inside}");
        }
        for outside in ["", "a.slice", "/a", "/a.slice/b/c", "/a.slice/..", "/b", "/a.slice/bb"] {
            assert!(!owner.is_in(outside), "{outside}");
        }
        let elsewhere = of(&host("7 7 7 7", "0::/../a\n"));
        assert!(!elsewhere.is_in("/") && !elsewhere.is_in("/.."));
    }

    #[test]
    fn who_has_gone_is_nobodys() {
        let fake = host("7 7 7 7", "0::/\n");
        let reused = Identity { start_time: 1, ..IDENTITY };
        assert_eq!(owner(&fake.roots(), reused).expect("no error"), None);
        let never = Identity { pid: 101, ..IDENTITY };
        assert_eq!(owner(&fake.roots(), never).expect("no error"), None);
    }

    #[test]
    fn nonsense_is_an_error_with_the_path() {
        for uids in ["", "1 1 1", "1 1 1 1 1", "x x x x", "-1 -1 -1 -1"] {
            let error = owner(&host(uids, "").roots(), IDENTITY).unwrap_err().to_string();
            assert!(error.contains("proc/100/status"), "{error}");
        }
    }
}
