//! Carries out `numalocctl topology`.

use super::{Surroundings, bench, chosen, shown};
use crate::{
    args::{Cli, TopologyArgs},
    exit::{Code, Failure},
    output::CommandResult,
    text,
};

pub fn run(cli: &Cli, around: &Surroundings, args: TopologyArgs) -> Result<CommandResult, Failure> {
    let engine = chosen(cli, around)?;
    let answer = engine.open()?.topology()?;
    let topology = answer.topology.clone().unwrap_or_default();
    match args.numactl {
        true => Ok(CommandResult { text: text::numactl(&topology), code: Code::Done }),
        false => shown(cli, &answer, |_, view| {
            let is_kept_shown = engine.is_this_host() && !view.rows_alone();
            let kept = is_kept_shown.then(|| bench::kept(&around.roots)).flatten();
            let kept = kept.map(|kept| text::kept(&kept, view)).unwrap_or_default();
            text::topology(&topology, view) + &kept
        }),
    }
}
