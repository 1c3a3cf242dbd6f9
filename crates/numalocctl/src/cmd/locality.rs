//! `numalocctl locality`.

use super::{Surroundings, daemon, map, shown_part};
use crate::{
    args::{Cli, MapArgs, TargetArgs},
    doc::LocalityDoc,
    exit::Failure,
    inspect,
    output::Report,
    text,
};
use numaloc_host::{Roots, numa_stat};

/// Shows where the memory of a target is.
pub fn run(
    cli: &Cli,
    around: &Surroundings,
    target: &TargetArgs,
    picture: &MapArgs,
) -> Result<Report, Failure> {
    if let Some(file) = &picture.map {
        return map::run(cli, around, target, file.as_deref(), picture.map_exact);
    }
    let document = match daemon(cli, around)? {
        Some(daemon) => daemon.locality(&target.request())?,
        None => here(&around.roots, target)?,
    };
    shown_part(cli, &document, document.missing.is_empty(), text::locality)
}

fn here(roots: &Roots, target: &TargetArgs) -> Result<LocalityDoc, Failure> {
    let inspected = inspect::to_see(roots, target)?;
    let stat = |path: &String| Some((path.clone(), numa_stat(roots, path)?));
    let cgroups: Vec<_> = target.cgroup.iter().filter_map(stat).collect();
    Ok(LocalityDoc::new(&inspected, &cgroups))
}
