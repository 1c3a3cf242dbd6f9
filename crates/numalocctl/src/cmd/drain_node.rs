//! Carries out `numalocctl drain-node`: moves all that can move from a node, and shows what is left there.

use super::{Surroundings, chosen, shown};
use crate::{
    args::{Cli, DrainNodeArgs, MigrateArgs},
    doc::DrainNodeDoc,
    engine::{Engine, Migrated},
    exit::{Code, Failure},
    fields::{amount, with_memory},
    job,
    output::CommandResult,
    text,
};
use numaloc_api::v1;

/// Empties a node as far as that is possible.
pub fn run(
    cli: &Cli,
    around: &Surroundings,
    args: &DrainNodeArgs,
) -> Result<CommandResult, Failure> {
    let engine = chosen(cli, around)?.open()?;
    let topology = engine.topology()?.topology.unwrap_or_default();
    let with_memory = with_memory(&topology);
    let targets = args.targets(&with_memory)?;
    let before = contents(&*engine, args)?;
    let migrations = [Some(args.processes(&targets)), args.cache(&targets)];
    let mut document = DrainNodeDoc { before, plans: Vec::new(), jobs: Vec::new(), after: None };
    for migration in migrations.iter().flatten() {
        if args.dry_run {
            let spec = migration.plan.spec(&with_memory)?;
            document.plans.push(engine.plan(&spec, &[])?);
        } else {
            document.jobs.push(moved(&*engine, migration)?);
        }
    }
    if !args.dry_run {
        document.after = Some(contents(&*engine, args)?);
    }
    let code = code(&document);
    let report = shown(cli, &document, text::drain_node)?;
    Ok(CommandResult { code, ..report })
}

fn contents(engine: &dyn Engine, args: &DrainNodeArgs) -> Result<v1::NodeContents, Failure> {
    let [contents] = engine.contents(&args.drained())?.nodes.try_into().unwrap_or_default();
    Ok(contents)
}

fn moved(engine: &dyn Engine, migration: &MigrateArgs) -> Result<v1::Job, Failure> {
    match engine.migrate(migration)? {
        Migrated::Ended(job) | Migrated::Created(job) | Migrated::Checked(job) => Ok(*job),
    }
}

/// Memory that could move and is still there is a part that is left. A job that was cancelled or ran out of time says
/// more.
fn code(document: &DrainNodeDoc) -> Code {
    let ends = document.jobs.iter().map(job::code);
    let end = ends.filter(|&end| end != Code::Done).max_by_key(|&end| end as i32);
    let movable = |after: &v1::NodeContents| {
        let kinds = after.kinds.iter().filter(|each| text::is_movable(each.kind()));
        kinds.map(|each| amount(each.bytes)).sum::<u64>()
    };
    match (end, &document.after) {
        (Some(end), _) => end,
        (None, Some(after)) if movable(after) > 0 => Code::Partly,
        (None, _) => Code::Done,
    }
}
