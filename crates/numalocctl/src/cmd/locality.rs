//! `numalocctl locality`.

use super::{Surroundings, daemon, shown};
use crate::{
    args::{Cli, TargetArgs},
    doc::LocalityDoc,
    exit::Failure,
    inspect,
    output::Report,
    text,
};
use numaloc_host::{Roots, numa_stat};

/// Shows where the memory of a target is.
pub fn run(cli: &Cli, around: &Surroundings, target: &TargetArgs) -> Result<Report, Failure> {
    let document = match daemon(cli, around)? {
        Some(daemon) => daemon.locality(&target.request())?,
        None => here(&around.roots, target)?,
    };
    shown(cli, &document, text::locality)
}

fn here(roots: &Roots, target: &TargetArgs) -> Result<LocalityDoc, Failure> {
    let inspected = inspect::to_see(roots, target)?;
    let stat = |path: &String| Some((path.clone(), numa_stat(roots, path)?));
    let cgroups: Vec<_> = target.cgroup.iter().filter_map(stat).collect();
    Ok(LocalityDoc::new(&inspected.plan, &inspected.topology, inspected.source, &cgroups))
}
