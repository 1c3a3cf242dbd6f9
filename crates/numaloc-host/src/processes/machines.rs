//! Containers and virtual machines of managers that keep no list of their own where a runtime's would be.
//!
//! | manager | what names them | source |
//! |---|---|---|
//! | LXC, Incus, LXD | the cgroup `lxc.payload.NAME`; `lxc/NAME` before LXC 4 and with Proxmox | lxc, src/lxc/cgroups/cgfsng.c, `cgfsng_payload_create` |
//! | systemd-machined | `/run/systemd/machines/NAME` | systemd, src/machine/machine.c, `machine_save` |

use crate::{
    Roots,
    files::read,
    processes::{
        cgroup,
        found::{Found, Meant, NamedKind},
        runtimes::is_file_name,
    },
};
use std::{collections::BTreeMap, path::PathBuf};

/// The cgroup of a container of LXC has this and its name.
pub(crate) const LXC_PAYLOAD: &str = "lxc.payload.";

/// The containers of this name with LXC, Incus, LXD or systemd-machined. Only root can make what names them.
pub(crate) fn containers(roots: &Roots, name: &str) -> Vec<Found> {
    if !is_file_name(name) {
        return Vec::new();
    }
    let names = [format!("{LXC_PAYLOAD}{name}"), format!("lxc/{name}")];
    let is_there = |path: &String| {
        cgroup::hierarchies(&roots.cgroup).iter().any(|root| root.join(path).is_dir())
    };
    let lxc = names.into_iter().filter(is_there);
    let lxc =
        lxc.map(|path| Found { at: Meant::Cgroup(format!("/{path}")), how: "LXC".to_owned() });
    lxc.chain(registered(roots, NamedKind::Container, name)).collect()
}

/// The container or virtual machine that systemd-machined has registered by this name.
pub(crate) fn registered(roots: &Roots, kind: NamedKind, name: &str) -> Option<Found> {
    let class = match kind {
        NamedKind::Container => "container",
        NamedKind::VirtualMachine => "vm",
        NamedKind::Pod => return None,
    };
    if !is_file_name(name) {
        return None;
    }
    let text = read::text(&registrations(roots).join(name)).ok()?;
    let fields = fields(&text);
    let leader: i32 = fields.get("LEADER")?.parse().ok()?;
    if fields.get("CLASS") != Some(&class) {
        return None;
    }
    let cgroups = read::text(&roots.proc.join(format!("{leader}/cgroup"))).ok()?;
    let unit = fields.get("SCOPE").copied().unwrap_or_default();
    let path = cgroups.lines().find_map(|line| up_to(line, |part| part == unit));
    let at = path.map_or(Meant::Pid(leader), Meant::Cgroup);
    Some(Found { at, how: format!("systemd-machined, process {leader}") })
}

/// Where systemd-machined keeps a file for each machine.
fn registrations(roots: &Roots) -> PathBuf {
    roots.run.join("systemd/machines")
}

fn fields(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once('=')).collect()
}

/// The names of the machines that systemd-machined has registered, by their units. It keeps links from units to names there, too, which
/// are left out.
pub(crate) fn names_by_unit(roots: &Roots) -> BTreeMap<String, String> {
    let name = |file: &str| (!file.contains(':')).then(|| file.to_owned());
    let unit = |(name, path): (String, PathBuf)| {
        let text = read::text(&path).ok()?;
        Some(((*fields(&text).get("SCOPE")?).to_owned(), name))
    };
    read::entries(&registrations(roots), name).into_iter().filter_map(unit).collect()
}

/// The path in a line of /proc/PID/cgroup, up to the first part that is meant.
pub(crate) fn up_to(line: &str, is_meant: impl Fn(&str) -> bool) -> Option<String> {
    let path = line.splitn(3, ':').nth(2).filter(|path| !path.contains("/.."))?;
    let parts: Vec<&str> = path.split('/').collect();
    let last = parts.iter().position(|part| is_meant(part))?;
    Some(parts[..=last].join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn shown(found: impl IntoIterator<Item = Found>) -> Vec<String> {
        found.into_iter().map(|found| found.to_string()).collect()
    }

    #[test]
    fn containers_of_lxc_are_their_cgroups() {
        let fake = Fake::new();
        fake.write("cgroup/cgroup.procs", "");
        fake.write("cgroup/lxc.payload.my-web/cgroup.procs", "");
        fake.write("cgroup/lxc/100/cgroup.procs", "");
        let found = |name: &str| shown(containers(&fake.roots(), name));
        assert_eq!(found("my-web"), ["cgroup /lxc.payload.my-web (LXC)"]);
        assert_eq!(found("100"), ["cgroup /lxc/100 (LXC)"]);
        for other in ["web", "..", "", "100/x"] {
            assert!(found(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn what_machined_has_registered_is_found_by_its_class() {
        let fake = Fake::new();
        for (pid, name, class, scope) in [
            (100, "web", "container", "systemd-nspawn@web.service"),
            (101, "qemu-1-db", "vm", "machine-qemu\\x2d1\\x2ddb.scope"),
        ] {
            fake.process(pid, "x", &["0"]);
            let cgroup = format!("0::/machine.slice/{scope}/payload/init.scope\n");
            fake.write(&format!("proc/{pid}/cgroup"), &cgroup);
            let text = format!(
                "# This is private data. Do not parse.\nNAME={name}\nSCOPE={scope}\nCLASS={class}\nLEADER={pid}\n"
            );
            fake.write(&format!("run/systemd/machines/{name}"), &text);
        }
        let found = |kind, name: &str| shown(registered(&fake.roots(), kind, name));
        let web =
            "cgroup /machine.slice/systemd-nspawn@web.service (systemd-machined, process 100)";
        assert_eq!(found(NamedKind::Container, "web"), [web]);
        assert!(found(NamedKind::VirtualMachine, "web").is_empty());
        let db =
            "cgroup /machine.slice/machine-qemu\\x2d1\\x2ddb.scope (systemd-machined, process 101)";
        assert_eq!(found(NamedKind::VirtualMachine, "qemu-1-db"), [db]);
        assert!(
            found(NamedKind::Pod, "web").is_empty() && found(NamedKind::Container, "..").is_empty()
        );
    }
}
