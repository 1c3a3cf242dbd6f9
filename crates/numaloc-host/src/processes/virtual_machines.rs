//! Virtual machines of libvirt and Proxmox, by the files in which these note the process of each (libvirt, src/util/virpidfile.c;
//! qemu-server, PVE/QemuServer/Helpers.pm, `pidfile_name`), of systemd-machined, and those that a command line names: QEMU's by
//! `-name`, firecracker's by `--id`, which its jailer passes on (firecracker, docs/jailer.md).

use crate::{
    Error, Roots,
    files::read,
    processes::{
        by_name::living,
        found::{Found, Meant, NamedKind},
        machines::{registered, up_to},
        runtimes::is_file_name,
    },
};
use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

/// Where a virtual machine is: its cgroup, which holds the processes that serve its devices too, or its process, if it has no
/// cgroup of its own (machines of a user's session).
pub(crate) fn find(roots: &Roots, name: &str) -> Result<Found, Error> {
    let missing = |reason: &str| Error::NotRunning {
        target: format!("virtual machine {name}"),
        reason: reason.to_owned(),
    };
    if !is_file_name(name) {
        return Err(missing("this is not the name of a virtual machine"));
    }
    let noted = |directory: PathBuf| {
        let file = directory.join(format!("{name}.pid"));
        let pid: i32 = fs::read_to_string(&file).ok()?.trim().parse().ok()?;
        let (noted_by, runs_as) = (uid(file)?, uid(roots.proc.join(pid.to_string()))?);
        // A user can note any pid, and the file of the host's own libvirt is root's.
        (noted_by == 0 || noted_by == runs_as).then_some(pid)
    };
    let by_libvirt = || {
        let pid = directories(roots).into_iter().find_map(noted)?;
        Some(at(roots, "libvirt", pid, is_machine))
    };
    let by_proxmox = || {
        let pid = noted(roots.run.join("qemu-server"))?;
        let scope = format!("{name}.scope");
        Some(at(roots, "Proxmox", pid, |part: &str| part == scope))
    };
    let by_machined = || registered(roots, NamedKind::VirtualMachine, name);
    if let Some(found) = by_libvirt().or_else(by_proxmox).or_else(by_machined) {
        return Ok(found);
    }
    match &by_command_line(roots, name)[..] {
        [] => Err(missing(
            "no process of this name is noted in /run/libvirt, /run/user/*/libvirt, /run/qemu-server (Proxmox: the number of the guest) or \
             /run/systemd/machines, and no QEMU has it as -name, no firecracker as --id; see virsh list, qm list or machinectl",
        )),
        [only] => Ok(only.clone()),
        [one, other, ..] => Err(Error::SeveralCgroups {
            target: format!("virtual machine {name}"),
            cgroups: [one, other].map(ToString::to_string),
        }),
    }
}

/// The processes whose command line names a machine so.
fn by_command_line(roots: &Roots, name: &str) -> Vec<Found> {
    let named = |pid, comm: &str| {
        let text = read::text(&roots.proc.join(format!("{pid}/cmdline"))).ok()?;
        let (program, machine) = machine_of(comm, &text)?;
        let how = format!("{program}, process {pid}");
        (machine == name).then_some(Found { at: Meant::Pid(pid), how })
    };
    living(roots).filter_map(|(pid, comm)| named(pid, &comm)).collect()
}

/// The program and the name of the machine that a command line starts. QEMU takes `NAME` and `guest=NAME`, with other keys beside it
/// (qemu(1), `-name`).
fn machine_of<'a>(comm: &str, command_line: &'a str) -> Option<(&'static str, &'a str)> {
    let (program, option) = match comm {
        "firecracker" => ("firecracker", "--id"),
        "kvm" | "qemu-kvm" => ("QEMU", "-name"),
        comm if comm.starts_with("qemu-system-") => ("QEMU", "-name"),
        _ => return None,
    };
    let mut words = command_line.split('\0');
    let value = words.find_map(|word| match word.strip_prefix(option)? {
        "" => Some(None),
        rest => rest.strip_prefix('=').map(Some),
    })?;
    let value = value.or_else(|| words.next())?;
    let parts = value.split(',').map(|part| part.split_once('=').unwrap_or(("guest", part)));
    let name = parts.filter(|(key, _)| *key == "guest").map(|(_, name)| name).next()?;
    Some((program, name))
}

/// The cgroup of a process up to the part that is the machine's; the process, if there is none.
fn at(roots: &Roots, by: &str, pid: i32, is_meant: impl Fn(&str) -> bool) -> Found {
    let text = read::text(&roots.proc.join(format!("{pid}/cgroup"))).unwrap_or_default();
    let path = text.lines().find_map(|line| up_to(line, &is_meant));
    Found { at: path.map_or(Meant::Pid(pid), Meant::Cgroup), how: format!("{by}, process {pid}") }
}

/// Where libvirt notes processes: for the host, and for the session of each user.
fn directories(roots: &Roots) -> Vec<PathBuf> {
    let host = ["qemu", "lxc", "ch"].map(|driver| roots.run.join("libvirt").join(driver));
    let users = read::entries(&roots.run.join("user"), |uid| uid.parse::<u32>().ok());
    let sessions = users.into_values().map(|user| user.join("libvirt/qemu/run"));
    host.into_iter().chain(sessions).collect()
}

