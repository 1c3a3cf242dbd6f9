//! Makes sure that commands that need a target have one, and finds the processes that it names by name.

use super::Surroundings;
use crate::{
    args::Cli,
    endpoint::Address,
    exit::Failure,
    output::complain,
    place::{self, Place},
};

/// Whom a command is about if nothing names it.
const NO_TARGET: &str = "no target: name processes by pid or name, for example 4711 or redis-server, or give --pid, --cgroup, --unit, --container, \
     --container-label, --pod, --vm, --selector or --namespace, or files with --file (see --help)";

/// Finds the processes of the target, if the command has one.
///
/// # Errors
/// A target is needed, and there is none. No process has a name. The daemon may be on another host, where names of this
/// one mean nothing.
pub fn prepare(cli: &mut Cli, around: &Surroundings) -> Result<(), Failure> {
    let connect = cli.connect.clone();
    let Some((target, is_needed)) = cli.command.target_mut() else { return Ok(()) };
    if target.is_empty() && is_needed {
        return Err(Failure::Usage(NO_TARGET.into()));
    }
    if target.has_names()
        && let Place::Daemon(endpoint) = place::choose(&connect, &around.environment)?
        && endpoint.address == Address::Https
    {
        let uri = endpoint.uri;
        return Err(Failure::Usage(format!(
            "a name means processes of this host, and the daemon at {uri} may be on another one: name pids, a unit or a cgroup of its host"
        )));
    }
    target.find_processes(&around.roots, &complain)
}
