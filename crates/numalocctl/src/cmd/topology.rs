//! `numalocctl topology`.

use crate::{
    args::{Cli, TopologyArgs},
    doc::TopologyDoc,
    exit::Code,
    exit::Failure,
    output::{Report, render},
    text,
};
use numaloc_host::{Roots, topology};

/// Shows the machine.
pub fn run(cli: &Cli, roots: &Roots, args: TopologyArgs) -> Result<Report, Failure> {
    let document = TopologyDoc::from(&topology::topology(roots)?);
    let text = match args.numactl {
        true => text::numactl(&document),
        false => render(&document, cli.output, !cli.no_headers, text::topology)?,
    };
    Ok(Report { text, code: Code::Done })
}
