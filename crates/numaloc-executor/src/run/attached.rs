//! Moves what the target has attached and no process maps ([`Pages::Unmapped`]), after what is mapped: as page cache is moved, but
//! into the accounts of the processes that have attached it.

use crate::{
    limits::assignment::Assignment,
    run::file_run::{FileOutcome, FileRun, PlannedFile, Unmapped},
    work::{
        Work,
        report::{self, Report},
    },
};
use numaloc_core::{CacheGoal, FilePlan, NodeSet, Pages};
use numaloc_host::AttachedFile;

/// Moves the unmapped pages of a plan, and counts them in the report.
pub fn move_unmapped(run: Assignment<'_>, work: &Work<'_>, report: &mut Report) {
    let Assignment { roots, topology, memory, plan, survey, limits, control } = run;
    for (index, planned_move) in plan.moves.iter().enumerate() {
        if planned_move.pages != Pages::Unmapped {
            continue;
        }
        let first = planned_move.mappings[0];
        let Some(attached) = survey.attached.get(&(first.process, first.start)) else { continue };
        let sources: NodeSet = planned_move.remote.keys().copied().collect();
        let run = FileRun {
            roots,
            topology,
            memory,
            options: &plan.options,
            limits,
            control,
            // The way to it goes through a process: only through the one of the survey.
            admits: &|_| survey.spaces[first.process].is_alive(),
            unmapped: Some(Unmapped { sources: &sources, stop: &|| work.stop() }),
        };
        let AttachedFile { path, id, cache } = attached.clone();
        let goal = CacheGoal::On(plan.routes[planned_move.routes].targets.clone());
        let file_plan = FilePlan::new(&goal, &cache);
        let file = PlannedFile { path, id, cache, plan: file_plan };
        for outcome in run.carry_out(&[&[file]]) {
            add(report, index, first.process, outcome);
        }
    }
}

/// Counts the result of a move of the plan in the account of a process.
fn add(report: &mut Report, index: usize, process: usize, outcome: FileOutcome) {
    let FileOutcome { account, flows, calls } = outcome;
    report.found[index] += account.found_bytes();
    report.moved[index] += account.moved_bytes();
    report.accounts[process].add(&account);
    report::add(&mut report.flows[process], flows);
    report.calls.add(&calls);
}
