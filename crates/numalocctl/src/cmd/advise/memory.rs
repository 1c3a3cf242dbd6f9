//! Memory that advice moves, and the way back.

use crate::{
    args::{Cli, Command},
    cmd::{Surroundings, migrate},
    doc::UndoEnd,
    exit::{Code, Failure},
};
use clap::Parser;
use numaloc_core::{
    Identity, NodeId,
    advise::{Sight, Who, back::back, migration},
};
use numaloc_host::{
    advised::{Change, Moved},
    sight,
};
use std::{collections::BTreeMap, time::Duration};

/// The placement that a migration replaces.
pub fn change(who: &Who, words: &[String], before: &Sight) -> Change {
    let whose = match who {
        Who::Cgroup(path) => Moved::Cgroup(path.clone()),
        Who::Process(Identity { pid, start_time }) => {
            Moved::Process { pid: *pid, start_time: *start_time }
        }
    };
    let bound = words.iter().any(|word| word == INCLUDE_BOUND);
    let before = before.resident.iter().map(|(node, &bytes)| (node.0, bytes)).collect();
    Change::Memory { whose, bound, before }
}

const INCLUDE_BOUND: &str = "--include-bound";

/// Runs a command line of `numalocctl migrate`, by the daemon or this program as the present command line says.
///
/// # Errors
/// The migration failed.
pub fn migrate(cli: &Cli, around: &Surroundings, words: &[String]) -> Result<Code, Failure> {
    let parsed = Cli::try_parse_from(words).map_err(|error| Failure::Usage(error.to_string()))?;
    let migration = Cli { connect: cli.connect.clone(), ..parsed };
    let Command::Migrate(args) = &migration.command else {
        return Err(Failure::Usage(format!("{} is not a migration", words.join(" "))));
    };
    let result = migrate::run(&migration, around, args)?;
    match result.code {
        Code::Done | Code::Partly => Ok(result.code),
        code => {
            let message = result.text.split_whitespace().collect::<Vec<_>>().join(" ");
            Err(Failure::Refused { code, message })
        }
    }
}

/// Brings memory back to where it was, as near as migrations can.
///
/// # Errors
/// The host cannot be read, or a migration failed.
pub fn bring_back(
    cli: &Cli,
    around: &Surroundings,
    whose: &Moved,
    bound: bool,
    before: &BTreeMap<u32, u64>,
) -> Result<UndoEnd, Failure> {
    let who = match whose {
        Moved::Cgroup(path) => Who::Cgroup(path.clone()),
        &Moved::Process { pid, start_time } => Who::Process(Identity { pid, start_time }),
    };
    let before = before.iter().map(|(&node, &bytes)| (NodeId(node), bytes)).collect();
    let now = || sight(&|| false, &around.roots, Some(&who), Duration::ZERO);
    let Some(found) = now()? else { return Ok(UndoEnd::Gone) };
    let mut end = UndoEnd::Undone;
    for part in back(&found.resident, &before) {
        let mut words = migration(&who, part);
        words.extend(bound.then(|| INCLUDE_BOUND.to_owned()));
        if migrate(cli, around, &words)? == Code::Partly {
            end = UndoEnd::Partly;
        }
    }
    Ok(if now()?.is_some() { end } else { UndoEnd::Gone })
}
