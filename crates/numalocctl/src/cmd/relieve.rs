//! Carries out `numalocctl relieve`: moves memory from a node until enough of it is free, or while it is used too much.

use super::{Surroundings, chosen, shown};
use crate::{
    args::{Cli, RelieveArgs, TargetArgs},
    doc::RelieveDoc,
    engine::Migrated,
    exit::{Code, Failure},
    fields::{amount, node, with_memory},
    job,
    output::CommandResult,
    text,
};
use numaloc_api::v1;

/// Relieves a node as far as that is possible.
pub fn run(cli: &Cli, around: &Surroundings, args: &RelieveArgs) -> Result<CommandResult, Failure> {
    let engine = chosen(cli, around)?.open()?;
    let topology = engine.topology()?.topology.unwrap_or_default();
    let with_memory = with_memory(&topology);
    let target = match args.target.is_empty() {
        true => TargetArgs { cgroup: engine.best_effort()?, ..args.target.clone() },
        false => args.target.clone(),
    };
    let migration = args.migration(target);
    let mut document = RelieveDoc {
        node_id: args.node,
        wanted_free_bytes: args.bound.free,
        wanted_bytes_per_second: args.bound.bandwidth,
        free_before_bytes: free_bytes(&topology, args.node),
        free_after_bytes: None,
        plan: None,
        job: None,
    };
    if args.dry_run {
        let spec = migration.plan.spec(&with_memory)?;
        document.plan = Some(engine.plan(&spec, &[])?);
    } else {
        document.job = Some(match engine.migrate(&migration)? {
            Migrated::Ended(job) | Migrated::Created(job) | Migrated::Checked(job) => *job,
        });
        let after = engine.topology()?.topology.unwrap_or_default();
        document.free_after_bytes = Some(free_bytes(&after, args.node));
    }
    let code = code(&document);
    let report = shown(cli, &document, text::relieve)?;
    Ok(CommandResult { code, ..report })
}

/// Bytes that are free on a node; 0 for a node that is not online.
fn free_bytes(topology: &v1::Topology, id: u32) -> u64 {
    let found = topology.nodes.iter().find(|each| node(each.node_id) == id);
    found.map_or(0, |node| amount(node.free_bytes))
}

/// Less free memory than wanted is a part that is left, unless as much has moved and others have taken it. A job that was
/// cancelled or ran out of time says more.
fn code(document: &RelieveDoc) -> Code {
    let Some((job, after)) = document.job.as_ref().zip(document.free_after_bytes) else {
        return Code::Done;
    };
    let account = job.outcome.as_ref().and_then(|outcome| outcome.account.as_ref());
    let moved = account.map_or(0, |account| amount(account.moved_bytes));
    let wanted_bytes = document.wanted_free_bytes.unwrap_or_default();
    let lacked = wanted_bytes.saturating_sub(document.free_before_bytes);
    match job::code(job) {
        Code::Done if after < wanted_bytes && moved < lacked => Code::Partly,
        code => code,
    }
}
