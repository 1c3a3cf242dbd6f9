//! `numalocctl doctor`.

use super::Surroundings;
use crate::{
    args::{Cli, ConnectArgs},
    check::{DaemonState, Findings, checks},
    doc::DoctorDoc,
    exit::Failure,
    output::{Report, render},
    place::{self, Place},
    remote::Daemon,
    text,
};
use numaloc_host::{check_page_size, facts, node_room, probe, topology};
use std::time::Duration;

/// Longest wait for the daemon.
const PATIENCE: Duration = Duration::from_secs(5);

/// Checks the host.
pub fn run(cli: &Cli, around: &Surroundings) -> Result<Report, Failure> {
    let roots = &around.roots;
    let topology = topology::by_hwloc(roots);
    let node = topology.as_ref().ok().and_then(|topology| topology.with_memory().iter().next());
    let found = Findings {
        facts: facts::read(roots),
        page_size: check_page_size(roots),
        pfns_readable: probe::pfns_readable(roots),
        pagemap_scan: probe::pagemap_scan(roots),
        topology,
        ways: node.map(|node| node_room::ways(roots, node)),
        daemon: daemon(cli, around),
    };
    let document = DoctorDoc::from(checks(&found));
    let text = render(&document, cli.output, !cli.no_headers, text::doctor)?;
    Ok(Report { text, code: document.code() })
}

fn daemon(cli: &Cli, around: &Surroundings) -> DaemonState {
    let request_timeout = PATIENCE.min(cli.connect.request_timeout);
    let args = ConnectArgs { request_timeout, ..cli.connect.clone() };
    let endpoint = match place::choose(&args, &around.environment) {
        Ok(Place::Daemon(endpoint)) => endpoint,
        Ok(Place::Here) if args.standalone => return DaemonState::NotAsked,
        Ok(Place::Here) => return DaemonState::NotRunning,
        Err(failure) => return DaemonState::Misnamed(failure.to_string()),
    };
    let asked = Daemon::connect(endpoint, &args).and_then(|daemon| daemon.status());
    match asked {
        Ok(status) => DaemonState::Reachable {
            version: status.version,
            role: status.role,
            holds: status.holds,
            problems: status.problems,
        },
        Err(Failure::Unreachable { endpoint, reason, .. }) => {
            DaemonState::Unreachable(format!("not reachable at {endpoint}: {reason}"))
        }
        Err(Failure::Refused { message, .. }) => DaemonState::Refused(message),
        Err(failure) => DaemonState::Misnamed(failure.to_string()),
    }
}
