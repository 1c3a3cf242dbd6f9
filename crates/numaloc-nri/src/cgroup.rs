//! From the name that a runtime gives to a container's cgroup (`linux.cgroupsPath` of the OCI runtime specification) to
//! its path.

/// The path as in /proc/PID/cgroup, or `None` if it does not follow from the name: numalocd then looks for the cgroup
/// by the container's id.
///
/// A name is an absolute path (cgroupfs), or `slice:prefix:name` (systemd), which runc and crun make to the scope
/// `prefix-name.scope` in that slice (runc: `libcontainer/cgroups/systemd/common.go`, getUnitName and ExpandSlice).
pub fn path(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix('/') {
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        return rest.split('/').all(is_part).then(|| format!("/{rest}"));
    }
    let mut parts = name.split(':');
    let (slice, prefix, name) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !is_part(name) || prefix.contains('/') {
        return None;
    }
    let unit = match name.ends_with(".slice") {
        true => name.to_owned(),
        false => format!("{prefix}-{name}.scope"),
    };
    // The default of runc.
    let slice = if slice.is_empty() { "system.slice" } else { slice };
    Some(format!("{}/{unit}", expanded(slice)?))
}

/// The path of a systemd slice: `a-b.slice` is in `a.slice` (systemd.slice(5)).
fn expanded(slice: &str) -> Option<String> {
    let name = slice.strip_suffix(".slice").filter(|name| is_part(name))?;
    if name == "-" {
        return Some(String::new());
    }
    let mut path = String::new();
    for (at, _) in name.match_indices('-').chain([(name.len(), "")]) {
        let part = &name[..at];
        if part.is_empty() || part.ends_with('-') {
            return None;
        }
        path.push('/');
        path.push_str(part);
        path.push_str(".slice");
    }
    Some(path)
}

fn is_part(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_both_drivers_are_understood() {
        for (name, expected) in [
            ("/kubepods/besteffort/podu1/c1", Some("/kubepods/besteffort/podu1/c1")),
            ("/k8s.io/c1/", Some("/k8s.io/c1")),
            (
                "kubepods-burstable-podab_cd.slice:cri-containerd:c1",
                Some(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podab_cd.slice/cri-containerd-c1.scope",
                ),
            ),
            ("kubepods.slice:crio:c1", Some("/kubepods.slice/crio-c1.scope")),
            (":cri-containerd:c1", Some("/system.slice/cri-containerd-c1.scope")),
            ("-.slice:x:c1", Some("/x-c1.scope")),
            ("a.slice:x:b.slice", Some("/a.slice/b.slice")),
            ("", None),
            ("/", None),
            ("relative/path", None),
            ("/a/../b", None),
            ("/a//b", None),
            ("a:b", None),
            ("a.slice:b:c:d", None),
            ("a.service:b:c", None),
            ("a--b.slice:x:c", None),
            ("-a.slice:x:c", None),
            ("a-.slice:x:c", None),
            ("a.slice:x:", None),
            ("a.slice:x:../c", None),
            ("a/b.slice:x:c", None),
        ] {
            assert_eq!(path(name).as_deref(), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_found_is_a_path(name in "[-a.:/]{0,24}|\\PC{0,24}") {
            if let Some(path) = path(&name) {
                prop_assert!(path.starts_with('/') && path[1..].split('/').all(is_part), "{}", path);
            }
        }
    }
}
