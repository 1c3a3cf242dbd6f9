//! The names by which people know cgroups: those of the containers, pods and machines that they are of.
//!
//! This is the way back from what `--container` and `--pod` find ([`super::runtimes`], [`super::machines`]).

use crate::{
    Roots,
    processes::{
        containers::{container_of, pod},
        machines::{self, LXC_PAYLOAD},
        runtime_files::RuntimeFiles,
        runtimes::RuntimeLists,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The shortest time between two readings, which find names of new containers.
const NEW: Duration = Duration::from_secs(10);
/// The time after which names are read again that may have changed.
const AGAIN: Duration = Duration::from_secs(300);

/// The names that were read last.
#[derive(Debug, Default)]
pub(crate) struct GroupNames {
    /// By the full id of a container.
    containers: BTreeMap<String, String>,
    /// By the uid of a pod.
    pods: BTreeMap<String, String>,
    /// By the unit that systemd-machined has registered.
    machines: BTreeMap<String, String>,
    read_at: Option<Duration>,
    /// Cgroups that might have had a name at the last reading.
    seen: BTreeSet<String>,
}

impl GroupNames {
    /// Reads the names again, if these are cgroups of containers that were not there before, or if they are old. `now` is the time
    /// since any one moment.
    pub(crate) fn keep(&mut self, roots: &Roots, cgroups: &BTreeSet<&str>, now: Duration) {
        let may_have_one = |cgroup: &&&str| is_named(cgroup);
        let named: BTreeSet<&str> = cgroups.iter().filter(may_have_one).copied().collect();
        let age = self.read_at.map(|at| now.saturating_sub(at));
        let has_new = || named.iter().any(|cgroup| !self.seen.contains(*cgroup));
        let is_due = match age {
            None => true,
            Some(age) => age >= AGAIN || (age >= NEW && has_new()),
        };
        if named.is_empty() || !is_due {
            return;
        }
        let files = RuntimeFiles::new(roots, &|| false);
        let lists = RuntimeLists::new(&files);
        self.containers = lists.names_of_containers();
        self.pods = lists.names_of_pods();
        self.machines = machines::names_by_unit(roots);
        self.read_at = Some(now);
        self.seen = named.into_iter().map(str::to_owned).collect();
    }

    /// The name of a cgroup: `NAMESPACE/POD/CONTAINER` with Kubernetes, else that of the container or machine, or `NAMESPACE/POD`. What is
    /// below the container's cgroup in its path follows. `None`: it has no name, or none that is known.
    pub(crate) fn of(&self, cgroup: &str) -> Option<String> {
        let parts: Vec<&str> = cgroup.split('/').collect();
        let container = |part: &str| self.containers.get(container_of(part)?).cloned();
        let machine = |part: &str| {
            let lxc = part.strip_prefix(LXC_PAYLOAD).map(str::to_owned);
            lxc.or_else(|| self.machines.get(part).cloned())
        };
        let pod = |part: &str| self.pods.get(&pod(part)?).cloned();
        let lxc = matches!(parts[..], ["", "lxc", name, ..] if !name.is_empty());
        let first = |name: &dyn Fn(&str) -> Option<String>| {
            parts.iter().enumerate().find_map(|(at, part)| Some((at, name(part)?)))
        };
        let (at, name) = first(&container)
            .or_else(|| first(&machine))
            .or_else(|| lxc.then(|| (2, parts[2].to_owned())))
            .or_else(|| first(&pod))?;
        Some([&[name.as_str()], &parts[at + 1..]].concat().join("/"))
    }
}

/// Whether a cgroup looks like that of a container, a pod or a machine.
fn is_named(cgroup: &str) -> bool {
    let is_machine = |part: &str| {
        part.starts_with(LXC_PAYLOAD)
            || part.starts_with("machine-")
            || part.starts_with("systemd-nspawn@")
            || pod(part).is_some()
    };
    container_of(cgroup).is_some() || cgroup.split('/').any(is_machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn id(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    fn names(fake: &Fake, cgroups: &[&str]) -> Vec<Option<String>> {
        let mut names = GroupNames::default();
        names.keep(&fake.roots(), &cgroups.iter().copied().collect(), Duration::ZERO);
        cgroups.iter().map(|cgroup| names.of(cgroup)).collect()
    }

    #[test]
    fn containers_of_all_runtimes_have_their_names() {
        let fake = Fake::new();
        let [d, p, n, k, x] = ['d', 'a', 'b', 'c', 'e'].map(id);
        fake.write(&format!("var/lib/docker/containers/{d}/config.v2.json"), r#"{"Name":"/web"}"#);
        let podman = format!(r#"[{{"id":"{p}","names":["db","alias"]}}]"#);
        fake.write("var/lib/containers/storage/overlay-containers/containers.json", &podman);
        fake.write("var/lib/nerdctl/1935db59/names/default/cache", &format!("{n}\n"));
        fake.write(&format!("var/log/containers/web-0_prod_nginx-{k}.log"), "");
        fake.write("var/log/pods/prod_web-0_1ad5-77/nginx/0.log", "");
        let cgroups = [
            format!("/system.slice/docker-{d}.scope"),
            format!("/machine.slice/libpod-{p}.scope/container"),
            format!("/system.slice/nerdctl-{n}.scope"),
            format!("/kubepods.slice/kubepods-pod1ad5_77.slice/cri-containerd-{k}.scope"),
            format!("/kubepods.slice/kubepods-pod1ad5_77.slice/cri-containerd-{x}.scope"),
            "/kubepods/burstable/pod1ad5-77".to_owned(),
            format!("/docker/{x}"),
            "/system.slice/redis.service".to_owned(),
        ];
        let found = names(&fake, &cgroups.each_ref().map(String::as_str));
        let expected = [
            Some("web".to_owned()),
            Some("alias/container".to_owned()),
            Some("cache".to_owned()),
            Some("prod/web-0/nginx".to_owned()),
            Some(format!("prod/web-0/cri-containerd-{x}.scope")),
            Some("prod/web-0".to_owned()),
            None,
            None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn machines_have_theirs() {
        let fake = Fake::new();
        let nspawn = "NAME=web\nSCOPE=systemd-nspawn@web.service\nCLASS=container\n";
        fake.write("run/systemd/machines/web", nspawn);
        let vm = "NAME=qemu-1-db\nSCOPE=machine-qemu\\x2d1\\x2ddb.scope\nCLASS=vm\n";
        fake.write("run/systemd/machines/qemu-1-db", vm);
        fake.write("run/systemd/machines/unit:web.service", vm);
        let cgroups = [
            "/machine.slice/systemd-nspawn@web.service/payload",
            "/machine.slice/machine-qemu\\x2d1\\x2ddb.scope/libvirt/emulator",
            "/lxc.payload.mail/system.slice/postfix.service",
            "/lxc/100/ns",
            "/lxc/",
        ];
        let expected = [
            Some("web/payload"),
            Some("qemu-1-db/libvirt/emulator"),
            Some("mail/system.slice/postfix.service"),
            Some("100/ns"),
            None,
        ];
        assert_eq!(names(&fake, &cgroups), expected.map(|name| name.map(str::to_owned)));
    }

    #[test]
    fn names_are_read_again_for_new_containers_and_when_they_are_old() {
        let fake = Fake::new();
        let [a, b] = ['a', 'b'].map(|digit| format!("/docker/{}", id(digit)));
        let write = |digit: char, name: &str| {
            let path = format!("var/lib/docker/containers/{}/config.v2.json", id(digit));
            fake.write(&path, &format!(r#"{{"Name":"/{name}"}}"#));
        };
        write('a', "one");
        let mut names = GroupNames::default();
        let mut at = |seconds, cgroups: &[&String]| {
            let all = cgroups.iter().map(|cgroup| cgroup.as_str()).collect();
            names.keep(&fake.roots(), &all, Duration::from_secs(seconds));
            cgroups.iter().map(|cgroup| names.of(cgroup)).collect::<Vec<_>>()
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(at(0, &[&a]), [name("one")]);
        write('a', "renamed");
        write('b', "two");
        assert_eq!(at(9, &[&a, &b]), [name("one"), None], "it was read a moment ago");
        assert_eq!(at(10, &[&a]), [name("one")], "there is nothing new");
        assert_eq!(at(11, &[&a, &b]), [name("renamed"), name("two")]);
        write('b', "other");
        assert_eq!(at(300, &[&b]), [name("two")]);
        assert_eq!(at(311, &[&b]), [name("other")]);
    }
}
