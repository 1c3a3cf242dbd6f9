//! Containers that a target means by their own labels.

use crate::{Aim, Error, Member};
use numaloc_api::value::{Missing, Target};
use numaloc_host::{Roots, Target as HostTarget, labelled};
use std::{borrow::Cow, mem};

/// The aim with a member for each container that runs and has one of its labels. A label that no such container has is
/// missing.
///
/// # Errors
/// The host cannot be read.
pub fn with_labelled<'a>(
    roots: &Roots,
    aim: &'a Aim,
    stop: &dyn Fn() -> bool,
) -> Result<Cow<'a, Aim>, Error> {
    if aim.container_labels.is_empty() {
        return Ok(Cow::Borrowed(aim));
    }
    let mut aim = aim.clone();
    for (label, found) in labelled(roots, &mem::take(&mut aim.container_labels), stop)? {
        match found {
            Ok(containers) => {
                for (id, path) in containers {
                    let target = HostTarget::Cgroup(path);
                    if aim.members.iter().all(|member| member.target != target) {
                        aim.members.push(Member { target, name: Target::container(&id) });
                    }
                }
            }
            Err(error) if error.is_of_target() => {
                let label = label.to_owned();
                let member = Target { container_labels: [label].into(), ..Target::default() };
                let reason = error.to_string();
                aim.missing.push(Missing { member, reason, processes: 0 });
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Cow::Owned(aim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_container_is_one_member_and_a_label_that_none_has_is_missing() {
        let directory = tempfile::tempdir().expect("a directory");
        let id = "a".repeat(64);
        let path = |path: &str| directory.path().join(path);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(path(name).parent().expect("a file")).expect("a directory");
            fs::write(path(name), text).expect("a file");
        };
        let config = r#"{"Config": {"Labels": {"tier": "db", "app": "x"}}}"#;
        write(&format!("var/lib/docker/containers/{id}/config.v2.json"), config);
        write(&format!("cgroup/docker-{id}.scope/cgroup.procs"), "");
        write("cgroup/cgroup.procs", "");
        let roots = Roots {
            var: path("var"),
            etc: path("etc"),
            run: path("run"),
            cgroup: path("cgroup"),
            ..Roots::default()
        };
        let aim = |labels: &[&str]| Aim {
            container_labels: labels.iter().map(|&label| label.to_owned()).collect(),
            ..Aim::default()
        };
        let aim = aim(&["app", "tier=db", "tier=web"]);
        let found = with_labelled(&roots, &aim, &|| false).expect("readable").into_owned();
        let [member] = &found.members[..] else { panic!("{found:?}") };
        assert_eq!(member.target, HostTarget::Cgroup(format!("/docker-{id}.scope")));
        assert_eq!(member.name, Target::container(&id));
        let [missing] = &found.missing[..] else { panic!("{found:?}") };
        assert!(missing.reason.contains("tier=web"), "{missing:?}");
        assert!(missing.member.container_labels.contains("tier=web"));
        let again = with_labelled(&roots, &found, &|| false).expect("nothing to read");
        assert!(matches!(again, Cow::Borrowed(_)));
    }
}
