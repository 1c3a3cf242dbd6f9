//! Carries out `numalocctl doctor`: looks at this host and at its daemon.

use super::Surroundings;
use crate::{
    args::{Cli, ConnectArgs},
    check::{ContainersState, DaemonState, Findings, MoverGroupState, checks},
    container_runtime,
    doc::DoctorDoc,
    exit::Failure,
    output::{CommandResult, View, render},
    place::{self, Place},
    remote::Daemon,
    settings, text,
};
use numaloc_dma::dsa;
use numaloc_host::{
    Roots, facts, node_room, probe::OwnPageMap, real_time_hogs, resctrl, topology, unix_socket,
};
use std::time::Duration;

/// Longest wait for the daemon.
const PATIENCE: Duration = Duration::from_secs(5);

pub fn run(cli: &Cli, around: &Surroundings) -> Result<CommandResult, Failure> {
    let roots = &around.roots;
    let topology = topology::by_hwloc(roots);
    let node = topology.as_ref().ok().and_then(|topology| topology.with_memory().iter().next());
    let (daemon, told_by) = daemon(cli, around);
    let socket = roots.run.join("containerd/containerd.sock");
    let containerd = container_runtime::ask(&socket, PATIENCE);
    let containers = ContainersState {
        nri: unix_socket(roots, "nri/nri.sock"),
        runc_sets_policies: container_runtime::sets_memory_policies(&containerd),
        containerd,
        told_by,
    };
    let own = OwnPageMap::open(roots);
    let found = Findings {
        facts: facts::read(roots),
        pfns_readable: own.shows_frames(),
        pagemap_scan: own.can_scan(),
        topology,
        ways: node.map(|node| node_room::rights(roots, node)),
        containers,
        real_time: real_time_hogs(roots).unwrap_or_default(),
        dsa: dsa::find(roots),
        mover_group: mover_group(roots),
        daemon,
    };
    let document = DoctorDoc::from(checks(&found));
    let text = render(&document, cli.output, View::of(cli), text::doctor)?;
    Ok(CommandResult { text, code: document.code() })
}

/// The resctrl group of the daemon's configuration, and whether this host has what it asks for.
fn mover_group(roots: &Roots) -> MoverGroupState {
    match settings::mover_group(&roots.etc) {
        None => MoverGroupState::Unset,
        Some(group) => match resctrl::check(roots, &group) {
            Ok(()) => MoverGroupState::Set(group),
            Err(error) => MoverGroupState::Wrong(error.to_string()),
        },
    }
}

/// The daemon, and the source of its containers.
fn daemon(cli: &Cli, around: &Surroundings) -> (DaemonState, Option<String>) {
    let request_timeout = PATIENCE.min(cli.connect.request_timeout);
    let args = ConnectArgs { request_timeout, ..cli.connect.clone() };
    let endpoint = match place::choose(&args, &around.environment) {
        Ok(Place::Daemon(endpoint)) => endpoint,
        Ok(Place::Here) if args.standalone => return (DaemonState::NotAsked, None),
        Ok(Place::Here) => return (DaemonState::NotRunning, None),
        Err(failure) => return (DaemonState::Misnamed(failure.to_string()), None),
    };
    let daemon = Daemon::connect(endpoint, &args);
    let asked = daemon.and_then(|daemon| {
        let status = daemon.status()?;
        // Callers that may not list them get nothing of them.
        Ok((status, daemon.told_by().ok().flatten()))
    });
    let (asked, told_by) = match asked {
        Ok((status, told_by)) => (Ok(status), told_by),
        Err(failure) => (Err(failure), None),
    };
    let state = match asked {
        Ok(status) => DaemonState::Reachable {
            version: status.version,
            role: status.role,
            holds: status.holds.unwrap_or_default(),
            problems: status.problems,
        },
        Err(Failure::Unreachable { endpoint, reason, .. }) => {
            DaemonState::Unreachable(format!("not reachable at {endpoint}: {reason}"))
        }
        Err(Failure::SocketForbidden { endpoint, .. }) => DaemonState::Forbidden(endpoint),
        Err(Failure::Refused { message, .. }) => DaemonState::Refused(message),
        Err(failure) => DaemonState::Misnamed(failure.to_string()),
    };
    (state, told_by)
}
