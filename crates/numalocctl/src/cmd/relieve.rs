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
    // The plan was made after `free_before_bytes` was read, and some pages may have become free since.
    let limit = job.plan.as_ref().and_then(|plan| plan.limit_bytes).map(amount);
    let lacked = limit.unwrap_or(wanted_bytes.saturating_sub(document.free_before_bytes));
    match job::code(job) {
        Code::Done if after < wanted_bytes && moved < lacked => Code::Partly,
        code => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_plan_has_asked_for_is_enough_whatever_others_take() {
        let ended = |moved_bytes, limit_bytes, after| {
            let account = v1::Account { moved_bytes, ..v1::Account::default() };
            let outcome = v1::Outcome { account: Some(account), ..v1::Outcome::default() };
            let plan = v1::Plan { limit_bytes, ..v1::Plan::default() };
            code(&RelieveDoc {
                node_id: 1,
                wanted_free_bytes: Some(1000),
                wanted_bytes_per_second: None,
                free_before_bytes: 400,
                free_after_bytes: Some(after),
                plan: None,
                job: Some(v1::Job {
                    state: v1::JobState::Succeeded.into(),
                    outcome: Some(outcome),
                    plan: Some(plan),
                    ..v1::Job::default()
                }),
            })
        };
        assert_eq!(ended(600, Some(600), 1000), Code::Done);
        assert_eq!(ended(590, Some(590), 990), Code::Done, "ten more were free at the plan");
        assert_eq!(ended(500, Some(590), 900), Code::Partly);
        assert_eq!(ended(500, None, 900), Code::Partly, "all that there was is too little");
        assert_eq!(ended(600, None, 990), Code::Done, "others have taken some");
    }
}
