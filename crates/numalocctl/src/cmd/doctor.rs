//! `numalocctl doctor`.

use crate::{
    args::Cli,
    check::{Findings, checks},
    doc::DoctorDoc,
    exit::Failure,
    output::{Report, render},
    text,
};
use numaloc_host::{Roots, facts, probe, topology};

/// Checks the host.
pub fn run(cli: &Cli, roots: &Roots) -> Result<Report, Failure> {
    let found = Findings {
        facts: facts::read(roots),
        pfns_readable: probe::pfns_readable(roots),
        pagemap_scan: probe::pagemap_scan(roots),
        topology: topology::topology(roots),
    };
    let document = DoctorDoc::from(checks(&found));
    let text = render(&document, cli.output, !cli.no_headers, text::doctor)?;
    Ok(Report { text, code: document.code() })
}
