//! Carries out `numalocctl dsa`, which looks at this host only.

use super::{Surroundings, shown};
use crate::{
    args::{Cli, DsaArgs},
    doc::DsaDoc,
    exit::Failure,
    output::CommandResult,
    text,
};
use numaloc_dma::{dsa, kernel};
use numaloc_host::Roots;

/// Shows this host's accelerators, or those of a recorded tree.
pub fn run(cli: &Cli, around: &Surroundings, args: &DsaArgs) -> Result<CommandResult, Failure> {
    let mut roots: Roots = around.roots.clone();
    if let Some(sys) = &args.sys {
        roots.sys.clone_from(sys);
    }
    let document = DsaDoc::new(&dsa::find(&roots), kernel::probe(&roots));
    shown(cli, &document, text::dsa)
}
