//! Carries out `numalocctl topology`, by the daemon or this program itself.

use super::{Surroundings, daemon, shown};
use crate::{
    args::{Cli, TopologyArgs},
    exit::{Code, Failure},
    output::CommandResult,
    text,
};
use numaloc_api::v1;
use numaloc_host::topology;

pub fn run(cli: &Cli, around: &Surroundings, args: TopologyArgs) -> Result<CommandResult, Failure> {
    let answer = match daemon(cli, around)? {
        Some(daemon) => daemon.topology()?,
        None => {
            let topology = Some((&topology::by_hwloc(&around.roots)?).into());
            v1::GetTopologyResponse { topology }
        }
    };
    let topology = answer.topology.clone().unwrap_or_default();
    match args.numactl {
        true => Ok(CommandResult { text: text::numactl(&topology), code: Code::Done }),
        false => shown(cli, &answer, |_, view| text::topology(&topology, view)),
    }
}
