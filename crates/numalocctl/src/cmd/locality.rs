//! Carries out `numalocctl locality`, by the daemon or this program itself.

use super::{Surroundings, daemon, files, map, name_left_out, shown};
use crate::{
    args::{Cli, LocalityArgs, TargetArgs},
    exit::{Code, Failure},
    inspect,
    output::CommandResult,
    text,
};
use numaloc_api::v1;
use numaloc_host::{Roots, numa_stat};

/// Shows where the memory of a target is.
pub fn run(
    cli: &Cli,
    around: &Surroundings,
    LocalityArgs { target, files, draw: picture }: &LocalityArgs,
) -> Result<CommandResult, Failure> {
    if files.is_given() {
        return files::locality(cli, around, &files.files, picture.draw.is_some());
    }
    if let Some(file) = &picture.draw {
        return map::run(cli, around, target, file.as_deref(), picture);
    }
    let (answer, topology) = match daemon(cli, around)? {
        Some(daemon) => {
            let answer = daemon.locality(&target.request())?;
            (answer, daemon.topology()?.topology.unwrap_or_default())
        }
        None => here(&around.roots, target)?,
    };
    let shown = shown(cli, &answer, |answer, view| text::locality(answer, &topology, view))?;
    name_left_out(cli, &answer.missing);
    Ok(CommandResult { code: Code::left_out(&answer.missing), ..shown })
}

fn here(
    roots: &Roots,
    target: &TargetArgs,
) -> Result<(v1::GetLocalityResponse, v1::Topology), Failure> {
    let inspected = inspect::to_see(roots, target)?;
    let stat = |path: &String| Some((path.clone(), numa_stat(roots, path)?));
    let cgroups: Vec<_> = target.cgroup.iter().filter_map(stat).collect();
    Ok((inspected.locality(&cgroups), (&inspected.topology).into()))
}
