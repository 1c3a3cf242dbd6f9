//! The cgroups that targets name: directly, as units, or as containers, pods and virtual machines.

use crate::{
    Error, Roots, Target,
    target::{
        named::{self, Found, Meant, NamedKind},
        unit,
    },
};

/// Where each target is, in their order. `None`: it is a process. systemd is asked, and the cgroups are walked, once for all.
pub(crate) fn find(roots: &Roots, targets: &[Target]) -> Vec<Option<Result<Found, Error>>> {
    let units: Vec<&str> = targets.iter().filter_map(Target::unit).collect();
    let mut of_units = unit::control_groups(&units).into_iter();
    let names: Vec<(NamedKind, &str)> = targets.iter().filter_map(Target::named).collect();
    let mut of_names = named::find(roots, &names).into_iter();
    let place = |target: &Target| match target {
        Target::Pid(_) | Target::Process { .. } => None,
        Target::Cgroup(path) => {
            Some(Ok(Found { at: Meant::Cgroup(path.clone()), how: String::new() }))
        }
        Target::Unit(_) => Some(
            of_units
                .next()?
                .map(|path| Found { at: Meant::Cgroup(path), how: "systemd".to_owned() }),
        ),
        Target::Named { .. } => of_names.next(),
    };
    targets.iter().map(place).collect()
}