fn uid(path: PathBuf) -> Option<u32> {
    Some(fs::metadata(path).ok()?.uid())
}

/// Whether this is the name of a machine's cgroup: `machine-qemu\x2d1\x2dNAME.scope` where systemd makes it, else
/// `qemu-1-NAME.libvirt-qemu` (libvirt, src/util/vircgroup.c, `virCgroupNewMachine`).
fn is_machine(part: &str) -> bool {
    (part.starts_with("machine-") && part.ends_with(".scope"))
        || part.rsplit_once(".libvirt-").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn places(fake: &Fake, names: &[&str]) -> Vec<String> {
        let place = |name: &&str| match find(&fake.roots(), name) {
            Ok(place) => place.to_string(),
            Err(error) => error.to_string(),
        };
        names.iter().map(place).collect()
    }

    #[test]
    fn a_machine_is_its_cgroup_or_else_its_process() {
        let fake = Fake::new();
        let v2 = "0::/machine.slice/machine-qemu\\x2d3\\x2ddb.scope/libvirt/emulator\n";
        let v1 = "5:cpuset:/machine/qemu-1-web.libvirt-qemu/emulator\n1:name=systemd:/\n";
        for (pid, name, cgroup) in [(100, "db", v2), (101, "web", v1), (102, "own", "0::/x\n")] {
            fake.process(pid, "qemu-system-x86", &["0"]);
            fake.write(&format!("proc/{pid}/cgroup"), cgroup);
            fake.write(&format!("run/libvirt/qemu/{name}.pid"), &format!("{pid}"));
        }
        fake.write("run/libvirt/qemu/gone.pid", "103\n");
        fake.write("run/libvirt/qemu/odd.pid", "x\n");
        let found = places(&fake, &["db", "web", "own"]);
        let scope = "/machine.slice/machine-qemu\\x2d3\\x2ddb.scope";
        assert_eq!(found[0], format!("cgroup {scope} (libvirt, process 100)"));
        assert_eq!(found[1], "cgroup /machine/qemu-1-web.libvirt-qemu (libvirt, process 101)");
        assert_eq!(found[2], "process 102 (libvirt, process 102)");
        for refused in places(&fake, &["gone", "odd", "no", "../qemu/db", ""]) {
            assert!(refused.starts_with("no running virtual machine "), "{refused}");
        }
    }

    #[test]
    fn a_guest_of_proxmox_has_a_number() {
        let fake = Fake::new();
        fake.process(100, "kvm", &["0"]);
        fake.write("proc/100/cgroup", "0::/qemu.slice/105.scope\n");
        fake.write("run/qemu-server/105.pid", "100\n");
        assert_eq!(
            places(&fake, &["105"]),
            ["cgroup /qemu.slice/105.scope (Proxmox, process 100)"]
        );
        let error = &places(&fake, &["106"])[0];
        for place in ["/run/libvirt", "/run/qemu-server", "/run/systemd/machines"] {
            assert!(error.contains(place), "{error}");
        }
    }

    #[test]
    fn a_machine_without_a_manager_is_named_by_its_command_line() {
        let fake = Fake::new();
        for (pid, comm, command_line) in [
            (
                100,
                "qemu-system-x86",
                "/usr/bin/qemu-system-x86_64\0-S\0-name\0guest=db,debug-threads=on\0",
            ),
            (101, "qemu-kvm", "/usr/libexec/qemu-kvm\0-name\0web\0-S\0"),
            (102, "firecracker", "/firecracker\0--id=fc-1\0--no-api\0"),
            (103, "firecracker", "/firecracker\0--id\0two\0"),
            (104, "firecracker", "/firecracker\0--id\0two\0"),
            // Others may have such words, too.
            (105, "sh", "sh\0-name\0odd\0"),
            (106, "kvm", "kvm\0-name\0"),
        ] {
            fake.process(pid, comm, &["0"]);
            fake.write(&format!("proc/{pid}/cmdline"), command_line);
        }
        let found = places(&fake, &["db", "web", "fc-1", "two", "odd", ""]);
        assert_eq!(found[0], "process 100 (QEMU, process 100)");
        assert_eq!(found[1], "process 101 (QEMU, process 101)");
        assert_eq!(found[2], "process 102 (firecracker, process 102)");
        for pid in ["process 103", "process 104"] {
            assert!(found[3].contains(pid), "{}", found[3]);
        }
        for refused in &found[4..] {
            assert!(refused.starts_with("no running virtual machine "), "{refused}");
        }
    }

    #[test]
    fn a_user_notes_own_processes_alone() {
        let fake = Fake::new();
        fake.process(100, "qemu-system-x86", &["0"]);
        fake.write("run/user/1000/libvirt/qemu/run/db.pid", "100");
        let note = fake.path("run/user/1000/libvirt/qemu/run/db.pid");
        if std::os::unix::fs::chown(&note, Some(1000), None).is_err() {
            return println!("SKIPPED: only root may give files to others");
        }
        assert!(places(&fake, &["db"])[0].starts_with("no running virtual machine db"));
        std::os::unix::fs::chown(fake.path("proc/100"), Some(1000), None).expect("it is root");
        assert_eq!(places(&fake, &["db"])[0], "process 100 (libvirt, process 100)");
    }
}
