//! `numalocctl topology`.

use super::{Surroundings, daemon, shown};
use crate::{
    args::{Cli, TopologyArgs},
    doc::TopologyDoc,
    exit::{Code, Failure},
    output::Report,
    text,
};
use numaloc_host::topology;

/// Shows the machine.
pub fn run(cli: &Cli, around: &Surroundings, args: TopologyArgs) -> Result<Report, Failure> {
    let topology = match daemon(cli, around)? {
        Some(daemon) => daemon.topology()?,
        None => topology::by_hwloc(&around.roots)?,
    };
    let document = TopologyDoc::from(&topology);
    match args.numactl {
        true => Ok(Report { text: text::numactl(&document), code: Code::Done }),
        false => shown(cli, &document, text::topology),
    }
}
