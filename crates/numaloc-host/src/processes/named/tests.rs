use super::*;
use crate::{Target, fake::Fake, resolve};
use numaloc_core::Topology;

fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// A host with these cgroups, each with a process: 100, 101 and so on.
fn host(cgroups: &[&str]) -> Fake {
    let fake = Fake::new();
    fake.write("cgroup/cgroup.procs", "");
    for (pid, cgroup) in (100..).zip(cgroups) {
        fake.process(pid, "app", &["0"]);
        fake.write(&format!("cgroup/{cgroup}/cgroup.procs"), &format!("{pid}\n"));
    }
    fake
}

fn docker(fake: &Fake, id: &str, name: &str) {
    let path = format!("var/lib/docker/containers/{id}/config.v2.json");
    fake.write(&path, &format!(r#"{{"Name":"/{name}"}}"#));
}

/// The pids and where they were found, or the error.
fn found(fake: &Fake, kind: NamedKind, name: &str) -> Result<(Vec<i32>, String), String> {
    let target = Target::Named { kind, name: name.to_owned() };
    let resolved = resolve(&fake.roots(), &[target], &Topology::default());
    let resolved = resolved.map_err(|error| error.to_string())?;
    let pids = resolved.processes.iter().map(|process| process.identity.pid).collect();
    Ok((pids, resolved.found[0].1.to_string()))
}

#[test]
fn no_further_file_is_read_for_who_has_gone() {
    let fake = host(&["docker/x"]);
    (0..20).for_each(|number| docker(&fake, &number.to_string(), &format!("web{number}")));
    let (roots, asked) = (fake.roots(), std::cell::Cell::new(0));
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 3
    };
    let names: Vec<String> = (0..20).map(|number| format!("web{number}")).collect();
    let named: Vec<_> = names.iter().map(|name| (NamedKind::Container, name.as_str())).collect();
    let found = find(&roots, &named, &stop);
    assert_eq!(found.len(), 20);
    assert!(found.iter().all(|found| matches!(found, Err(Error::Stopped))), "{found:?}");
    let labels = ["tier".to_owned()].into();
    assert!(matches!(crate::labelled(&roots, &labels, &|| true), Err(Error::Stopped)));
}

#[test]
fn a_container_is_known_by_name_and_by_id() {
    let (a, b) = (id('a'), id('b'));
    let fake = host(&[&format!("docker/{a}"), &format!("docker/{b}")]);
    docker(&fake, &a, "web");
    let by = |name: &str| found(&fake, NamedKind::Container, name);
    let place = |how: &str| Ok((vec![100], format!("cgroup /docker/{a} ({how})")));
    assert_eq!(by("web"), place("Docker aaaaaaaaaaaa"));
    assert_eq!(by(&a), place("by id"));
    assert_eq!(by(&a[..12]), place("by id"));
    assert_eq!(by(&a[..12].to_uppercase()), place("by id"));
    assert_eq!(by("bbbbbbbbbbbbb").map(|(pids, _)| pids), Ok(vec![101]));
    for unknown in ["no", &a[..11], "", "docker", "/docker", "..", &format!("{a}a")] {
        let error = by(unknown).expect_err(unknown);
        assert!(error.starts_with(&format!("no running container {unknown}: Docker, ")), "{error}");
    }
}

#[test]
fn a_container_of_lxc_is_known_by_name_unless_a_runtime_has_one_too() {
    let a = id('a');
    let fake = host(&["lxc.payload.web", &format!("docker/{a}")]);
    let by = |name: &str| found(&fake, NamedKind::Container, name);
    assert_eq!(by("web"), Ok((vec![100], "cgroup /lxc.payload.web (LXC)".to_owned())));
    docker(&fake, &a, "web");
    let error = by("web").expect_err("both run");
    assert!(error.contains("/lxc.payload.web") && error.contains(&a), "{error}");
    let error = by("db").expect_err("there is none");
    for place in ["/run/k3s", "lxc.payload.", "systemd-machined"] {
        assert!(error.contains(place), "{error}");
    }
}

#[test]
fn the_one_that_runs_is_meant() {
    let [a, b, c] = ['a', 'b', 'c'].map(id);
    let fake = host(&[&format!("docker/{a}"), &format!("docker/{b}")]);
    for (id, name) in [(&a, "web"), (&b, "db"), (&c, "gone")] {
        docker(&fake, id, name);
    }
    fake.write("var/lib/nerdctl/1935db59/names/default/web", &c);
    let by = |name: &str| found(&fake, NamedKind::Container, name);
    assert_eq!(by("web").map(|(pids, _)| pids), Ok(vec![100]), "nerdctl's is stopped");
    let error = by("gone").expect_err("it is stopped");
    assert_eq!(
        error,
        "no running container gone: it is listed (Docker cccccccccccc), but has no cgroup"
    );
    fake.write("var/lib/nerdctl/1935db59/names/default/web", &b);
    let error = by("web").expect_err("both run");
    let both = format!(
        "/docker/{a} (Docker aaaaaaaaaaaa) and /docker/{b} (nerdctl bbbbbbbbbbbb): name its cgroup"
    );
    assert_eq!(error, format!("container web may be {both}"));
}

#[test]
fn a_pod_is_known_by_name_and_by_uid() {
    let fake = host(&[
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1ad5_77.slice",
        "kubepods.slice/kubepods-pod1ad5_78.slice",
    ]);
    for directory in ["prod_web-0_1ad5-77", "test_web-0_1ad5-78", "prod_web-0_1ad5-76"] {
        fake.write(&format!("var/log/pods/{directory}/nginx/0.log"), "");
    }
    let by = |name: &str| found(&fake, NamedKind::Pod, name);
    let slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1ad5_77.slice";
    let place = Ok((vec![100], format!("cgroup {slice} (uid 1ad5-77)")));
    assert_eq!(by("prod/web-0"), place, "the other one has gone");
    assert_eq!(by("1ad5-77"), place);
    assert_eq!(by("test/web-0").map(|(pids, _)| pids), Ok(vec![101]));
    assert!(by("web-0").is_err_and(|error| error.contains("may be ")));
    assert!(by("prod/web-1").is_err_and(|error| error.contains("expected NAMESPACE/NAME")));
}

#[test]
fn what_one_name_lacks_does_not_hide_the_others() {
    let a = id('a');
    let fake = host(&[&format!("docker/{a}")]);
    docker(&fake, &a, "web");
    let named = |kind, name: &str| Target::Named { kind, name: name.to_owned() };
    let targets = [
        named(NamedKind::VirtualMachine, "vm"),
        named(NamedKind::Container, "no"),
        named(NamedKind::Container, "web"),
        Target::Pid(100),
    ];
    let resolved = resolve(&fake.roots(), &targets, &Topology::default()).expect("one runs");
    assert_eq!(resolved.missing.iter().map(|left| left.target).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(resolved.found.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [2]);
    assert_eq!(resolved.processes.len(), 1);
    // Later looks mean what was found, even if another container has the name by then.
    let cgroup = Target::Cgroup(format!("/docker/{a}"));
    let found = [&targets[..2], &[cgroup, Target::Pid(100)]].concat();
    assert_eq!(resolved.found_targets(), found);
}
