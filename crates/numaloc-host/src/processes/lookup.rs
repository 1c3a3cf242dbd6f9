//! Where targets are: processes by pid, and the cgroups that others name, directly, as units, or as containers, pods and virtual
//! machines.

use crate::{
    Error, Roots, Target,
    processes::{
        found::{Found, Meant, NamedKind},
        named, unit,
    },
};
use numaloc_core::Identity;

/// The processes or cgroups found for a target.
#[derive(Debug)]
pub(crate) enum Whereabouts<'t> {
    /// The process that has this pid now.
    Pid(i32),
    /// One process, in the boot in which it started.
    Process { identity: Identity, boot_id: &'t str },
    /// The result of searching the cgroup tree, or of asking systemd or a runtime.
    Found(Result<Found, Error>),
}

/// Where each target is, in their order. systemd is asked, and the cgroups are walked, once for all. Names are not looked up any further once `stop` is true.
pub(crate) fn find<'t>(
    roots: &Roots,
    targets: &'t [Target],
    stop: &dyn Fn() -> bool,
) -> Vec<Whereabouts<'t>> {
    let mut places = Vec::with_capacity(targets.len());
    let (mut units, mut names) = (Vec::new(), Vec::new());
    for (index, target) in targets.iter().enumerate() {
        match target {
            Target::Pid(pid) => places.push((index, Whereabouts::Pid(*pid))),
            Target::Process { identity, boot_id } => {
                places.push((index, Whereabouts::Process { identity: *identity, boot_id }));
            }
            Target::Cgroup(path) => {
                let found = Found { at: Meant::Cgroup(path.clone()), how: String::new() };
                places.push((index, Whereabouts::Found(Ok(found))));
            }
            Target::Unit(name) => units.push((index, name.as_str())),
            Target::Named { kind, name } => names.push((index, (*kind, name.as_str()))),
        }
    }
    let (at, units): (Vec<usize>, Vec<&str>) = units.into_iter().unzip();
    let by_systemd = |path| Found { at: Meant::Cgroup(path), how: "systemd".to_owned() };
    let of_units = unit::control_groups(&units).into_iter().map(|path| path.map(by_systemd));
    places.extend(at.into_iter().zip(of_units.map(Whereabouts::Found)));
    let (at, names): (Vec<usize>, Vec<(NamedKind, &str)>) = names.into_iter().unzip();
    let of_names = named::find(roots, &names, stop).into_iter();
    places.extend(at.into_iter().zip(of_names.map(Whereabouts::Found)));
    places.sort_by_key(|(index, _)| *index);
    places.into_iter().map(|(_, place)| place).collect()
}
