//! `numalocctl version`.

use crate::{
    args::Cli,
    exit::Code,
    exit::Failure,
    output::{Report, render},
};
use serde::Serialize;

#[derive(Serialize)]
struct VersionDoc {
    version: &'static str,
}

/// Shows the version.
pub fn run(cli: &Cli) -> Result<Report, Failure> {
    let document = VersionDoc { version: env!("CARGO_PKG_VERSION") };
    let line = |document: &VersionDoc, _| format!("numalocctl {}\n", document.version);
    Ok(Report { text: render(&document, cli.output, true, line)?, code: Code::Done })
}
