//! `numalocctl locality`.

use crate::{
    args::{Cli, TargetArgs},
    doc::LocalityDoc,
    exit::{Code, Failure},
    look,
    output::{Report, render},
    text,
};
use numaloc_host::{Roots, numa_stat};

/// Shows where the memory of a target is.
pub fn run(cli: &Cli, roots: &Roots, target: &TargetArgs) -> Result<Report, Failure> {
    let look = look::to_see(roots, target)?;
    let stat = |path: &String| Some((path.clone(), numa_stat(roots, path)?));
    let cgroups: Vec<_> = target.cgroup.iter().filter_map(stat).collect();
    let document = LocalityDoc::new(&look.plan, &look.topology, look.source, &cgroups);
    let text = render(&document, cli.output, !cli.no_headers, text::locality)?;
    Ok(Report { text, code: Code::Done })
}
